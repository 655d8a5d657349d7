"""The stylesheet of the pages: each component is styled in one place."""

import re
from collections import Counter
from collections.abc import Iterator

from crm.cabinet.assets import STATIC_FOLDER

STYLESHEET = (STATIC_FOLDER / "cabinet.css").read_text("utf-8")


def rules(text: str, condition: str = "") -> Iterator[tuple[str, str]]:
    """(condition of the media or container query, selector) of each rule."""
    position = 0
    while match := re.compile(r"\s*([^{}]+?)\s*\{").match(text, position):
        position, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        if match[1].startswith("@"):
            yield from rules(text[match.end() : position - 1], match[1])
        else:
            yield from ((condition, selector.strip()) for selector in match[1].split(","))


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def test_no_selector_is_defined_twice():
    counts = Counter(rules(without_comments(STYLESHEET)))
    assert counts
    assert [rule for rule, count in counts.items() if count > 1] == []
