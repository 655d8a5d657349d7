"""The error of all functions that check values."""


class InvalidValue(ValueError):
    """A value that cannot be stored.

    `code` is stable, such as `too_long`; `detail` is for people and does not name the field, such
    as "at most 255 characters".
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
