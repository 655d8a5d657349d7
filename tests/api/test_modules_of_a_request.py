"""How much of the code a request of the API runs: few modules, and none of the pages."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import crm as package

pytestmark = pytest.mark.files  # PostgreSQL's engine has other modules
FOLDER = f"{Path(package.__file__).parent}/"
LEAD = {"name": "Марія", "phone": "+380671234567", "email": "maria@example.com", "source": "site"}


def modules_run_by(call: Callable[[], Any]) -> set[str]:
    """The modules of the package of which any line runs during a call."""
    modules = set()

    def trace(frame: FrameType, _event: str, _: Any) -> None:
        if frame.f_code.co_filename.startswith(FOLDER):
            modules.add(frame.f_code.co_filename.removeprefix(FOLDER))

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer = call()
    finally:
        sys.settrace(before)
    assert answer.status_code in (200, 201), answer.text
    return modules


@pytest.fixture
def requests(crm, api, monkeypatch) -> dict[str, Callable[[], Any]]:
    """Requests that were made before, as to a server that runs; without their lines in the log."""
    monkeypatch.setattr(logging.getLogger("crm.requests"), "disabled", True)
    id = api.create("/leads", **LEAD)
    made = {
        "create": lambda: api.post("/leads", LEAD),
        "read": lambda: api.get(f"/leads/{id}"),
        "list": lambda: api.get("/leads?status=new&limit=10"),
        "update": lambda: api.patch(f"/leads/{id}", {"comment": "x"}),
    }
    for call in made.values():
        call()
    return made


@pytest.mark.parametrize(("name", "most"), [("create", 28), ("read", 17)])
def test_a_request_runs_few_modules(requests, name: str, most: int) -> None:
    modules = modules_run_by(requests[name])
    assert len(modules) <= most, " ".join(sorted(modules))


def test_requests_of_the_api_run_nothing_of_the_pages(requests) -> None:
    for name, call in requests.items():
        modules = modules_run_by(call)
        assert "api/operations.py" in modules
        assert not {module for module in modules if module.startswith("cabinet/")}, name
