"""Sites made with Flask-Admin, Flask-Login, Flask-SQLAlchemy and Flask-Babel: with the CRM in it a
site's own pages answer as before."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("admin", [False, True], ids=["without admin", "with admin"])
def test_a_site_without_flask_babel(admin: bool) -> None:
    checked_by_itself(("flask_babel",), admin=admin)


@pytest.mark.parametrize("admin", [False, True], ids=["without admin", "with admin"])
def test_a_site_with_a_flask_babel_of_its_own(admin: bool) -> None:
    checked_by_itself(admin=admin, babel=True)


def test_a_site_where_flask_babel_is_there_and_nobody_uses_it() -> None:
    checked_by_itself()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(names: set[str]) -> set[str]:
    """These distributions and all that they require, without extras."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or ():
            requirement, _, marker = text.partition(";")
            if "extra ==" not in marker:
                names.add(normal(re.match(r"[\w.-]+", requirement)[0]))
        names -= found
        names -= {
            "colorama",
            "tzlocal",
            "typing-extensions",
            "importlib-metadata",
        }  # not everywhere
    return found


def test_nothing_that_installing_the_crm_brings_is_flask_babel() -> None:
    lines = (ROOT / "requirements.txt").read_text().split()
    brought = closure({normal(re.match(r"[\w.-]+", line)[0]) for line in lines})
    assert {"flask", "babel", "flask-smorest", "apispec", "wtforms"} <= brought  # it did look
    assert "flask-babel" not in brought
