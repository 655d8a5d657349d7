"""Texts of the pages, phones as people write them, and what few need under "More"."""

import re
from pathlib import Path

import pytest

from crm.cabinet import formatting, languages

NBSP = "\u00a0"
WRITTEN = "067 123 45 67".replace(" ", NBSP)
DETAILS = re.compile(r'<details class="more-form[^>]*>(?:(?!</details>).)*</details>', re.S)


def test_no_text_says_cabinet():
    folder = Path(languages.__file__).parent / "translations" / "uk"
    texts_ = [line for page in folder.glob("*.po") for line in page.read_text().splitlines()]
    assert not [line for line in texts_ if line.startswith("msgid") and "cabinet" in line.lower()]


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("+380671234567", "067 123 45 67"),
        ("+48221234567", "+48 22 123 45 67"),
        ("+12025550123", "+1 202-555-0123"),
        ("as typed", "as typed"),
        (None, ""),
    ],
)
def test_a_phone_is_written_as_people_do(number, written):
    assert formatting.phone(number).replace(NBSP, " ") == written


def test_pages_write_phones_so_and_call_the_whole_number(olena, api):
    api.create("/leads", name="Марія", phone="+380671234567")
    link = f'<a href="tel:+380671234567" class="phone-link">{WRITTEN}</a>'
    assert link in olena.sees("/leads") and link in olena.sees("/leads/1")
    assert 'value="067 123 45 67"' in olena.sees("/leads/1/edit")
    api.patch("/leads/1", {"phone": "+48221234567"})
    assert f"{WRITTEN} " in olena.sees("/leads/1")  # its history
    assert f"+48{NBSP}22{NBSP}123" in olena.sees("/search", query_string={"q": "2212"})


def test_the_external_id_is_under_more(olena, api):
    api.create("/leads", name="Марія", phone="+380671234567")
    assert "Більше" not in olena.sees("/leads/1")
    (more,) = DETAILS.findall(olena.sees("/leads/1/edit"))
    assert 'name="external_id"' in more and " open" not in more.partition(">")[0]
    api.patch("/leads/1", {"external_id": "L-77"})
    (more,) = DETAILS.findall(olena.sees("/leads/1/edit"))
    assert " open" in more.partition(">")[0]
    assert any("L-77" in match for match in DETAILS.findall(olena.sees("/leads/1")))
