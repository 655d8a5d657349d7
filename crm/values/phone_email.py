"""Phone numbers and e-mail addresses (D2)."""

import re
import unicodedata

from crm.values.invalid_value import InvalidValue
from crm.values.text import one_line

_NO_PHONE = "must be a whole phone number, such as 067 123 45 67 or +48 22 123 45 67, no extension"
_INVALID_PHONE = ("invalid_phone", _NO_PHONE)  # code and detail
_INVALID_EMAIL = ("invalid_email", "must be an e-mail address such as olena@example.com")


def phone(value: object) -> str | None:
    """Return a phone number in E.164, `+` and 7 to 15 digits; None if it is empty (D2).

    A Ukrainian number has nine digits behind `+380`, `380`, `80`, `0` or nothing; one digit more or
    fewer is a mistake, which must not be stored as another number. Numbers of other countries begin
    with `+` or `00`, and are refused only if the library finds them impossible.
    Errors: invalid_type, invalid_text, too_long, invalid_phone.
    """
    text = one_line(value, 32)
    if text is None:
        return None
    if not text.isascii():  # digits and signs of other scripts
        text = unicodedata.normalize("NFKC", text)
        text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    if not _PHONE.fullmatch(text):
        raise InvalidValue(*_INVALID_PHONE)
    digits = _NOT_A_DIGIT.sub("", text)
    # The library would take 19 µs, and finds every number of this form possible.
    if local := _UKRAINIAN.fullmatch(digits):
        return f"+380{local[1]}"
    digits = _INTERNATIONAL_PREFIX.sub("+", digits)
    if not digits.startswith("+") or digits.startswith("+380"):
        raise InvalidValue(*_INVALID_PHONE)
    number = _e164(digits)
    # The library removes one trunk zero each time; a stored number must be read as itself.
    while number != digits and len(shorter := _e164(number)) < len(number):
        number = shorter
    return number


def email(value: object) -> str | None:
    """Return an e-mail address as typed, trimmed; None if it is empty. Checks only syntax (D2).

    The database ignores the case of ASCII letters; an address with other letters is stored in lower
    case.

    Domains in any script are fine; quoted local parts, IP addresses and domains without a dot
    are not. Errors: invalid_type, invalid_text, too_long, invalid_email.
    """
    text = one_line(value, 254)
    if text is None:
        return None
    if not _EMAIL.fullmatch(text):
        raise InvalidValue(*_INVALID_EMAIL)
    local, _, domain = text.partition("@")
    if len(local) > 64:
        raise InvalidValue("too_long", "at most 64 characters before the @")
    if text.isascii():
        return text
    if not (text.isprintable() and _is_international(domain)):
        raise InvalidValue(*_INVALID_EMAIL)
    return unicodedata.normalize("NFC", text.lower())


_PHONE = re.compile(r"[\s(\[]*\+*[0-9\s().\[\]/~‐-―−ー～⁓∼-]+")
_NOT_A_DIGIT = re.compile(r"[^0-9+]|(?<=\+)\+")
# `+380 (050)…` is written often: a zero that belongs to `050…` alone.
_UKRAINIAN = re.compile(r"(?:(?:\+|00)?3800?|80|0)?([1-9][0-9]{8})")
# Of nine digits it would be a Ukrainian number with a zero too many.
_INTERNATIONAL_PREFIX = re.compile(r"^00(?!.{9}$)")
_E164 = re.compile(r"\+[0-9]{7,15}")
# What they exclude: to list all letters up to U+10FFFF instead takes 20 ms at each start.
_ATOM = r"[^\x00-\x20\x7f\"(),.:;<>@\[\\\]]+"
_ALNUM = r"[^\x00-/:-@\[-`{-\x7f]"
_LABEL_END = rf"(?:[^\x00-,./:-@\[-`{{-\x7f]{{0,61}}{_ALNUM})?"
_EMAIL = re.compile(
    rf"{_ATOM}(?:\.{_ATOM})*@(?:{_ALNUM}{_LABEL_END}\.)+(?![0-9]){_ALNUM}{_LABEL_END}"
)


def _e164(digits: str) -> str:
    import phonenumbers  # takes 16 ms, of processes that meet numbers of other countries alone

    try:
        number = phonenumbers.parse(digits)
    except phonenumbers.NumberParseException:
        raise InvalidValue(*_INVALID_PHONE) from None
    text = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    # The library finds a few numbers possible that no network could carry (+49 and 15 digits).
    if not (phonenumbers.is_possible_number(number) and _E164.fullmatch(text)):
        raise InvalidValue(*_INVALID_PHONE)
    return text


def _is_international(domain: str) -> bool:
    return all(
        label.isascii()
        or (
            all(c == "-" or unicodedata.category(c)[0] in "LMN" for c in label)
            and len("xn--" + label.encode("punycode").decode("ascii")) <= 63
        )
        for label in domain.split(".")
    )
