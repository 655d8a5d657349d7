"""requirements.txt: no version with a known advisory may be installed, and sites keep theirs."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
REQUIREMENTS = {requirement.name: requirement for requirement in map(Requirement, LINES)}
# The newest release that each advisory concerns. CVE-2026-97687 and 97689 are of urllib3 2.7.
LAST_WITH_AN_ADVISORY = {
    "flask": ("3.1.2", "CVE-2026-27205"),
    "gunicorn": ("21.2.0", "CVE-2024-6827"),
    "jinja2": ("3.1.5", "CVE-2025-27516"),
    "marshmallow": ("3.26.1", "CVE-2025-68480"),
    "marshmallow 4": ("4.1.1", "CVE-2025-68480"),
    "orjson": ("3.11.5", "CVE-2025-67221"),
    "python-dotenv": ("1.2.1", "CVE-2026-28684"),
    "urllib3": ("2.7.0", "CVE-2026-97687"),
    "werkzeug": ("3.1.5", "CVE-2026-27199"),
}


@pytest.mark.parametrize("name", LAST_WITH_AN_ADVISORY)
def test_no_version_with_a_known_advisory_is_allowed(name: str) -> None:
    version, advisory = LAST_WITH_AN_ADVISORY[name]
    assert version not in REQUIREMENTS[name.partition(" ")[0]].specifier, advisory


def test_sites_with_marshmallow_3_and_4_keep_theirs() -> None:
    """`dataclasses-json` and others need 3: CI runs the core of the tests with both."""
    allowed = REQUIREMENTS["marshmallow"].specifier
    assert all(version in allowed for version in ("3.26.2", "4.1.2", "4.4.0"))
    assert "\n.ci/oldest\n" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_each_requirement_has_an_oldest_version_and_an_end() -> None:
    for name, requirement in REQUIREMENTS.items():
        operators = {specifier.operator for specifier in requirement.specifier}
        assert ">=" in operators, name
        assert "<" in operators or name == "tzdata", name  # its versions are dates
