"""Sites made with Flask-Admin, Flask-Login, Flask-SQLAlchemy and Flask-Babel: with the CRM in it a
site's own pages answer as before."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
def test_a_site_with_flask_admin_and_a_flask_babel_of_its_own() -> None:
    """In a process of its own, because Flask-Admin asks at its import for Flask-Babel."""
    places = [str(ROOT), str(ROOT / "tests" / "embedding")]
    program = f"import sys; sys.path[:0] = {places}; from extension_sites import check; check()"
    command = [sys.executable, "-W", "ignore", "-c", f"{program}; print('checked')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("checked\n"), done.stdout + done.stderr


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
