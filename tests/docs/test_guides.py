"""The guides of `crm/docs` name tests and pages that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
GUIDES = sorted((TESTS.parent / "crm" / "docs").glob("*.md"))
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)(?:::(test_\w+))?`")


def test_the_threat_model_names_tests_that_exist():
    guide = (TESTS.parent / "crm" / "docs" / "threat-model.md").read_text()
    named = NAMED.findall(guide)
    assert len(named) > 40
    for file, name in named:
        code = (TESTS / file).read_text()
        assert not name or f"\ndef {name}(" in code, f"{file}::{name}"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_a_guide_is_linked_from_the_readme_and_its_links_lead_somewhere(guide):
    assert f"crm/docs/{guide.name}" in (TESTS.parent / "README.md").read_text()
    for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", guide.read_text()):
        assert (guide.parent / link).exists(), link
