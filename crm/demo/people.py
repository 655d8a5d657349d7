"""People who don't exist: Ukrainian names with phones and addresses that nobody has.

Domains are those reserved for examples (RFC 2606); phone numbers have codes that no network has.
"""

from random import Random
from typing import NamedTuple

from crm.values import transliterate

WOMEN = """
    Олена Ірина Наталія Оксана Марія Катерина Юлія Тетяна Вікторія Світлана Галина Софія Анна
    Дарина Людмила Христина Соломія Леся Зоряна Надія
"""
MEN = """
    Андрій Олександр Сергій Микола Тарас Юрій Василь Богдан Дмитро Максим Ігор Роман Віталій Олег
    Назар Петро Остап Павло Євген Степан
"""
SURNAMES = """
    Коваленко Бондаренко Ткаченко Кравченко Олійник Мельник Шевчук Поліщук Бондар Марченко
    Савченко Руденко Мороз Лисенко Петренко Клименко Павлюк Гончаренко Романюк Ткачук Гнатюк
    Кравчук Сидоренко Іваненко Кузьменко Левченко Пономаренко Васильченко Харченко Назаренко
    Карпенко Мазур Кушнір Федоренко Вдовиченко Дяченко Козак Приходько Литвин Данилюк
"""
CODES = ("70", "74", "76", "78")
MAIL = ("example.com", "example.net", "example.org")


class Person(NamedTuple):
    name: str
    phone: str
    email: str


class People:
    """Makes persons, each with a phone and an e-mail address of its own."""

    def __init__(self, random: Random):
        self._random = random
        self._first_names = (WOMEN.split(), MEN.split())
        self._surnames = SURNAMES.split()
        self._taken: set[str] = set()

    def person(self, domain: str = "", name: str = "") -> Person:
        """Somebody, at one of the public mail domains unless `domain` says another."""
        first = self._random.choice(self._random.choice(self._first_names))
        name = name or f"{first} {self._random.choice(self._surnames)}"
        return Person(name, self.phone(), self._email(name, domain or self._random.choice(MAIL)))

    def phone(self) -> str:
        while True:
            phone = f"+380{self._random.choice(CODES)}{self._random.randrange(10**7):07}"
            if self._is_free(phone):
                return phone

    def _email(self, name: str, domain: str) -> str:
        local = transliterate(name, ".")
        number, found = 1, f"{local}@{domain}"
        while not self._is_free(found):
            number += 1
            found = f"{local}{number}@{domain}"
        return found

    def _is_free(self, text: str) -> bool:
        if text in self._taken:
            return False
        self._taken.add(text)
        return True
