"""Amounts in words, as invoices and acts have them."""

from decimal import Decimal

UNITS = {
    "uk": (("гривня", "гривні", "гривень"), ("копійка", "копійки", "копійок")),
    "en": (("hryvnia", "hryvnias", "hryvnias"), ("kopiyka", "kopiykas", "kopiykas")),
}


def in_words(amount: str, currency: str, language: str) -> str:
    """An amount in words: "дві тисячі двісті п’ятдесят гривень 90 копійок".

    amount: a decimal text, not negative, with at most 2 decimals. Kopiykas are two digits, as
    Ukrainian papers have them. Of another currency than UAH it is "двадцять один USD 50/100".
    """
    from num2words import num2words  # here: 15 MB and 0.1 s that most processes never need

    whole, cents = divmod(int(Decimal(amount) * 100), 100)
    is_hryvnia = currency == "UAH"
    gender = {"gender": "feminine"} if language == "uk" and is_hryvnia else {}
    words = num2words(whole, lang=language, **gender).replace("'", "’")
    if not is_hryvnia:
        return f"{words} {currency} {cents:02}/100"
    hryvnia, kopiyka = (
        forms[_plural(number)] if language == "uk" else forms[number != 1]
        for forms, number in zip(UNITS[language], (whole, cents), strict=True)
    )
    return f"{words} {hryvnia} {cents:02} {kopiyka}"


def _plural(number: int) -> int:
    """Which of three Ukrainian forms follows a number."""
    if number % 10 == 1 and number % 100 != 11:
        return 0
    return 1 if 2 <= number % 10 <= 4 and not 12 <= number % 100 <= 14 else 2
