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

# As if a package were not installed: Python's own way to say that a name cannot be imported.
RUN = """
import sys
sys.path[:0] = {places!r}
sys.modules.update(dict.fromkeys({without!r}))
from extension_sites import check
check(**{options!r})
print("checked")
"""


def checked_by_itself(without: tuple[str, ...] = (), **options: bool) -> None:
    places = [str(ROOT), str(ROOT / "tests" / "embedding")]
    program = RUN.format(places=places, without=without, options=options)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.endswith("checked\n"), done.stdout + done.stderr


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.parametrize("admin", [False, True], ids=["without admin", "with admin"])
def test_a_site_without_flask_babel(admin: bool) -> None:
    checked_by_itself(("flask_babel",), admin=admin)


@pytest.mark.process
@pytest.mark.parametrize(
    "admin",
    [pytest.param(False, marks=pytest.mark.deep), True],
    ids=["without admin", "with admin"],
)
def test_a_site_with_a_flask_babel_of_its_own(admin: bool) -> None:
    checked_by_itself(admin=admin, babel=True)


@pytest.mark.deep
@pytest.mark.process
def test_a_site_where_flask_babel_is_there_and_nobody_uses_it() -> None:
    checked_by_itself()


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
