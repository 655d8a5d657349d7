"""Exact numbers (D2): money in 1/10 000, quantities in 1/1 000, and currencies."""

import re
from decimal import Context, Decimal

from crm.values.invalid_value import InvalidValue

PRICE_MAX = 99_999_999_999_999  # 9 999 999 999.9999 in 1/10 000 (D2)
AMOUNT_MAX = 99_999_999_999_999_900  # 9 999 999 999 999.99 in 1/10 000 (D2)
CENT = 100  # in 1/10 000
QUANTITY_MAX = 999_999_999  # 999 999.999 in 1/1000 (D2)
NUMBER_MAX = 999_999_999_999_999  # 99 999 999 999.9999 in 1/10 000, exact in a double too


def money(value: object, places: int = 4, largest: int = PRICE_MAX) -> int:
    """Convert a price or an amount to 1/10 000; it is never rounded (D2).

    `value`: int, Decimal, float (the digits of its repr) or a numeric text; `largest` in 1/10 000.
    Errors: invalid_number, too_small (negative), too_large, too_precise.
    """
    return _units(value, 4, places, largest)


def quantity(value: object) -> int:
    """Convert a quantity to 1/1000; it must be more than 0 (D2). Errors: as `money`."""
    units = _units(value, 3, 3, QUANTITY_MAX)
    if not units:
        raise InvalidValue("too_small", "must be more than 0")
    return units


def number(value: object) -> int:
    """Convert a number, also one below zero, to 1/10 000. Errors: as `money`."""
    return _units(value, 4, 4, NUMBER_MAX, -NUMBER_MAX)


def whole_number(value: object) -> object:
    """Return a whole number such as 65.0 as an int, and any other value as it is.

    Programs that calculate with floats, as pandas does, send whole numbers so.
    """
    if not isinstance(value, (float, Decimal)):
        return value
    number = _decimal(value)
    is_whole = number.adjusted() < 18 and not _EXACT.remainder(number, 1)
    return int(number) if is_whole else value


def as_number(units: int, scale: int = 10_000) -> int | Decimal:
    """Return the exact number of `units` of 1/`scale`: an int if it is whole, else a Decimal.

    The Decimal has no trailing zeros and no exponent. `scale`: a power of ten up to 1 000 000.
    """
    whole, rest = divmod(units, scale)
    return _EXACT.divide(units, scale) if rest else whole


def in_cents(value: int, scale: int = 1) -> int:
    """Return `value` / `scale`, not negative, in 1/10 000, rounded half up to whole 1/100."""
    return (2 * value + scale * CENT) // (2 * scale * CENT) * CENT


# Not the default context, whose precision an application that embeds the CRM may have lowered.
_EXACT = Context(prec=60)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")


def _units(value: object, scale: int, places: int, largest: int, smallest: int = 0) -> int:
    """Return `value` in units of 10 ** -`scale`, from `smallest` to `largest` of them."""
    units = _EXACT.scaleb(_decimal(value), scale)
    if units < smallest:
        least = f"be at least {as_number(smallest, 10**scale)}" if smallest else "not be negative"
        raise InvalidValue("too_small", f"must {least}")
    if units > largest:
        raise InvalidValue("too_large", f"at most {as_number(largest, 10**scale)}")
    if _EXACT.remainder(units, 10 ** (scale - places)):
        raise InvalidValue("too_precise", f"at most {places} decimals")
    return int(units)


def _decimal(value: object) -> Decimal:
    """Return a number exactly; one with more than 60 digits is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    if isinstance(value, (str, float, Decimal)) and len(text) <= 60 and _NUMBER.fullmatch(text):
        return _EXACT.create_decimal(text)
    raise InvalidValue("invalid_number", "must be a number such as 1250 or 1250.50")


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
    """Return the upper-case ISO 4217 code of a currency in use (D2). Errors: invalid_currency."""
    if isinstance(value, str):
        if value in CURRENCIES:
            return value
        # Only ASCII, because str.upper() turns a few other letters into ASCII: `ß` becomes SS.
        if value.isascii() and (code := value.strip().upper()) in CURRENCIES:
            return code
    raise InvalidValue("invalid_currency", "must be a currency code of ISO 4217 such as UAH")
