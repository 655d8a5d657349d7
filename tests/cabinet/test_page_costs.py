"""What a page costs, in calls of functions: these numbers are the same on every machine."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from crm import create_app
from crm.cabinet import languages
from crm.cabinet.login import authentication
from crm.resources import deals, leads, tasks
from crm.storage.session import transaction
from tests.cabinet.test_page_sizes import add_records
from tests.installations import config_for
from tests.page_client import Person

ROWS = 20
# Calls that one more row makes. They were 1,200, 690 and 1,080 when each cell looked its macros,
# texts and tokens up.
CALLS_OF_A_ROW = {"/leads": 360, "/deals": 160, "/tasks?assigned_to=all": 250}


@contextmanager
def counted_calls() -> Iterator[Counter[Any]]:
    """How often each function of Python is called in the block, by its code."""
    calls: Counter[Any] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def count_calls(olena: Person, path: str) -> Counter[Any]:
    olena.sees(path)  # what is done once per process
    with counted_calls() as calls:
        olena.sees(path)
    return calls


@pytest.mark.parametrize("path", CALLS_OF_A_ROW)
def test_a_row_costs_few_calls(crm, olena, path):
    add_records(crm, ROWS)
    more, removed = sum(count_calls(olena, path).values()), ROWS // 2
    with crm.tenants.session("acme"), transaction():
        for id in range(1, removed + 1):
            for verbs in (leads, deals, tasks):
                verbs.delete(str(id))
    fewer = sum(count_calls(olena, path).values())
    assert 0 < (more - fewer) / removed <= CALLS_OF_A_ROW[path]


def test_a_page_finds_its_language_and_its_token_once(crm, olena):
    add_records(crm, ROWS)
    calls = count_calls(olena, "/tasks?assigned_to=all")
    assert calls[languages._current.__code__] > ROWS
    assert calls[languages.language.__code__] == 2  # and the attribute of the page
    assert calls[authentication._token_key.__code__] == 1


def test_urls_are_built_by_functions_that_are_compiled_when_they_are_used(tmp_path):
    with counted_calls() as calls:
        app = create_app(config_for(tmp_path), sends=False)
    assert not [code for code in calls if code.co_name == "_get_func_code"]
    urls = app.url_map.bind("localhost")
    assert urls.build("login_pages.login_page", {"next": "/tasks"}) == "/login?next=/tasks"
    path = urls.build("tasks_pages.complete_task", {"id": "5"}, method="POST")
    assert path == "/tasks/5/complete"
