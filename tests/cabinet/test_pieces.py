"""The page of pieces: every macro of the templates stands on it, legible and accessible."""

import re
from pathlib import Path

import pytest

from crm import cabinet
from tests import pieces
from tests.cabinet.test_pages import check
from tests.chromium import NARROW

MACROS = (Path(cabinet.__file__).parent / "templates" / "macros.html").read_text("utf-8")
# Parts of lists and of forms of several, which their own pages show.
ELSEWHERE = {
    "bell_count",
    *("more", "filters_on", "filter", "hidden_filters", "search_filter", "select_filter"),
    *("day_filter", "move_up_down", "table_head", "switch", "whose", "check_of", "group"),
    *("csrf", "hidden", "trouble", "fault", "options", "menu_link", "head_up", "scopes", "unseen"),
    *("datalist", "picks", "picked", "next_days", "swatch", "needed", "thumb"),
}


def test_every_piece_is_on_the_page():
    named = set(re.findall(r"macro ([a-z]\w*)\(", MACROS))
    shown = set(re.findall(r"ui\.(\w+)\(", pieces.TEMPLATE.read_text("utf-8")))
    assert named == shown | ELSEWHERE
    assert not shown & ELSEWHERE


@pytest.mark.parametrize(
    "kinds",
    [[(NARROW, "dark")], pytest.param(pieces.KINDS, marks=pytest.mark.deep)],
)
def test_the_pieces_are_legible_and_accessible(tmp_path, browser, kinds):
    with pieces.shown(tmp_path, browser, kinds) as pages:
        checked = [name for name, page in pages if check(page, name) is None]
    assert len(checked) == len(kinds)
