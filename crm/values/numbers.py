"""Exact numbers (D2): money in 1/10 000, quantities in 1/1 000, and currencies."""

import re
from decimal import Context, Decimal

from crm.values.invalid_value import InvalidValue

PRICE_MAX = 99_999_999_999_999  # 9 999 999 999.9999 in 1/10 000 (D2)
AMOUNT_MAX = 99_999_999_999_999_900  # 9 999 999 999 999.99 in 1/10 000 (D2)
QUANTITY_MAX = 999_999_999  # 999 999.999 in 1/1000 (D2)


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


def whole_number(value: object) -> object:
    """Return a whole number such as 65.0 as an int, and any other value as it is.

    Programs that calculate with floats, as pandas does, send whole numbers so.
    """
    if not isinstance(value, (float, Decimal)):
        return value
    negative, digits, exponent = _parts(value)
    if not digits:
        return 0
    if exponent < 0 or len(digits) + exponent > 18:
        return value
    number = int(digits) * 10**exponent
    return -number if negative else number


def as_number(units: int, scale: int = 10_000) -> int | Decimal:
    """Return the exact number of `units` of 1/`scale`: an int if it is whole, else a Decimal.

    The Decimal has no trailing zeros and no exponent. `scale`: a power of ten up to 1 000 000.
    """
    whole, rest = divmod(units, scale)
    return _EXACT.divide(units, scale) if rest else whole


# Not the default context, whose precision an application that embeds the CRM may have lowered.
_EXACT = Context(prec=60)
_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")


def _units(value: object, scale: int, places: int, largest: int) -> int:
    """Return `value` in units of 10 ** -`scale`, from 0 to `largest` of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InvalidValue("too_small", "must not be negative")
        # Compared before it is multiplied, because a number may have thousands of digits.
        if value > largest or (units := value * 10**scale) > largest:
            raise _too_large(largest, scale)
        return units
    negative, digits, exponent = _parts(value)
    if not digits:
        return 0
    if negative:
        raise InvalidValue("too_small", "must not be negative")
    if len(digits) + exponent > len(str(largest)):
        raise _too_large(largest, scale)
    if exponent < -places:
        raise InvalidValue("too_precise", f"at most {places} decimals")
    units = int(digits) * 10 ** (exponent + scale)
    if units > largest:
        raise _too_large(largest, scale)
    return units


def _parts(value: object) -> tuple[bool, str, int]:
    """Return whether it is negative, its digits without outer zeros, and the power of ten.

    On the digits as text the work is in proportion to what was sent, even for 1e999999999.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = float.__repr__(value)
    elif isinstance(value, Decimal):
        text = str(value)
    else:
        raise InvalidValue("invalid_number", "must be a number")
    match = _NUMBER.fullmatch(text)
    if not match:
        raise InvalidValue("invalid_number", "must be a number such as 1250 or 1250.50")
    sign, whole, fraction, power_sign, power = match.groups()
    significant = (whole + (fraction or "")).lstrip("0")
    digits = significant.rstrip("0")
    exponent = len(significant) - len(digits) - len(fraction or "")
    power = (power or "").lstrip("0")
    if power:
        size = int(power) if len(power) < 10 else 10**10
        exponent += -size if power_sign == "-" else size
    return sign == "-", digits, exponent


def _too_large(largest: int, scale: int) -> InvalidValue:
    return InvalidValue("too_large", f"at most {as_number(largest, 10**scale)}")


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
