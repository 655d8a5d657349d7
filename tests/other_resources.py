"""Bodies for resources that a test does not name, so that it covers a new resource by itself."""

from collections.abc import Collection
from typing import Any

from crm import CRMApp
from crm.records import fields

PREFIX = "/api/v1/"


def bodies_of_others(
    app: CRMApp, named: Collection[str], text: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return {resource: body of a POST that creates one record}, of resources that are not named.

    A body is the documented example. text: the value of each field that is any text, except
    `external_id`, which must be unique.
    """
    bodies = {}
    for rule in app.url_map.iter_rules():
        name = rule.rule.removeprefix(PREFIX)
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation is None or operation.kind != "created" or "/" in name or name in named:
            continue
        texts = [
            name
            for name, field in operation.body.fields.items()
            if type(field) in (fields.Text, fields.LongText) and name != "external_id"
        ]
        bodies[name] = operation.example | (dict.fromkeys(texts, text) if text else {})
    return bodies
