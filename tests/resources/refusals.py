"""What is refused and why, in the few words that tests compare."""

from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import TestResponse

from crm.errors import Conflict, Invalid


def refusal(verb: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The (pointer, code) of all that a verb calls invalid, or the code of its conflict."""
    with pytest.raises((Invalid, Conflict)) as refused:
        verb(*arguments, **named)
    return [(fault.where, fault.code) for fault in refused.value.faults] or refused.value.code


def faults(answer: TestResponse) -> list[tuple[str, str]]:
    """The (pointer or parameter, code) of all that a request has wrong."""
    assert answer.status_code == 422, answer.text
    errors = answer.json["errors"]
    return [(error.get("pointer", error.get("parameter")), error["code"]) for error in errors]


def conflict(answer: TestResponse) -> str:
    """The code of a conflict."""
    assert answer.status_code == 409, answer.text
    return answer.json["code"]
