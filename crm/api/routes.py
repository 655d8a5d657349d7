"""The operation of a request by its method and path, found without Flask's contexts."""

from collections.abc import Iterable
from typing import Any

from werkzeug.routing import Rule


class Routes:
    """The rules of an app whose views are operations: a dictionary for each segment of a path.

    Werkzeug's matcher and Flask's two contexts take a third of the time of a GET, and operations
    use neither. What is not found here, Flask answers: other paths and methods, and OPTIONS.
    """

    def __init__(self, rules: Iterable[tuple[Rule, Any]]):
        """`rules`: with the view of each."""
        self._root = _Segment()
        for rule, view in rules:
            segment = self._root
            for text in rule.rule.split("/"):
                if text.startswith("<"):
                    segment.variable = segment = segment.variable or _Segment()
                else:
                    segment = segment.fixed.setdefault(text, _Segment())
            for method in (rule.methods or set()) - {"OPTIONS"}:  # Flask tells the methods
                segment.views[method] = rule, view

    def find(self, method: str, path: str) -> tuple[Rule, Any, list[str]] | None:
        """Return the rule, its view and the ids in the path; None if there is none."""
        segment, ids = self._root, []
        for text in path.split("/"):
            if (known := segment.fixed.get(text)) is not None:
                segment = known
            elif segment.variable is not None and text and text.isascii():
                segment = segment.variable
                ids.append(text)
            else:
                return None
        rule_and_view = segment.views.get(method)
        return None if rule_and_view is None else (*rule_and_view, ids)


class _Segment:
    """What may follow a beginning of a path: known texts, an id, or nothing."""

    __slots__ = ("fixed", "variable", "views")

    def __init__(self) -> None:
        self.fixed: dict[str, _Segment] = {}
        self.variable: _Segment | None = None
        self.views: dict[str, tuple[Rule, Any]] = {}
