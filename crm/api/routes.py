"""The operation of a request by its method and path, found without Flask's contexts."""

from collections.abc import Iterable
from typing import Any

from werkzeug.routing import Rule

ANY_ID, VIEWS = 1, 2  # keys of a segment of a path, whose other keys are texts


class Routes:
    """The rules of an app whose views are operations: a dictionary for each segment of a path.

    Werkzeug's matcher and Flask's two contexts take a third of the time of a GET, and operations
    use neither. What is not found here, Flask answers: other paths and methods, and OPTIONS.
    """

    def __init__(self, rules: Iterable[tuple[Rule, Any]]):
        """`rules`: with the view of each."""
        # What may follow a beginning of a path: by known texts, ANY_ID, or VIEWS by their methods.
        self._root: dict[Any, Any] = {}
        for rule, view in rules:
            segment = self._root
            for text in rule.rule.split("/"):
                segment = segment.setdefault(ANY_ID if text.startswith("<") else text, {})
            for method in (rule.methods or set()) - {"OPTIONS"}:  # Flask tells the methods
                segment.setdefault(VIEWS, {})[method] = rule, view

    def find(self, method: str, path: str) -> tuple[Rule, Any, list[str]] | None:
        """Return the rule, its view and the ids in the path; None if there is none."""
        segment, ids = self._root, []
        for text in path.split("/"):
            if text in segment:
                segment = segment[text]
            elif ANY_ID in segment and text and text.isascii():
                segment = segment[ANY_ID]
                ids.append(text)
            else:
                return None
        rule_and_view = segment.get(VIEWS, {}).get(method)
        return None if rule_and_view is None else (*rule_and_view, ids)
