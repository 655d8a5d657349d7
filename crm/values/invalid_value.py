"""Why a value can't be kept."""


class InvalidValue(ValueError):
    """A value that can't be kept.

    `code` is stable (`too_long`), `detail` is for people and doesn't name the field
    ("at most 255 characters").
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail
