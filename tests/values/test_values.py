"""What a single value may be: D2, D4, D6, D8, D17."""

import json
import math
import random
import unicodedata
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from zoneinfo import ZoneInfo

import orjson
import phonenumbers
import pytest

from crm import values
from crm.values import InvalidValue
from tests.cases import loop_over


def code_of(function, *arguments, **named) -> str | None:
    """The code with which a value is refused, None when it is taken."""
    try:
        function(*arguments, **named)
    except InvalidValue as unfit:
        assert unfit.detail and unfit.detail[0] == unfit.detail[0].lower()
        assert str(unfit) == unfit.detail
        return unfit.code
    return None


NOT_TEXTS = [None, 5, 1.5, True, b"bytes", ["list"], {"a": 1}]


# Texts


@loop_over(
    ("sent", "stored"),
    [
        ("  Олена Шевченко\t", "Олена Шевченко"),
        ("a\u2028b\u2029c", "a b c"),
        ("a\r\n\r\n\n\u2028b", "a b"),
        ("и\u0306", "й"),
        ("👩‍👩‍👧 family", "👩‍👩‍👧 family"),
    ],
)
def test_a_line_is_trimmed_composed_and_has_no_breaks(sent, stored):
    assert values.one_line(sent, 255) == stored


@loop_over(
    ("sent", "stored"),
    [
        ("Z1\u200b", "Z1"),
        ("\ufeffкон\u00adсуль\u2060тація \u200e", "консультація"),
        ("\u200b \u200d\ufeff", None),
        ("\u200d" * 300 + "Z1", "Z1"),
        ("опт\u200d \u200cA\u200dB", "опт AB"),  # nothing is joined
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d\u200b💻👩\u200d💻\u200d", "👩💻👩\u200d💻"),
    ],
)
def test_a_line_has_no_invisible_characters_but_joiners_that_join(sent, stored):
    assert values.one_line(sent, 255) == stored


@loop_over(
    ("sent", "stored"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\u2028b\u2029c", "a\nb\nc"),
        ("a\n\n\r\n\r\nb", "a\n\n\n\nb"),
        ("и\u0306\nи\u0306", "й\nй"),
        ("", None),
    ],
)
def test_a_long_text_keeps_its_breaks_as_newlines(sent, stored):
    assert values.long_text(sent) == stored


@loop_over("function", [lambda v: values.one_line(v, 255), values.long_text])
@loop_over("sent", ["a{}b", "{}", "{}b", "b{}", "й{}\n"])
def test_control_characters_and_lone_surrogates_are_refused_anywhere(function, sent):
    for character in map(chr, (*range(0x20), *range(0x7F, 0xA0))):  # those of the category Cc
        refused = character not in "\t\r\n"
        assert (code_of(function, sent.format(character)) == "invalid_text") is refused
    for character in ("\ud800", "\udbff", "\udc00", "\udfff"):
        assert code_of(function, sent.format(character)) == "invalid_text"


@loop_over(
    ("sent", "longest", "code"),
    [
        ("x" * 255, 255, None),
        ("x" * 256, 255, "too_long"),
        (" " * 500 + "x" * 255 + " " * 500, 255, None),
        ("и\u0306" * 256, 255, "too_long"),
        (unicodedata.normalize("NFD", "\u1f82" * 64), 64, None),
        ("\u0958" * 64, 64, "too_long"),
        ("👍" * 64, 64, None),
        ("ж" * 2_000_000, 255, "too_long"),
    ],
)
def test_a_line_is_measured_in_characters_after_normalising(sent, longest, code):
    assert code_of(values.one_line, sent, longest) == code


def test_a_long_text_has_20_000_characters_unless_told_otherwise():
    assert values.long_text("ж" * 20_000) == "ж" * 20_000
    assert len(values.long_text("\r\n".join(["x"] * 10_000))) == 19_999
    assert code_of(values.long_text, "ж" * 20_001) == "too_long"
    assert code_of(values.long_text, "abc", 2) == "too_long"


def test_a_flood_of_accents_is_refused():
    assert code_of(values.long_text, "a" + "\u0301\u0316" * 15) is None
    assert code_of(values.long_text, "a" + "\u0301\u0316" * 16) == "invalid_text"
    assert code_of(values.long_text, "a" + "\u0301\u0316" * 10_000) == "invalid_text"


@loop_over("sent", NOT_TEXTS)
def test_only_texts_are_texts(sent):
    for function in (values.long_text, values.phone, values.email):
        assert code_of(function, sent) == "invalid_type"
    assert code_of(values.one_line, sent, 255) == "invalid_type"


def test_of_tags_that_differ_in_case_the_first_stays():
    sent = ["VIP", " опт ", "vip", "ОПТ", "Vip", "й", "и\u0306", "straße", "STRASSE", "new"]
    assert values.tag_list(sent) == ["VIP", "опт", "й", "straße", "new"]
    assert values.tag_list(["опт", "опт\u200b"]) == ["опт"]
    assert values.tag_list([]) == []


@loop_over(
    ("sent", "code"),
    [
        (["x" * 64], None),
        (["x" * 65], "too_long"),
        (["ok", ""], "required"),
        (["ok", None], "invalid_type"),
        (["a\0"], "invalid_text"),
        ([f"t{n}" for n in range(50)], None),
        ([f"t{n}" for n in range(51)], "too_many"),
        ("vip", "invalid_type"),
        (None, "invalid_type"),
    ],
)
def test_tags_are_up_to_fifty_short_lines(sent, code):
    assert code_of(values.tag_list, sent) == code


# Phones


@loop_over(
    ("sent", "stored"),
    [
        ("050 123-45-67", "+380501234567"),
        ("8 (050) 123-45-67", "+380501234567"),
        ("+380 (050) 123 45 67", "+380501234567"),
        ("(+380) 50 123-45-67", "+380501234567"),
        ("00 380 50 123 45 67", "+380501234567"),
        ("+48 501 234 567", "+48501234567"),
        ("0048501234567", "+48501234567"),
        ("0029022158", "+29022158"),
        ("+44 (0)20 7946 0958", "+442079460958"),
        ("+800 1234 5678", "+80012345678"),
        ("+54 111 512-345-678", "+5491112345678"),
        ("＋３８０（５０）１２３－４５－６７", "+380501234567"),
        ("٠٥٠١٢٣٤٥٦٧", "+380501234567"),
        ("050\u00a0123‑45–67", "+380501234567"),
        ("  \r\n", None),
    ],
)
def test_a_phone_is_kept_as_e164(sent, stored):
    assert values.phone(sent) == stored


@loop_over(
    "sent",
    [
        "112",
        "12345678901234567890",
        "0501234567 0671234567",
        "+999 123 456 789",
        "+0 50 123 45 67",
        "80012345678",
        "1 650 253 0000",
        "+49123456789012345",
        "0501234567x123",
        "+1 800 FLOWERS",
        "*101#",
        "😀",
    ],
)
def test_what_is_not_a_phone_is_refused(sent):
    assert code_of(values.phone, sent) == "invalid_phone"


def test_a_phone_has_32_characters_at_most():
    assert values.phone("+380" + " " * 19 + "501234567") == "+380501234567"
    assert code_of(values.phone, "+380" + " " * 20 + "501234567") == "too_long"
    assert code_of(values.phone, "050\0" + "1234567") == "invalid_text"


FORMS_OF_UKRAINE = ("{}", "0{}", "80{}", "380{}", "+380{}", "00380{}", "+3800{}")


def test_a_digit_more_or_fewer_is_no_ukrainian_phone():
    rnd = random.Random(381)
    for _ in range(400):
        digits = str(rnd.randint(1, 9)) + f"{rnd.randrange(10**8):08}"
        for form in FORMS_OF_UKRAINE:
            plain = form.format(digits)
            for wrong in (plain[:-1], plain + str(rnd.randint(0, 9)), f"0{plain}"):
                if wrong == "0" + digits:  # a digit more than the bare nine: `050…` itself
                    continue
                spelled = "".join(f"{digit}{rnd.choice(['', '', ' ', '-'])}" for digit in wrong)
                assert code_of(values.phone, spelled.strip(" -")) == "invalid_phone", spelled


def test_whatever_is_kept_of_a_phone_is_e164_and_reads_as_itself():
    rnd = random.Random(164)
    countries = list(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)
    stored = 0
    for _ in range(4000):
        start = rnd.choice(["", "+", "00", "0", "80", "380", "+380", f"+{rnd.choice(countries)}"])
        rest = rnd.choices("0123456789 -()٣７", weights=[9] * 10 + [2] * 6, k=rnd.randint(4, 13))
        try:
            phone = values.phone(start + rnd.choice(["", "0", "00"]) + "".join(rest))
        except InvalidValue:
            continue
        assert phone[0] == "+" and phone.isascii() and phone[1:].isdigit()
        assert 7 <= len(phone) - 1 <= 15
        assert values.phone(phone) == phone
        assert len(phone) == 13 or not phone.startswith("+380")
        stored += 1
    assert stored > 500


# E-mail


@loop_over(
    "sent",
    [
        "olena@example.com",
        "o_l-e'n!a#$%&*/=?^`{|}~@mail.example.com.ua",
        "olena@пошта.укр",
        "o@xn--80a1acny.xn--j1amh",
        "o" * 64 + "@example.com",
        "o@" + "d" * 63 + ".com",
        "o@" + ".".join(["d" * 49] * 5) + ".ua",
    ],
)
def test_an_address_is_kept_as_typed(sent):
    assert values.email(sent) == sent
    assert values.email(f" {sent}\r\n") == sent


@loop_over(
    "sent",
    [
        "olena",
        ".olena@example.com",
        "olena@example.com.",
        "olena@exa_mple.com",
        "olena@exa mple.com",
        "ole\u00a0na@example.com",
        "olena@example。com",
        "olena@[192.168.0.1]",
        '"ole na"@example.com',
        "mailto:olena@example.com,taras@example.com",
        "o@" + "d" * 64 + ".com",
        "a@" + "a-" * 126,
        "o@" + "ї" * 60 + ".укр",
    ],
)
def test_what_is_not_an_address_is_refused(sent):
    assert code_of(values.email, sent) == "invalid_email"


@loop_over(
    ("sent", "code"),
    [
        ("o" * 65 + "@example.com", "too_long"),
        ("a@" * 500_000, "too_long"),
        ("o@" + ".".join(["d" * 49] * 5) + ".com", "too_long"),
        ("ole\0na@example.com", "invalid_text"),
        ("olena@exam\ud800ple.com", "invalid_text"),
    ],
)
def test_an_address_is_short_and_clean(sent, code):
    assert code_of(values.email, sent) == code


@loop_over("sent", ["", "  ", "\n", "\u200b", "\ufeff"])
def test_an_empty_address_is_none(sent):
    assert values.email(sent) is None


def test_invisible_marks_in_an_address_are_dropped():
    assert values.email("\u202aole\u200bna@example.com\u202c") == "olena@example.com"


def test_addresses_compare_without_case():
    assert values.email("Olena@Example.COM") == "Olena@Example.COM"  # the file does it for ASCII
    assert values.email("ОЛЕНА@Пошта.УКР") == values.email("олена@пошта.укр")
    assert values.email("И\u0306@a.ua") == values.email("й@a.ua")
    for sent in ("İ@a.ua", "ß@a.ua", "ΰ@a.ua"):
        stored = values.email(sent)
        assert values.email(stored) == stored


# Numbers


@loop_over(
    ("sent", "units"),
    [
        (0, 0),
        (0.1, 1000),
        (9999999999.9999, values.PRICE_MAX),
        (Decimal("-0"), 0),
        ("+1250.5", 12_505_000),
        ("0.00010000000000", 1),
        ("1000000000000e-12", 10_000),
        ("9999999999.9999", values.PRICE_MAX),
    ],
)
def test_money_is_exact(sent, units):
    stored = values.money(sent)
    assert stored == units and type(stored) is int


@loop_over(
    ("sent", "code"),
    [
        (-1, "too_small"),
        ("-1e999", "too_small"),
        ("0.00001", "too_precise"),
        (0.1 + 0.2, "too_precise"),
        ("1e-999", "too_precise"),
        ("1e999", "too_large"),
        ("1e999999999", "invalid_number"),
        (10**5000, "too_large"),
        (Decimal("1" * 100_000), "invalid_number"),
        ("", "invalid_number"),
        ("1\n", "invalid_number"),
        ("1,5", "invalid_number"),
        (".5", "invalid_number"),
        ("NaN", "invalid_number"),
        ("١٢", "invalid_number"),
        (float("nan"), "invalid_number"),
        (True, "invalid_number"),
        (None, "invalid_number"),
    ],
)
def test_money_is_refused_rather_than_rounded_or_guessed(sent, code):
    assert code_of(values.money, sent) == code


@loop_over(
    ("sent", "expected"),
    [
        ("9999999999999.99", values.AMOUNT_MAX),
        ("0.01", 100),
        ("0.001", "too_precise"),
        ("10000000000000", "too_large"),
        (1e13, "too_large"),
    ],
)
def test_an_amount_has_two_decimals_and_its_own_limit(sent, expected):
    if isinstance(expected, str):
        assert code_of(values.money, sent, 2, values.AMOUNT_MAX) == expected
    else:
        assert values.money(sent, places=2, largest=values.AMOUNT_MAX) == expected


def test_limits_are_those_of_the_specification():
    with pytest.raises(InvalidValue, match=r"^at most 9999999999\.9999$"):
        values.money(10**12)
    with pytest.raises(InvalidValue, match="^at most 2 decimals$"):
        values.money("0.001", 2)
    with pytest.raises(InvalidValue, match=r"^at most 999999\.999$"):
        values.quantity(10**6)


@loop_over(
    ("sent", "expected"),
    [
        (1, 1000),
        (1.5, 1500),
        ("999999.999", values.QUANTITY_MAX),
        (0, "too_small"),
        ("0.0001", "too_precise"),
        (1_000_000, "too_large"),
        ("", "invalid_number"),
    ],
)
def test_a_quantity_is_more_than_nothing_in_thousandths(sent, expected):
    if isinstance(expected, str):
        assert code_of(values.quantity, sent) == expected
    else:
        assert values.quantity(sent) == expected


def test_a_whole_number_may_be_written_as_a_float():
    sent = (65.0, Decimal("65.0"), Decimal("6.5e1"), -3.0, 0.0, Decimal("-0"), 10.0**17)
    assert [*map(values.whole_number, sent)] == [65, 65, 65, -3, 0, 0, 10**17]
    assert {type(values.whole_number(value)) for value in sent} == {int}
    for other in (65.5, Decimal("1e999"), 1e300, "65.0", True, None, 65):
        assert values.whole_number(other) is other
    assert code_of(values.whole_number, math.inf) == "invalid_number"


def test_every_way_to_write_a_number_is_the_same_number():
    rnd = random.Random(10_000)
    for _ in range(2000):
        units = rnd.randrange(10 ** rnd.randint(1, 14))
        exact = Decimal(units).scaleb(-4, Context(prec=40))
        forms = [exact, str(exact), f"{exact:e}", f"{exact:.7f}", f"+{exact:.4f}", f"{units}e-4"]
        assert {values.money(form) for form in forms} == {units}
        assert values.money(values.as_number(units)) == units
        assert values.money(float(exact)) == units


def digits(value: object) -> orjson.Fragment:
    assert type(value) is Decimal
    return orjson.Fragment(str(value))


@loop_over(
    ("units", "scale", "written"),
    [
        (0, 10_000, "0"),
        (12_505_000, 10_000, "1250.5"),
        (1, 10_000, "0.0001"),
        (values.PRICE_MAX, 10_000, "9999999999.9999"),
        (values.AMOUNT_MAX, 10_000, "9999999999999.99"),
        (values.QUANTITY_MAX, 1000, "999999.999"),
    ],
)
def test_a_number_goes_out_as_its_own_digits(units, scale, written):
    text = orjson.dumps({"n": values.as_number(units, scale)}, default=digits)
    assert text == f'{{"n":{written}}}'.encode()
    assert json.loads(text, parse_float=Decimal)["n"] * scale == units


def test_numbers_do_not_depend_on_the_decimal_context_of_the_host():
    with localcontext(Context(prec=3)):
        assert str(values.as_number(values.PRICE_MAX)) == "9999999999.9999"
        assert values.money(Decimal("9999999999.9999")) == values.PRICE_MAX


# Times


@loop_over(
    ("sent", "stored"),
    [
        ("2026-03-31T12:00:00Z", "2026-03-31T12:00:00Z"),
        ("2026-03-31T12:00:00+03:00", "2026-03-31T09:00:00Z"),
        ("2026-03-31T22:30:00-05:45", "2026-04-01T04:15:00Z"),
        ("2026-03-31T12:00:59." + "9" * 1000 + "Z", "2026-03-31T12:00:59Z"),
        ("1899-12-31T23:00:00-01:00", "1900-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        (datetime(2026, 3, 31, 12, 0, 0, 999_999, tzinfo=UTC), "2026-03-31T12:00:00Z"),
        (
            datetime(2026, 3, 31, 1, tzinfo=timezone(timedelta(hours=3))),
            "2026-03-30T22:00:00Z",
        ),
    ],
)
def test_a_moment_is_kept_in_utc_to_the_second(sent, stored):
    assert values.moment(sent) == stored
    assert values.moment(stored) == stored


@loop_over(
    "sent",
    [
        "2026-03-31",
        "2026-03-31T12:00:00",
        "2026-03-31 12:00:00Z",
        "2026-03-31T12:00:00Z\n",
        "2026-03-31T12:00:00+0300",
        "2026-02-29T12:00:00Z",
        "2026-03-31T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "1899-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
        "２０２６-03-31T12:00:00Z",
        1774958400,
        date(2026, 3, 31),
        datetime(1899, 12, 31, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_what_is_not_a_moment_is_refused(sent):
    assert code_of(values.moment, sent) == "invalid_time"


def test_a_day_is_kept_as_it_is_written():
    for sent in ("2026-03-31", "2024-02-29", "1969-07-20", "1900-01-01", "9999-12-31"):
        assert values.day(sent) == sent
        assert values.day(date.fromisoformat(sent)) == sent


@loop_over(
    "sent",
    [
        "",
        "2026-02-29",
        date(1899, 12, 31),
        "31.03.2026",
        "2026-03-31T00:00:00Z",
        None,
        datetime(2026, 3, 31, tzinfo=UTC),
    ],
)
def test_what_is_not_a_day_is_refused(sent):
    assert code_of(values.day, sent) == "invalid_date"


ZONES = ("Europe/Kyiv", "America/New_York", "Pacific/Kiritimati", "Pacific/Niue", "UTC")


def test_a_clock_time_of_the_first_and_the_last_day_is_the_nearest_that_can_be_stored():
    for zone in map(ZoneInfo, ZONES):
        first = values.local_moment(datetime(1900, 1, 1), zone)
        last = values.local_moment(datetime(9999, 12, 31, 23, 59, 59), zone)
        assert "1900-01-01T00:00:00Z" <= first <= "1900-01-01T12:00:00Z"
        assert "9999-12-31T09:59:59Z" <= last <= "9999-12-31T23:59:59Z"
        for outside in (datetime(1899, 12, 30, 23), datetime(1, 1, 1)):
            assert code_of(values.local_moment, outside, zone) == "invalid_time"
    kyiv, new_york = map(ZoneInfo, ZONES[:2])
    assert values.local_moment(datetime(1900, 1, 1), kyiv) == "1900-01-01T00:00:00Z"
    assert values.local_moment(datetime(1900, 1, 1), new_york) == "1900-01-01T05:00:00Z"
    assert values.local_moment(datetime(9999, 12, 31, 23), kyiv) == "9999-12-31T21:00:00Z"
    assert values.local_moment(datetime(9999, 12, 31, 23), new_york) == "9999-12-31T23:59:59Z"
    # What a west zone shows of the first hours.
    assert values.local_moment(datetime(1899, 12, 31, 20), new_york) == "1900-01-01T01:00:00Z"


def test_days_follow_each_other_from_the_first_time_to_the_last_in_every_zone():
    for zone in ZONES:
        assert values.midnight("1900-01-01", zone) == "1900-01-01T00:00:00Z"
        assert values.midnight("9999-12-31", zone, at_end=True) > "9999-12-31T23:59:59Z"
        for day, following in (
            ("1900-01-01", "1900-01-02"),
            ("2026-03-28", "2026-03-29"),
            ("9999-12-30", "9999-12-31"),
        ):
            end = values.midnight(day, zone, at_end=True)
            assert values.midnight(day, zone) < end == values.midnight(following, zone)
    assert values.midnight("2026-03-29", "Europe/Kyiv") == "2026-03-28T22:00:00Z"
    assert values.midnight("2026-03-29", "Europe/Kyiv", at_end=True) == "2026-03-29T21:00:00Z"
    assert code_of(values.midnight, "1899-12-31", "Europe/Kyiv") == "invalid_date"


# Currencies


@loop_over("sent", ["UAH", "uah", " Uah "])
def test_a_currency_is_kept_in_upper_case(sent):
    assert values.currency(sent) == "UAH"


NOT_IN_USE = """
    XXX XTS XAU XAG XPT XPD XDR XUA XSU XBA XAD CHE CHW CLF COU MXV USN UYI UYW BOV BGN HRK ANG
    CUC ZWL SLL VEF RUR BYR LTL EEK UA UAHH ГРН ₴ USSß uſd
"""


@loop_over(
    "sent",
    NOT_IN_USE.split() + ["", "U A", "US\nD", None, 980, True, ["UAH"], {}],
)
def test_what_is_not_a_currency_in_use_is_refused(sent):
    assert code_of(values.currency, sent) == "invalid_currency"


# Free objects


def test_a_free_object_is_kept_as_compact_json_in_its_order():
    sent = {"форма": "головна", "b": [1, -2.5, True, False, None, {}], "a": {"x": "line\n\t\x01"}}
    stored = values.json_object(sent)
    assert stored == (
        '{"форма":"головна","b":[1,-2.5,true,false,null,{}],"a":{"x":"line\\n\\t\\u0001"}}'
    )
    assert json.loads(stored) == sent
    assert values.json_object({}) == "{}"


def test_numbers_in_a_free_object_stay_exact():
    numbers = [
        Decimal("1.10"),
        Decimal("12345678901234567890.123456789"),
        Decimal("1E+20"),
        Decimal("-0.00"),
        2**64 - 1,
        -(2**63),
        0.1,
        5e-324,
    ]
    stored = values.json_object({"n": numbers})
    assert stored == (
        '{"n":[1.10,12345678901234567890.123456789,1e20,-0.00,'
        "18446744073709551615,-9223372036854775808,0.1,5e-324]}"
    )
    assert json.loads(stored, parse_float=Decimal)["n"][1] == numbers[1]


@loop_over(
    "number",
    [
        2**64,
        -(2**63) - 1,
        10**5000,
        Decimal("-Infinity"),
        Decimal("1e400"),
    ],
)
def test_numbers_that_no_reader_could_read_are_refused(number):
    assert code_of(values.json_object, {"n": number}) == "invalid_number"
    assert code_of(values.json_object, {"n": {"deep": [number]}}) == "invalid_number"


@loop_over("text", ["a\0b", "\0", "\ud800", "x\udfff", "\udc00\ud800"])
def test_broken_texts_in_a_free_object_are_refused_wherever_they_are(text):
    for sent in ({"k": text}, {text: 1}, {"k": [1, {"x": text}]}, {"k": {text: 1}}):
        assert code_of(values.json_object, sent) == "invalid_text"


def test_a_typed_escape_is_not_a_nul():
    assert json.loads(values.json_object({"k": "\\u0000 \\ud800"})) == {"k": "\\u0000 \\ud800"}


@loop_over(
    "sent",
    [
        None,
        [],
        "{}",
        5,
        {1: 2},
        {"k": {1: 2}},
        {"k": {1, 2}},
        {"k": b"x"},
        {"k": object()},
        {"k": orjson.Fragment("evil")},
    ],
)
def test_only_what_json_knows_goes_into_a_free_object(sent):
    assert code_of(values.json_object, sent) == "invalid_type"


def test_a_free_object_has_fifty_keys_outermost():
    assert code_of(values.json_object, {f"k{n}": n for n in range(50)}) is None
    assert code_of(values.json_object, {f"k{n}": n for n in range(51)}) == "too_many"
    assert code_of(values.json_object, {"in": {f"k{n}": n for n in range(51)}}) is None


def test_a_free_object_has_16_kib_of_utf8():
    room = 16 * 1024 - len('{"k":""}')
    assert len(values.json_object({"k": "x" * room})) == 16 * 1024
    assert code_of(values.json_object, {"k": "x" * (room + 1)}) == "too_large"
    assert code_of(values.json_object, {"k": "ї" * (room // 2)}) is None
    assert code_of(values.json_object, {"k": "ї" * (room // 2 + 1)}) == "too_large"
    assert code_of(values.json_object, {"k": '"' * (room // 2 + 1)}) == "too_large"
    assert code_of(values.json_object, {"k": [1] * 8000}) is None
    assert code_of(values.json_object, {"k": [1] * 9000}) == "too_large"
    assert code_of(values.json_object, {"k": Decimal("1." + "1" * 17_000)}) == "too_large"


def test_a_free_object_is_four_levels_deep():
    assert code_of(values.json_object, {"1": {"2": {"3": {"4": 4}}}}) is None
    assert code_of(values.json_object, {"1": {"2": {"3": {"4": {}}}}}) == "too_deep"
    assert code_of(values.json_object, {"1": [[[4]]]}) is None
    assert code_of(values.json_object, {"1": [[[[]]]]}) == "too_deep"


def test_a_free_object_of_any_depth_and_width_is_refused():
    deep: list = []
    for _ in range(50_000):
        deep = [deep]
    assert code_of(values.json_object, {"k": deep}) == "too_deep"
    circle: dict = {}
    circle["again"] = circle
    assert code_of(values.json_object, circle) == "too_deep"
    wide = {f"k{n}": [[0] * 100] * 100 for n in range(50)}
    assert code_of(values.json_object, wide) == "too_large"
    while deep:  # taken apart by hand: freeing it at once is deep too
        deep = deep.pop()


# Everything


def test_hostile_values_are_refused_and_never_crash():
    hostile = [
        None, True, 0, -1, 10**400, 1e308, float("nan"), Decimal("sNaN"), "", "\0", "\ud800",
        "\ufeff", "9" * 5000, "1e" + "9" * 50, "a" * 5000, "@" * 300, "+" * 32, "(" * 32,
        "\u0301" * 300, "\U0010ffff", b"", [], {}, [[]], {"": ""}, object(), date.max,
        datetime.max, 1j, Fraction(1, 3), range(3), int, lambda: 0,
    ]  # fmt: skip
    functions = [
        lambda v: values.one_line(v, 255), values.long_text, values.phone,
        values.email, values.money, values.quantity, values.moment, values.day,
        values.currency, values.json_object, values.tag_list,
    ]  # fmt: skip
    refused = 0
    for function in functions:
        for value in hostile:
            refused += code_of(function, value) is not None
    assert 300 < refused < len(functions) * len(hostile)


# Latin letters


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("Згурський Юрій", "zghurskyi-yurii"),
        ("Мар'ян Знам’янський", "marian-znamianskyi"),
        ("Їжакевич Йосип Є. Гаєвич", "yizhakevych-yosyp-ye-haievych"),
        ("Щоголь", "shchohol"),
        ("Café Straße 24/7", "cafe-strasse-24-7"),
        (" -- a -- ", "a"),
        ("咖啡", ""),
        ("", ""),
    ],
)
def test_words_in_latin_letters(text, latin):
    assert values.transliterate(text) == latin
    assert values.transliterate(unicodedata.normalize("NFD", text)) == latin
