"""Who a company is on papers, with its check digits, and how a company's papers are made."""

import re
from collections.abc import Callable
from typing import Any

from peewee import TextField

from crm.json import dumps, loads
from crm.records import columns, fields
from crm.records.schemas import Body
from crm.values import InvalidValue, long_text

VAT_RATES = (20, 14, 7, 0)  # per cent, of article 193 of the Tax Code of Ukraine
MAX_SIGNATURES, MAX_TERMS = 4, 4000
IBAN = re.compile("[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
UKRAINIAN_LENGTH = 29


def edrpou(text: str) -> str:
    """Return an ЄДРПОУ, the code of a legal entity, if its check digit fits.

    Of the first seven digits, times 1 to 7, the sum modulo 11 is the eighth; codes from 30000000
    to 60000000 begin with the weight 7: 7, 1 to 6. If it is 10, the weights are greater by 2, and
    if it is 10 again, the digit is 0. Source: the method of the State Statistics Service's
    register (Єдиний державний реєстр підприємств та організацій України). Errors: invalid_edrpou.
    """
    if _is_digits(text, 8):
        weights = (7, *range(1, 7)) if 30_000_000 <= int(text) <= 60_000_000 else range(1, 8)
        check = _weighted(text, weights) % 11
        if check == 10:
            check = _weighted(text, [weight + 2 for weight in weights]) % 11
        if check % 10 == int(text[-1]):
            return text
    raise InvalidValue("invalid_edrpou", "must be the 8 digits of an ЄДРПОУ: one of them is wrong")


def rnokpp(text: str) -> str:
    """Return a РНОКПП, the tax number of a person, if its check digit fits.

    Of the first nine digits, times -1, 5, 7, 9, 4, 6, 10, 5, 7, the sum modulo 11 modulo 10 is the
    tenth. Source: the method of the State Tax Service's register of persons (Державний реєстр
    фізичних осіб – платників податків). Errors: invalid_rnokpp.
    """
    if _is_digits(text, 10):
        check = _weighted(text, (-1, 5, 7, 9, 4, 6, 10, 5, 7)) % 11 % 10
        if check == int(text[-1]):
            return text
    raise InvalidValue("invalid_rnokpp", "must be the 10 digits of a РНОКПП: one of them is wrong")


def iban(text: str) -> str:
    """Return an IBAN without spaces, if its check digits fit: ISO 13616, by ISO 7064 MOD 97-10.

    Ukrainian ones have 29 characters (NBU resolution 162 of 28.12.2018). Errors: invalid_iban.
    """
    text = "".join(text.split()).upper()
    if IBAN.fullmatch(text) and (len(text) == UKRAINIAN_LENGTH or text[:2] != "UA"):
        digits = (str(int(sign, 36)) for sign in text[4:] + text[:4])
        if int("".join(digits)) % 97 == 1:
            return text
    raise InvalidValue("invalid_iban", "must be an IBAN, in Ukraine of 29 characters: check it")


def prefix(text: str) -> str:
    """Return what numbers begin with, if it ends so that no two numbers look alike.

    Errors: invalid_prefix.
    """
    if text[-1].isdecimal():
        raise InvalidValue("invalid_prefix", "must not end with a digit: the number follows it")
    return text


def _is_digits(text: str, count: int) -> bool:
    return len(text) == count and text.isascii() and text.isdecimal()


def _weighted(text: str, weights: Any) -> int:
    return sum(int(digit) * weight for digit, weight in zip(text, weights, strict=False))


class Checked(fields.Text):
    """One line that `check` returns in its stored form, or raises InvalidValue."""

    def __init__(self, max_length: int, check: Callable[[str], str], **options: Any):
        super().__init__(max_length, **options)
        self.check = check

    def read(self, value: Any) -> str | None:
        text = super().read(value)
        return text and self.check(text)


class VatRate(fields.Integer):
    """A rate of VAT in per cent, one of VAT_RATES."""

    choices = tuple(map(str, VAT_RATES))

    def read(self, value: Any) -> int:
        if (rate := super().read(value)) not in VAT_RATES:
            detail = f"must be one of {', '.join(map(str, VAT_RATES))}"
            raise InvalidValue("invalid_choice", detail)
        return rate

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "enum": [*VAT_RATES]}


class Terms(fields.Text):
    """Text with line breaks, of at most `max_length` characters."""

    def read(self, value: Any) -> str | None:
        return long_text(value, self.max_length)


class Signatures(fields.Tags):
    """What stands under the lines for signatures, such as posts."""

    def read(self, value: Any) -> str:
        if isinstance(value, list) and len(value) > MAX_SIGNATURES:
            raise InvalidValue("too_many", f"at most {MAX_SIGNATURES} signatures")
        return super().read(value)

    def schema_type(self) -> dict[str, Any]:
        return super().schema_type() | {"maxItems": MAX_SIGNATURES}


class ObjectOfFields(fields.Collection):
    """A JSON object of a few known keys, each a field, stored as it is shown.

    A change sends the keys that it changes, null clears one; null instead of the object clears all
    (D4, as `extra`; verbs.merged_objects). Only what has a value is shown. Each fault names
    its key.
    """

    empty = dict
    parts: Body

    def read(self, value: Any) -> str:
        if not isinstance(value, dict):
            raise InvalidValue("invalid_type", "must be an object")
        known = self.parts.fields
        read = self.parts.read(value).items()  # raises ValidationError of the keys
        shown = {key: None if part is None else known[key].show(part) for key, part in read}
        return dumps(shown).decode()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str | None:
        return "{}" if value == {} else super()._deserialize(value, attr, data)

    def show(self, value: Any) -> dict[str, Any]:
        return {name: part for name, part in loads(value or "{}").items() if part is not None}

    def schema_type(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for name, field in self.parts.fields.items():
            described = field.variant(incoming=self.incoming, required=False).schema_type()
            null = {"type": "null"}
            properties[name] = {"anyOf": [described, null]} if self.incoming else described
        closed = {"additionalProperties": False} if self.incoming else {}
        return {"type": "object", "properties": properties} | closed


class RequisitesBody(Body):
    legal_name = fields.Text(255)
    edrpou = Checked(8, edrpou)
    rnokpp = Checked(10, rnokpp)
    iban = Checked(64, iban)
    bank = fields.Text(255)
    address = fields.Text(500)
    director = fields.Text(255)
    vat_number = fields.Text(20)


class Requisites(ObjectOfFields):
    """What papers say of a company or client, but its name: codes, bank account, address."""

    parts = RequisitesBody()


class RequisitesColumn(columns.Column, TextField):
    wire_type = Requisites


class PaperSettingsBody(Body):
    vat_mode = fields.Choice("none", "inside", "on_top")
    vat_rate = VatRate()
    vat_by = fields.Choice("line", "total")
    number_prefix = Checked(16, prefix)
    validity_days = fields.Integer(1, 365)
    terms = Terms(MAX_TERMS)
    signatures = Signatures()
    color = fields.Color()


class PaperSettings(ObjectOfFields):
    """How a company's papers are made; what it did not choose is shown as in DEFAULTS."""

    DEFAULTS = {"vat_mode": "none", "vat_rate": 20, "vat_by": "line", "number_prefix": ""}
    DEFAULTS |= {"validity_days": 14, "terms": "", "signatures": [], "color": None}
    parts = PaperSettingsBody()

    def show(self, value: Any) -> dict[str, Any]:
        return self.DEFAULTS | super().show(value)
