"""The resources of the API in Python: `crm.leads.create(name=…)`, `crm.deals.items.list(7)`.

Each operation of the API is a method here, with the same schemas, rules, events and errors, without
HTTP, keys and limits. The names follow from the API's paths:

    POST /leads                 leads.create(**fields)      the record
    GET /leads                  leads.list(**filters)       a Page: records, next_cursor, meta
    GET /leads/{id}             leads.get(id)               the record
    PATCH /leads/{id}           leads.update(id, **fields)  the record
    DELETE /leads/{id}          leads.delete(id)            None
    POST /leads/{id}/convert    leads.convert(id, **fields) the answer of the API
    … /deals/{id}/items/…       deals.items.create(deal_id, **fields), .list, .update(deal_id, id)
    PUT /deals/{id}/items       deals.items.replace(deal_id, items=[…])
    POST /products/import       products.import_csv(file=b"…")
    GET /products/export        products.export_csv(**filters)   bytes

A method runs the operation as a request does (`Operation.run`), in the name of a caller that may do
everything.
"""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from flask import Response
from werkzeug.datastructures import MultiDict

from crm.api.operations import Operation
from crm.embedding.signatures import Method, Types, docstring, methods_of, signature
from crm.errors import Malformed
from crm.json import dumps, loads
from crm.storage.session import current_session, savepoint, transaction
from crm.wsgi import CRMApp


class Resource(SimpleNamespace):
    """A resource of the API such as `leads`, or a nested one such as `deals.items`.

    Its attributes are its methods and its nested resources.
    """


def resources_of(app: CRMApp) -> dict[str, Resource]:
    """The resources by their names in the API's paths."""
    resources: dict[str, Resource] = {}
    types = Types()
    for method in methods_of(app):
        first, *nested = method.path
        resource = resources.setdefault(first, Resource())
        for name in nested:
            if not hasattr(resource, name):
                setattr(resource, name, Resource())
            resource = getattr(resource, name)
        setattr(resource, method.name, _function(method, types))
    return resources


def _function(method: Method, types: Types) -> Callable[..., Any]:
    operation, id_names = method.operation, method.id_names

    def call(*ids: int | str, **values: Any) -> Any:
        if len(ids) != len(id_names):
            expected = ", ".join(id_names) or "no id"
            raise TypeError(f"{method.name}() takes {expected}, got {len(ids)} ids")
        texts = [str(id) for id in ids]
        arguments = _arguments(method, values)
        # A savepoint in the caller's transaction: one that goes on after an error keeps nothing of
        # what failed halfway.
        block = savepoint if current_session().in_transaction else transaction
        with nullcontext() if operation.method == "GET" else block():
            return _result(operation, operation.run(texts, arguments))

    call.__name__ = method.name
    call.__qualname__ = ".".join((*method.path, method.name))
    call.__doc__ = docstring(method, types)
    call.__signature__ = signature(method, types)  # type: ignore[attr-defined]
    return call


def _arguments(method: Method, values: dict[str, Any]) -> list[Any]:
    """Check the values: the query, the file and the body, as far as the operation has them."""
    operation = method.operation
    query, body = operation.query, operation.body
    file = values.pop("file", None) if operation.upload else None
    sent = wire_values(values)
    if body is None:
        parameters, sent = sent, {}
    else:
        names = query.fields.keys() - body.fields.keys()
        parameters = {name: sent.pop(name) for name in names & sent.keys()}
    if isinstance(parameters.get("mapping"), dict):
        parameters["mapping"] = dumps(parameters["mapping"]).decode()
    checked = query.read(_as_texts(parameters))  # also where none are declared: it refuses them
    arguments: list[Any] = [checked] if query.fields else []
    if operation.upload:
        if not isinstance(file, bytes):
            raise TypeError("the file is given as bytes: file=…")
        arguments.append(operation.upload.of_bytes(file, checked.options))
    return arguments if body is None else [*arguments, body.parse(sent)]


def _result(operation: Operation, result: Any) -> Any:
    """The result of a method: the record that was created, or what the operation answers."""
    if operation.kind == "empty":
        return None
    if isinstance(result, Response):
        with result:
            return result.get_data()
    if operation.kind == "json":
        body = result[0] if isinstance(result, tuple) else result  # beside it are headers
        return loads(dumps(body))  # parts of it may be texts of JSON already
    if operation.kind != "created":
        return result
    id, secret = result if operation.secret else (result, None)
    if isinstance(id, list):
        return [operation.record_view.one(one_id) for one_id in id]
    return operation.record_view.one(id) | ({"secret": secret} if secret else {})


def wire_values(values: dict[str, Any]) -> dict[str, Any]:
    """The values in the form that schemas check: a Decimal exact, times and dates as texts, …

    Writing and reading JSON refuses in one step whatever has no such form. Raises Malformed.
    """
    try:
        return loads(dumps(values))
    except (TypeError, ValueError) as error:
        raise Malformed(f"a value has no form in JSON: {error}") from None


def _as_texts(parameters: dict[str, Any]) -> MultiDict:
    """The parameters of a query as texts, without those that are None."""
    texts: MultiDict[str, str] = MultiDict()
    for name, value in parameters.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                texts.add(name, str(one).lower() if isinstance(one, bool) else str(one))
    return texts
