"""The order of names: that of the Ukrainian alphabet, then the Latin one, whatever the case."""

import random

from crm.values.folding import CYRILLIC, sort_key, sort_keys
from tests.cases import loop_over

# As ICU's collation of Ukrainian has them, but for the marks that are left out here.
IN_ORDER = [
    *("2 стільці", "абрикос", "Борщ", "Вода", "Газ", "Ґудзик", "Дім", "еклер", "Еней", "Єва"),
    *("Жук", "Зоя", "иржа", "іній", "Іра", "Їжа", "Йосип", "Кіт", "Щука", "Юлія", "Яблуко"),
    *("Abba", "Zoë", "zoom"),
]


def test_names_sort_by_the_letters_of_the_alphabet():
    shuffled = random.Random(1).sample(IN_ORDER, len(IN_ORDER))
    assert sorted(shuffled, key=lambda name: sort_key(name).encode()) == IN_ORDER
    assert sort_keys(shuffled) == [sort_key(name) for name in shuffled]
    every = [sort_key(f"а{letter}") for letter in "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя"]
    assert every == sorted(every) and len({*every}) == 33
    assert len(sort_key(CYRILLIC).encode()) == len(CYRILLIC.encode())


@loop_over(
    ("one", "other"),
    [
        ("ІВАН", "іван"),
        ("Мар’яна", "Маряна"),
        ("«Ромашка»", "Ромашка"),
        ("за\u0301мок", "замок"),
        ("ї", "і\u0308"),
        ("Zoë", "ZOE"),
        ("Straße", "strasse"),
    ],
)
def test_case_accents_and_quotation_marks_do_not_matter(one, other):
    assert {sort_key(one), sort_key(other)} == {*sort_keys([one, other])}
    assert sort_key(one) == sort_key(other)
