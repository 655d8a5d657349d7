"""What a single value may be, and the form in which it is kept.

Texts, phones, e-mail addresses, numbers, times, currencies, tags and free JSON objects, each by
one function: it takes what was sent and returns what is stored, or raises `Unfit`. Functions of
optional texts return None for the empty one. Nothing here knows fields, HTTP or the database.

spec: Leads, Clients, Deals, Products (formats of fields); D2, D4, D17.
"""

import re
import unicodedata
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from math import isfinite

import orjson
import phonenumbers

PRICE_MAX = 99_999_999_999_999  # 9 999 999 999.9999 in 1/10 000 (D2)
AMOUNT_MAX = 99_999_999_999_999_900  # 9 999 999 999 999.99 in 1/10 000 (D2)
QUANTITY_MAX = 999_999_999  # 999 999.999 in 1/1000 (D2)


class Unfit(ValueError):
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


# Texts


def one_line(value: object, longest: int) -> str | None:
    """A text of one line: trimmed, NFC, line breaks as one space; None when empty (D2).

    Errors: invalid_type, invalid_text, too_long.
    """
    # Most texts are clean as sent: 0.2 µs here instead of 0.9 µs below.
    if (
        type(value) is str
        and len(value) <= longest
        and value.isprintable()
        and (value.isascii() or unicodedata.is_normalized("NFC", value))
    ):
        return value.strip() or None
    return _text(value, longest, _LINE_BREAKS, " ")


def long_text(value: object, longest: int = 20_000) -> str | None:
    r"""A text of many lines: trimmed, NFC, line breaks as `\n`; None when empty (D2).

    Errors: invalid_type, invalid_text, too_long.
    """
    return _text(value, longest, _LINE_BREAK, "\n")


def url_text(value: object, longest: int = 2048) -> str | None:
    """The address of a page as it was sent: one line, not checked as a URL (D2, D4)."""
    # A form's page_url may be anything a browser or a tag manager made of it.
    return one_line(value, longest)


def tag_list(value: object, longest: int = 64, most: int = 50) -> list[str]:
    """Tags in their order; of those that differ only in case the first stays (D2, D6).

    Errors: invalid_type, invalid_text, too_long, required, too_many.
    """
    if not isinstance(value, list | tuple):
        raise Unfit("invalid_type", "must be a list of texts")
    if len(value) > most:
        raise Unfit("too_many", f"at most {most} tags")
    tags: dict[str, str] = {}
    for sent in value:
        tag = one_line(sent, longest)
        if tag is None:
            raise Unfit("required", "a tag must not be empty")
        tags.setdefault(_folded(tag), tag)
    return list(tags.values())


_LINE_BREAK = re.compile("\r\n?|[\u2028\u2029]")
_LINE_BREAKS = re.compile("[\r\n\u2028\u2029]+")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_MARKS_IN_A_ROW = 30


def _text(value: object, longest: int, breaks: re.Pattern[str], instead: str) -> str | None:
    if not isinstance(value, str):
        raise Unfit("invalid_type", "must be a text")
    text = breaks.sub(instead, value).strip()
    # NFC makes at most one character of four, so this much can be refused before the work.
    if len(text) > 4 * longest:
        raise Unfit("too_long", f"at most {longest} characters")
    if _FORBIDDEN.search(value):
        raise Unfit("invalid_text", "must not contain control characters or broken Unicode")
    text = _nfc(text)
    if len(text) > longest:
        raise Unfit("too_long", f"at most {longest} characters")
    return text or None


def _nfc(text: str) -> str:
    if unicodedata.is_normalized("NFC", text):
        return text
    # Python sorts unordered marks in quadratic time: 80,000 of them take 4 s. Thirty in a row is
    # the bound of Unicode's own stream-safe format (UAX #15), far beyond any language.
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > _MARKS_IN_A_ROW:
            raise Unfit("invalid_text", "too many accents on one character")
    return unicodedata.normalize("NFC", text)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


# Phone and e-mail


def phone(value: object) -> str | None:
    """A phone number as E.164, `+` and 7 to 15 digits; None when empty (D2).

    A number without a country is Ukrainian: `050…`, `380…` and `8050…` are all understood.
    Errors: invalid_type, invalid_text, too_long, invalid_phone.
    """
    text = one_line(value, 32)
    if text is None:
        return None
    if not text.isascii():
        text = "".join(map(_dialled, text))
    if not _PHONE.fullmatch(text):
        raise _not_a_phone()
    digits = _NOT_A_DIGIT.sub("", text)
    # The library takes 19 µs and finds every number of this shape possible.
    if local := _UKRAINIAN.fullmatch(digits):
        return f"+380{local[1]}"
    kept = _e164(digits)
    # The library takes off a trunk zero at each reading; what is kept must read as itself.
    while kept != digits and len(again := _e164(kept)) < len(kept):
        kept = again
    return kept


def email(value: object) -> str | None:
    """An e-mail address as typed, trimmed; None when empty. Only its syntax is checked (D2).

    The file compares ASCII letters in any case; with others among them it is kept in lower case.

    Domains in any script are fine; quoted local parts, IP addresses and domains without a dot
    are not. Errors: invalid_type, invalid_text, too_long, invalid_email.
    """
    text = one_line(value, 254)
    if text is None or not (text := text.strip(_INVISIBLE)):
        return None
    if not _EMAIL.fullmatch(text):
        raise _not_an_email()
    local, _, domain = text.partition("@")
    if len(local) > 64:
        raise Unfit("too_long", "at most 64 characters before the @")
    if text.isascii():
        return text
    if not (text.isprintable() and _is_international(domain)):
        raise _not_an_email()
    return unicodedata.normalize("NFC", text.lower())


_PHONE = re.compile(r"[\s(\[]*\+*[0-9\s().\[\]/~-]+", re.ASCII)
_NOT_A_DIGIT = re.compile(r"[^0-9+]|(?<=\+)\+")
_UKRAINIAN = re.compile(r"(?:\+?380|80|0)([1-9][0-9]{8})")
_E164 = re.compile(r"\+[0-9]{7,15}")
# Marks of direction and joining that come along with a copied text.
_INVISIBLE = (
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2069\ufeff"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
_ALNUM = r"[A-Za-z0-9\u0080-\U0010ffff]"
_LABEL_END = rf"(?:[A-Za-z0-9\-\u0080-\U0010ffff]{{0,61}}{_ALNUM})?"
_EMAIL = re.compile(
    rf"{_ATOM}(?:\.{_ATOM})*@(?:{_ALNUM}{_LABEL_END}\.)+(?![0-9]){_ALNUM}{_LABEL_END}"
)


def _e164(digits: str) -> str:
    try:
        number = phonenumbers.parse(digits, "UA")
    except phonenumbers.NumberParseException:
        raise _not_a_phone() from None
    kept = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    # The library finds a few numbers possible that no network could carry (+49 and 15 digits).
    if not (phonenumbers.is_possible_number(number) and _E164.fullmatch(kept)):
        raise _not_a_phone()
    return kept


def _dialled(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if character == "＋":
        return "+"
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    if category in ("Zs", "Pd", "Ps", "Pe") or character in "．／−ー～⁓∼":
        return " "
    return character


def _is_international(domain: str) -> bool:
    return all(
        label.isascii()
        or (
            all(c == "-" or unicodedata.category(c)[0] in "LMN" for c in label)
            and len("xn--" + label.encode("punycode").decode("ascii")) <= 63
        )
        for label in domain.split(".")
    )


def _not_a_phone() -> Unfit:
    return Unfit("invalid_phone", "must be a phone number such as +380501234567, no extension")


def _not_an_email() -> Unfit:
    return Unfit("invalid_email", "must be an e-mail address such as olena@example.com")


# Numbers


def money(value: object, places: int = 4, largest: int = PRICE_MAX) -> int:
    """A price or an amount in 1/10 000, never rounded (D2).

    `value`: int, Decimal, float (the digits of its repr) or a numeric text; `largest` in 1/10 000.
    Errors: invalid_number, too_small (negative), too_large, too_precise.
    """
    return _units(value, 4, places, largest)


def quantity(value: object) -> int:
    """A quantity in 1/1000, more than 0 (D2). Errors: as `money`."""
    units = _units(value, 3, 3, QUANTITY_MAX)
    if not units:
        raise Unfit("too_small", "must be more than 0")
    return units


def percent(value: object) -> int:
    """A share of 0 to 100 % in 1/10 000 of a per cent (D8). Errors: as `money`."""
    return _units(value, 4, 4, 100 * 10_000)


def as_number(units: int, scale: int = 10_000) -> int | Decimal:
    """The exact number that `units` of 1/`scale` are: an int when whole, else a Decimal.

    The Decimal has no trailing zeros and no exponent. `scale`: a power of ten up to 1 000 000.
    """
    whole, rest = divmod(units, scale)
    return _EXACT.divide(units, scale) if rest else whole


# An own context: an application that embeds the CRM may have lowered the precision of its own.
_EXACT = Context(prec=60)
_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")


def _units(value: object, scale: int, places: int, largest: int) -> int:
    """`value` in units of 10 ** -`scale`, between 0 and `largest` of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise Unfit("too_small", "must not be negative")
        # Compared before it is multiplied: a number may have thousands of digits.
        if value > largest or (units := value * 10**scale) > largest:
            raise _too_large(largest, scale)
        return units
    negative, digits, exponent = _parts(value)
    if not digits:
        return 0
    if negative:
        raise Unfit("too_small", "must not be negative")
    if len(digits) + exponent > len(str(largest)):
        raise _too_large(largest, scale)
    if exponent < -places:
        raise Unfit("too_precise", f"at most {places} decimals")
    units = int(digits) * 10 ** (exponent + scale)
    if units > largest:
        raise _too_large(largest, scale)
    return units


def _parts(value: object) -> tuple[bool, str, int]:
    """Sign, digits without outer zeros, and power of ten.

    Work on the digits as text takes time in proportion to what was sent, whatever number it is.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = float.__repr__(value)
    elif isinstance(value, Decimal):
        text = str(value)
    else:
        raise Unfit("invalid_number", "must be a number")
    match = _NUMBER.fullmatch(text)
    if not match:
        raise Unfit("invalid_number", "must be a number such as 1250 or 1250.50")
    sign, whole, fraction, power_sign, power = match.groups()
    significant = (whole + (fraction or "")).lstrip("0")
    digits = significant.rstrip("0")
    exponent = len(significant) - len(digits) - len(fraction or "")
    power = (power or "").lstrip("0")
    if power:
        size = int(power) if len(power) < 10 else 10**10
        exponent += -size if power_sign == "-" else size
    return sign == "-", digits, exponent


def _too_large(largest: int, scale: int) -> Unfit:
    return Unfit("too_large", f"at most {as_number(largest, 10**scale)}")


# Times


def moment(value: object) -> str:
    """A moment as `YYYY-MM-DDTHH:MM:SSZ`, from RFC 3339 text or an aware datetime (D2).

    Fractions of a second are cut; years 1970 to 9999. Errors: invalid_time.
    """
    if isinstance(value, datetime):
        return _utc(value)
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise _not_a_moment()
    try:
        local = datetime.fromisoformat(f"{match[1]}{match[2].upper()}")
    except ValueError:
        raise _not_a_moment() from None
    return _utc(local)


def day(value: object) -> str:
    """A date as `YYYY-MM-DD`, from such a text or a date (D2). Errors: invalid_date."""
    # A datetime is a date to Python, but which day it is depends on where one stands.
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            pass
    raise Unfit("invalid_date", "must be a date such as 2026-03-31")


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    rf"({_DAY.pattern}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def _utc(local: datetime) -> str:
    if local.utcoffset() is None:
        raise _not_a_moment()
    try:
        exact = local if local.tzinfo is UTC else local.astimezone(UTC)
    except OverflowError:
        raise _not_a_moment() from None
    if exact.year < 1970:
        raise Unfit("invalid_time", "must not be before 1970")
    return exact.isoformat("T", "seconds")[:19] + "Z"


def _not_a_moment() -> Unfit:
    return Unfit(
        "invalid_time", "must be a time with an offset such as 2026-03-31T12:00:00Z or …+03:00"
    )


# Currencies

# ISO 4217, list one up to amendment 180 (January 2026), without funds, units of account, metals
# and test codes.
_CODES = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD
CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS
GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW
KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR
MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES = frozenset(_CODES.split())


def currency(value: object) -> str:
    """A currency in use, by its ISO 4217 letters, upper case (D2). Errors: invalid_currency."""
    if isinstance(value, str):
        if value in CURRENCIES:
            return value
        # str.upper() makes ASCII of a few other letters: `ß` becomes SS.
        if value.isascii() and (code := value.strip().upper()) in CURRENCIES:
            return code
    raise Unfit("invalid_currency", "must be a currency code of ISO 4217 such as UAH")


# Free objects


def json_object(
    value: object, longest_bytes: int = 16 * 1024, most_keys: int = 50, deepest: int = 4
) -> str:
    """A free object as compact JSON text, its numbers exact (D4, D17).

    `most_keys` counts the outermost keys, `longest_bytes` the text in UTF-8, `deepest` objects
    and lists inside each other, the outermost included.
    Errors: invalid_type, invalid_text, invalid_number, too_many, too_deep, too_large.
    """
    if not isinstance(value, dict):
        raise Unfit("invalid_type", "must be an object")
    if len(value) > most_keys:
        raise Unfit("too_many", f"at most {most_keys} keys")
    _check_json(value, longest_bytes, deepest)
    text = orjson.dumps(value, default=_json_digits)
    if len(text) > longest_bytes:
        raise Unfit("too_large", f"at most {longest_bytes} bytes as JSON")
    return text.decode()


_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")


def _check_json(value: dict, longest_bytes: int, deepest: int) -> None:
    entries = 0
    inside = [(value, 1)]
    while inside:
        container, depth = inside.pop()
        if depth > deepest:
            raise Unfit("too_deep", f"at most {deepest} levels of objects and lists")
        # An entry takes two bytes at least, so a vast list is refused before it is read.
        entries += len(container)
        if 2 * entries > longest_bytes:
            raise Unfit("too_large", f"at most {longest_bytes} bytes as JSON")
        entry: object
        for entry in container:
            if isinstance(container, dict):
                _check_json_text(entry)
                entry = container[entry]
            kind = entry.__class__
            if kind is str:
                _check_json_text(entry)
            elif kind is dict or kind is list:
                inside.append((entry, depth + 1))
            elif kind is int or kind is float or kind is Decimal:
                _check_json_number(entry)
            elif entry is not None and kind is not bool:
                raise Unfit("invalid_type", "must be made of JSON values")


def _check_json_text(value: object) -> None:
    if value.__class__ is not str:
        raise Unfit("invalid_type", "must have texts as keys")
    if not value.isprintable() and _NUL_OR_SURROGATE.search(value):
        raise Unfit("invalid_text", "must not contain NUL or broken Unicode")


def _check_json_number(value: int | float | Decimal) -> None:
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**64
    elif isinstance(value, float):
        fits = isfinite(value)
    else:
        # Beyond a double's range other readers of the text fail or see infinity.
        fits = value.is_finite() and abs(value.adjusted()) < 308
    if not fits:
        raise Unfit("invalid_number", "must have only numbers that every JSON reader can read")


def _json_digits(value: Decimal) -> orjson.Fragment:
    return orjson.Fragment(str(value))
