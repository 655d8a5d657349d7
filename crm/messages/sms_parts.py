"""How long an SMS may be: one part has 160 characters of GSM 03.38, or 70 of UCS-2.

A longer text is sent and paid as several SMS. One Ukrainian letter makes all of a text UCS-2.
"""

GSM_CHARACTERS = 160
UCS2_CHARACTERS = 70  # of UTF-16: what is beyond the basic plane takes two
TWO_CHARACTER_SIGNS = frozenset("^{}\\[~]|")  # two characters each in GSM 03.38


def is_one_part(text: str) -> bool:
    """Return whether the text fits into one SMS.

    Of GSM 03.38 only the characters of ASCII are counted on: gateways differ in the others.
    """
    if text.isascii() and "`" not in text:
        size = len(text) + sum(character in TWO_CHARACTER_SIGNS for character in text)
        return size <= GSM_CHARACTERS
    return len(text.encode("utf-16-le")) // 2 <= UCS2_CHARACTERS


def choose_one_part(*texts: str) -> str:
    """Return the first text that fits into one SMS; the last one if none does."""
    return next(filter(is_one_part, texts), texts[-1])
