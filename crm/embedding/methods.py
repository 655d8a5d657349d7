"""Which methods the resources have, and what they are called: one for each operation of the API."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flask import Flask

from crm.api.operations import PREFIX, Operation

WITHOUT_METHOD = ("users.get_current_user",)  # it describes the API key of a request
COLLECTION_METHODS = {"GET": "list", "POST": "create", "PUT": "replace"}
RECORD_METHODS = {"GET": "get", "PATCH": "update", "DELETE": "delete"}


@dataclass(frozen=True)
class Method:
    """An operation of the API as a method: `path` is ("deals", "items"), `name` is "create"."""

    path: tuple[str, ...]
    name: str
    http_method: str
    operation: Operation
    path_parameters: tuple[str, ...]  # as in the route: ("id", "itemId")

    @property
    def id_names(self) -> tuple[str, ...]:
        """The positional parameters in Python: ("id",) or ("deal_id", "id")."""
        parents = [f"{plural.removesuffix('s')}_id" for plural in self.path[:-1]]
        return (*parents, "id")[: len(self.path_parameters)]

    def call_declared(self, ids: list[str], arguments: list[Any]) -> Any:
        """Call the function that the operation was declared with."""
        function = self.operation.function
        assert function is not None, f"{self.name}: not registered"
        return function(*arguments, **dict(zip(self.path_parameters, ids, strict=True)))


def methods_of(app: Flask) -> Iterator[Method]:
    """All methods, in the order of the API's routes."""
    for rule in app.url_map.iter_rules():
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation is None or rule.endpoint in WITHOUT_METHOD:
            continue
        (http_method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        segments = rule.rule.removeprefix(f"{PREFIX}/").split("/")
        parameters = tuple(word.strip("<>") for word in segments if word.startswith("<"))
        words = [word for word in segments if not word.startswith("<")]
        is_record = segments[-1].startswith("<")
        is_file = operation.upload is not None or operation.kind == "raw"
        if is_file:
            name = f"{words.pop().removesuffix('.csv')}_csv"
        elif len(words) > 1 and http_method == "POST" and operation.kind != "created":
            name = words.pop()
        else:
            name = (RECORD_METHODS if is_record else COLLECTION_METHODS)[http_method]
        yield Method(tuple(words), name, http_method, operation, parameters)
