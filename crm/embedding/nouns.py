"""The verbs of the API in Python: `crm.leads.create(name=…)`, `crm.deals.items.list(7)`.

They are the endpoints themselves: the same schemas, rules, events and errors, without HTTP, keys
and limits. What exists follows from the API's paths:

    POST /leads                 leads.create(**fields)      the record
    GET /leads                  leads.list(**filters)       a page: records, next_cursor, meta
    GET /leads/{id}             leads.get(id)               the record
    PATCH /leads/{id}           leads.change(id, **fields)  the record
    DELETE /leads/{id}          leads.delete(id)            None
    POST /leads/{id}/convert    leads.convert(id, **fields) what the API answers
    … /deals/{id}/items/…       deals.items.create(deal_id, **fields), .list, .change(deal_id, id)
    PUT /deals/{id}/items       deals.items.replace(deal_id, items=[…])
    POST /products/import       products.import_csv(file=b"…")
    GET /products/export        products.export_csv(**filters)   bytes
"""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flask import Flask, g, request
from werkzeug.datastructures import MultiDict

from crm.access.api_keys import Caller
from crm.access.rights import ALL_SCOPES
from crm.api.operations import PREFIX, Operation
from crm.errors import Malformed
from crm.json import dumps, loads
from crm.records.views import unchanged
from crm.tenancy.database import current_session, database

WITHOUT_KEY = ("users.get_current_user",)  # which tells of the key that asks: here is none
OF_ALL = {"GET": "list", "POST": "create", "PUT": "replace"}
OF_ONE = {"GET": "get", "PATCH": "change", "DELETE": "delete"}


class RecordSchema(SimpleNamespace):
    """One noun of the API, or a part of one such as `deals.items`, with its verbs."""


def of(app: Flask) -> dict[str, RecordSchema]:
    """The nouns of the API by their names in its paths."""
    found: dict[str, RecordSchema] = {}
    for rule in app.url_map.iter_rules():
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation is None or rule.endpoint in WITHOUT_KEY:
            continue
        method = (rule.methods - {"HEAD", "OPTIONS"}).pop()
        noun, *rest = rule.rule.removeprefix(f"{PREFIX}/").split("/")
        at = found.setdefault(noun, RecordSchema())
        words = [word for word in rest if not word.startswith("<")]
        is_one = bool(rest) and rest[-1].startswith("<")
        is_file = operation.upload is not None or operation.kind == "raw"
        is_verb = is_file or (words and method == "POST" and operation.kind != "created")
        for word in words[: -1 if is_verb else None]:
            if not hasattr(at, word):
                setattr(at, word, RecordSchema())
            at = getattr(at, word)
        verb = words[-1] if is_verb else (OF_ONE if is_one else OF_ALL)[method]
        if is_file:
            verb = f"{verb.removesuffix('.csv')}_csv"
        names = tuple(word.strip("<>") for word in rest if word.startswith("<"))
        setattr(at, verb, _verb(app, operation, method, verb, names))
    return found


def _verb(
    app: Flask, operation: Operation, method: str, name: str, names: tuple[str, ...]
) -> Callable[..., Any]:
    def verb(*ids: int | str, **fields: Any) -> Any:
        if len(ids) != len(names):
            raise TypeError(f"{name}() takes {', '.join(names) or 'no id'}, got {len(ids)} ids")
        path = dict(zip(names, map(str, ids), strict=True))
        caller = Caller(0, "", current_session().user_id or 0, frozenset([ALL_SCOPES]), (), "")
        arguments, echoed = _arguments(app, operation, fields)
        with app.app_context():
            g.caller = caller
            if method == "GET":
                return _shown(operation, operation.view(*arguments, **path))
            with database.atomic():  # if who calls goes on after an error, nothing half stays
                if echoed:
                    shape = operation.current.expanded(echoed)
                    unchanged(shape.one([*path.values()][-1]), echoed)
                return _shown(operation, operation.view(*arguments, **path))

    verb.__name__, verb.__doc__ = name, operation.view.__doc__
    return verb


def _arguments(
    app: Flask, operation: Operation, fields: dict[str, Any]
) -> tuple[list[Any], dict[str, Any] | None]:
    """What the endpoint gets, and the read-only fields that came along to a record."""
    file = fields.pop("file", None) if operation.upload else None
    sent, query, body = _as_sent(fields), operation.query, operation.body
    found: list[Any] = []
    if body is None:
        asked, sent = sent, {}
    else:
        names = query.fields.keys() - body.fields.keys()
        asked = {name: sent.pop(name) for name in names & sent.keys()}
    if asked or query.fields:
        read = query.read(_as_parameters(asked))
        found += [read] if query.fields else []
    if operation.upload:
        found.append(_read(app, operation, file, asked))
    if body is None:
        return found, None
    taken = body.take(sent)
    return [*found, taken], operation.current and getattr(taken, "echoed", None)


def _read(app: Flask, operation: Operation, file: Any, asked: dict[str, Any]) -> Any:
    """A file, as the endpoint reads it from a form."""
    if not isinstance(file, bytes):
        raise TypeError("the file is given as bytes: file=…")
    form, query = {"file": (io.BytesIO(file), "file.csv")}, _as_parameters(asked)
    with app.test_request_context(method="POST", data=form, query_string=query):
        return operation.upload(request)


def _shown(operation: Operation, result: Any) -> Any:
    """What came of it, as the API shows it; of what was created the record."""
    if operation.kind == "json":
        return loads(dumps(result[0] if isinstance(result, tuple) else result))
    if operation.kind == "raw":
        with result:
            return result.get_data()
    if operation.kind != "created":
        return result
    id, secret = result if operation.secret else (result, None)
    if isinstance(id, list):
        return [operation.shape.one(each) for each in id]
    return operation.shape.one(id) | ({"secret": secret} if secret else {})


def _as_sent(fields: dict[str, Any]) -> dict[str, Any]:
    """As they would come by JSON: a Decimal as an exact number, times and dates as texts."""
    try:
        return loads(dumps(fields))
    except TypeError as error:
        raise Malformed(f"a value has no form in JSON: {error}") from None


def _as_parameters(asked: dict[str, Any]) -> MultiDict:
    found = MultiDict()
    for name, value in asked.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                found.add(name, str(each).lower() if isinstance(each, bool) else str(each))
    return found
