"""The templates of the pages can be read."""

from pathlib import Path

import crm

TEMPLATES = Path(crm.__file__).parent / "cabinet" / "templates"
MAX_LINE_CHARACTERS = 160


def test_lines_of_templates_are_not_long():
    paths = [*TEMPLATES.rglob("*.html")]
    assert paths
    long_lines = [
        f"{path.relative_to(TEMPLATES)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > MAX_LINE_CHARACTERS
    ]
    assert long_lines == []
