"""Every text of the cabinet is there in Ukrainian and in English."""

import re
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

from babel.messages import extract, pofile

import crm
from crm.cabinet import languages
from crm.cabinet.labels import CHOICES
from crm.outbox import call, deliveries, events
from tests.cases import loop_over

CRM = Path(crm.__file__).parent
# Labels are declared on the models and marked by N_(), which Babel knows.
METHODS = [
    ("cabinet/**.py", "python"),
    ("records/**.py", "python"),
    ("resources/**.py", "python"),
    ("spreadsheets/**.py", "python"),
    ("cabinet/templates/**.html", "jinja2.ext:babel_extract"),
    ("cabinet/templates/**.txt", "jinja2.ext:babel_extract"),
    ("cabinet/texts.toml", f"{__name__}:texts_of_toml"),
]
PAGES = sorted((CRM / "cabinet" / "translations" / "uk").glob("*.po"))
PLACES = re.compile(r"%\(\w+\)[sd]")


def texts_of_toml(file, keywords, comment_tags, options):
    """The texts of a TOML file, as Babel takes them: all but names of icons and signs."""

    def values(table):
        for name, value in table.items():
            if isinstance(value, dict):
                yield from values(value)
            elif name != "icon" and value != "%":
                yield value

    return [(0, None, text, []) for text in values(tomllib.load(file))]


@cache
def used():
    """(text, where) of all texts."""
    result = extract.extract_from_dir(CRM, METHODS, {"**.*": {"silent": "false"}})
    return [
        (text, f"{file}:{line}")
        for file, line, message, *_ in result
        for text in (message if isinstance(message, tuple) else (message,))
    ]


def messages(page):
    """The messages of a catalog but its header."""
    with page.open("rb") as file:
        return [message for message in pofile.read_po(file, locale="uk") if message.id]


def test_labels_of_declared_fields_are_extracted():
    texts = {text: place for text, place in used()}
    assert texts["Tax number"].startswith("resources/clients/record.py")


def test_every_kind_of_event_and_error_of_a_call_has_a_label():
    assert {*CHOICES["event", "type"]} == {*events.KINDS, deliveries.TEST_KIND}
    assert {*CHOICES["delivery", "error"]} == {*call.ERROR_NAMES.values()}


def test_every_text_is_translated():
    known = set()
    for message in chain.from_iterable(map(messages, PAGES)):
        strings = message.string if isinstance(message.string, tuple) else [message.string]
        if all(strings):
            known.update(message.id if isinstance(message.id, (tuple, list)) else [message.id])
    missing = [f"{where}: {text}" for text, where in used() if text not in known]
    assert missing == []


@loop_over("page", PAGES)
def test_a_translation_has_the_same_places(page):
    for message in messages(page):
        several = isinstance(message.id, (tuple, list))
        expected = set(PLACES.findall(message.id[1] if several else message.id))
        for string in message.string if several else [message.string]:
            assert set(PLACES.findall(string)) <= expected, message.id
        assert len(message.string) == 3 if several else True


def test_a_text_is_translated_once_or_the_same():
    results: dict = {}
    for message in chain.from_iterable(map(messages, PAGES)):
        key = str(message.id)
        assert results.setdefault(key, message.string) == message.string, key


def test_plurals_are_those_of_ukrainian():
    catalog = languages.catalog("uk")
    assert [catalog.plural(number) for number in (1, 2, 5, 11, 21, 112)] == [0, 1, 2, 2, 0, 2]
