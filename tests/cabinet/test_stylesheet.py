"""The stylesheet of the pages: each component is styled in one place."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from crm.cabinet.assets import STATIC_FOLDER

COMPONENT = re.compile(r"\.([a-z][\w-]*)")
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


def test_all_rules_of_a_component_stand_in_one_section():
    sections = defaultdict(set)
    for number, section in enumerate(re.split(r"^/\*", STYLESHEET, flags=re.M)):
        body = section.partition("*/")[2]
        for condition, selector in rules(without_comments(body)):
            if condition == "@media print":  # one section has what is different on paper
                continue
            if match := COMPONENT.match(selector):
                sections[match[1]].add(number)
    assert {"facts", "first-steps", "steps", "panel"} <= sections.keys()
    assert [name for name, numbers in sections.items() if len(numbers) > 1] == []
