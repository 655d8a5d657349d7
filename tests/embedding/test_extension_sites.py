"""Sites with Flask-Admin, which uses Flask-Babel where that is installed, stay as they are."""

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def closure(requirements: list[str]) -> set[str]:
    """The distributions that these requirements bring to this machine, by their normal names."""
    results: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and name not in results:
            results.add(name)
            waiting += map(Requirement, requires(name) or ())
    return results


def test_nothing_that_installing_the_crm_brings_is_flask_babel() -> None:
    brought = closure((ROOT / "requirements.txt").read_text().splitlines())
    assert {"flask", "babel", "flask-smorest", "apispec", "wtforms"} <= brought  # it did look
    assert "flask-babel" not in brought
