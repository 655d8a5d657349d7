"""Many cases in one test: for tables and maps whose cases prove one thing together."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import Any


def loop_over(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Decorate a test to run for every case within one item.

    `names` and `cases` are as `pytest.mark.parametrize` takes them, without `pytest.param`. All
    cases share the fixtures of the item, so each must pass whatever the others left behind. A
    failing case does not stop the others; a note on its error names it.

    Raises:
        ExceptionGroup: the errors of the cases that failed.
    """
    parameters = names.replace(" ", "").split(",") if isinstance(names, str) else names
    rows = [case if len(parameters) > 1 else (case,) for case in cases]
    assert rows, "a loop without cases proves nothing"

    def decorate(test: Callable) -> Callable:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            errors = []
            for number, row in enumerate(rows, 1):
                case = dict(zip(parameters, row, strict=True))
                try:
                    test(**fixtures, **case)
                except Exception as error:
                    error.add_note(f"Case {number} of {len(rows)}: {_text_of(case)}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(rows)} cases failed", errors)

        whole = signature(test)
        fixtures = [whole.parameters[name] for name in whole.parameters if name not in parameters]
        run.__signature__ = whole.replace(parameters=fixtures)  # pytest reads fixtures from it
        return run

    return decorate


def _text_of(case: dict[str, Any]) -> str:
    try:
        return repr(case)[:300]
    except ValueError:  # Python writes no int of more than 4,300 digits
        return "it cannot be written"
