"""Amounts in words, against a second writing of the numbers of both languages."""

import random
from collections.abc import Iterable

import pytest

from crm.papers.words import in_words
from tests.cases import loop_over

UNITS = "один два три чотири п’ять шість сім вісім дев’ять десять одинадцять дванадцять тринадцять "
UNITS += "чотирнадцять п’ятнадцять шістнадцять сімнадцять вісімнадцять дев’ятнадцять"
TENS = "двадцять тридцять сорок п’ятдесят шістдесят сімдесят вісімдесят дев’яносто"
HUNDREDS = "сто двісті триста чотириста п’ятсот шістсот сімсот вісімсот дев’ятсот"
ENGLISH = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
ENGLISH += "fifteen sixteen seventeen eighteen nineteen"
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NINES = "дев’ятсот дев’яносто дев’ять"
FEMININE = {"один": "одна", "два": "дві"}


def below_thousand() -> tuple[list[list[str]], list[str]]:
    """The words of 0 to 999 in Ukrainian, masculine, and in English."""
    ukrainian, english = [[], *([word] for word in UNITS.split())], ["", *ENGLISH.split()]
    for ten, its_english in zip(TENS.split(), ENGLISH_TENS.split(), strict=True):
        ukrainian += [[ten], *([ten, *ukrainian[unit]] for unit in range(1, 10))]
        english += [its_english, *(f"{its_english}-{english[unit]}" for unit in range(1, 10))]
    for hundred, name in enumerate(HUNDREDS.split(), 1):
        ukrainian += [[name, *ukrainian[rest]] for rest in range(100)]
        its_english = f"{english[hundred]} hundred"
        english += [its_english, *(f"{its_english} and {english[rest]}" for rest in range(1, 100))]
    return ukrainian, english


UKRAINIAN, ENGLISH_WORDS = below_thousand()


def form(number: int, one: str, few: str, many: str) -> str:
    last = str(number).zfill(2)
    if last[-2] == "1":
        return many
    return {"1": one, "2": few, "3": few, "4": few}.get(last[-1], many)


def hryvnias(number: int) -> str:
    """A number below 10⁹ with its hryvnias."""
    words = list[str]()
    millions, thousands, units = number // 10**6, number // 1000 % 1000, number % 1000
    if millions:
        words += [*UKRAINIAN[millions], form(millions, "мільйон", "мільйони", "мільйонів")]
    for part, name in ((thousands, form(thousands, "тисяча", "тисячі", "тисяч")), (units, "")):
        if part:
            *first, last = UKRAINIAN[part]
            words += [*first, FEMININE.get(last, last), *filter(None, [name])]
    return " ".join(words or ["нуль"]) + " " + form(number, "гривня", "гривні", "гривень")


def english(number: int) -> str:
    parts = [(number // 10**6, " million"), (number // 1000 % 1000, " thousand")]
    words = ", ".join(ENGLISH_WORDS[part] + name for part, name in parts if part)
    rest = ENGLISH_WORDS[number % 1000]
    if words and rest:
        words += " and " if number % 1000 < 100 else ", "
    return (words + rest or "zero") + (" hryvnia" if number == 1 else " hryvnias")


def check(numbers: Iterable[int]) -> None:
    for number in numbers:
        cents = number * 7 % 100
        expected = f"{hryvnias(number)} {cents:02} {form(cents, 'копійка', 'копійки', 'копійок')}"
        assert in_words(f"{number}.{cents:02}", "UAH", "uk") == expected
        assert in_words(str(number), "UAH", "en") == f"{english(number)} 00 kopiykas"


def test_amounts_have_their_words() -> None:
    chance = random.Random(41)
    check([*range(3000), *chance.sample(range(10**6 + 1), 2000)])
    check([10**6 + chance.randrange(10**9 - 10**6) for _ in range(2000)])


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_all_amounts_up_to_a_million_have_their_words() -> None:
    check(range(10**6 + 1))


@loop_over(
    "amount, currency, language, words",
    [
        ("2250.90", "UAH", "uk", "дві тисячі двісті п’ятдесят гривень 90 копійок"),
        ("1000.01", "UAH", "uk", "одна тисяча гривень 01 копійка"),
        ("1.00", "UAH", "uk", "одна гривня 00 копійок"),
        ("0", "UAH", "uk", "нуль гривень 00 копійок"),
        ("1000002.22", "UAH", "uk", "один мільйон дві гривні 22 копійки"),
        ("21.5", "USD", "uk", "двадцять один USD 50/100"),
        ("1.01", "UAH", "en", "one hryvnia 01 kopiyka"),
        ("1250.5", "EUR", "en", "one thousand, two hundred and fifty EUR 50/100"),
        (
            "9999999999999.99",
            "UAH",
            "uk",
            f"дев’ять трильйонів {NINES} мільярдів {NINES} мільйонів {NINES} тисяч {NINES} гривень "
            "99 копійок",
        ),
    ],
)
def test_papers_have_amounts_in_these_words(
    amount: str, currency: str, language: str, words: str
) -> None:
    assert in_words(amount, currency, language) == words
