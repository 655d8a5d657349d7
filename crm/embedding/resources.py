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
everything. The types of its arguments and its result are in the stub, attributes.pyi.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

from flask import Response

from crm.api.operations import Operation
from crm.api.stored_files import StoredFile
from crm.errors import Malformed
from crm.json import dumps, loads
from crm.records.queries import as_texts
from crm.storage.session import current_session, savepoint, transaction
from crm.wsgi import CRMApp

WITHOUT_METHOD = ("get_current_user", "add_form_file")  # they are about the API key of a request
COLLECTION_METHODS = {"GET": "list", "POST": "create", "PUT": "replace"}
RECORD_METHODS = {"GET": "get", "PATCH": "update", "DELETE": "delete"}


class Method(NamedTuple):
    """An operation of the API as a method: `path` is ("deals", "items"), `name` is "create".

    id_names: the positional parameters: ("id",) or ("deal_id", "id").
    """

    path: tuple[str, ...]
    name: str
    id_names: tuple[str, ...]
    operation: Operation


def methods_of(app: CRMApp) -> Iterator[Method]:
    """All methods, in the order of the API's routes."""
    for operation in app.api.operations.values():
        if operation.name in WITHOUT_METHOD:
            continue
        segments = operation.rule.removeprefix("/").split("/")
        words = [word.replace("-", "_") for word in segments if not word.startswith("<")]
        parents = [f"{plural.removesuffix('s')}_id" for plural in words]
        if "import" in words[:-1]:  # no name of an attribute in Python
            name, words = "_".join(words[1:]), words[:1]
        elif suffix := segments[-1].partition(">.")[2]:
            name = suffix
        elif "files" not in words and (operation.upload is not None or operation.kind == "raw"):
            name = f"{words.pop().removesuffix('.csv')}_csv"
        elif (
            len(words) > 1
            and not operation.name.startswith("create_")
            and (
                operation.kind == "json"
                or operation.method == "POST"
                and operation.kind != "created"
            )
        ):
            name = words.pop()
        elif segments[-1].startswith("<"):
            name = RECORD_METHODS[operation.method]
        else:
            name = COLLECTION_METHODS[operation.method]
        id_names = (*parents[: len(words) - 1], "id")[: len(segments) - len(parents)]
        yield Method(tuple(words), name, id_names, operation)


class Resource(SimpleNamespace):
    """A resource of the API such as `leads`, or a nested one such as `deals.items`.

    Its attributes are its methods and its nested resources.
    """


def resources_of(app: CRMApp) -> dict[str, Resource]:
    """The resources by their names in the API's paths."""
    top: dict[str, Resource] = {}
    for method in methods_of(app):
        first, *nested = method.path
        resource = top.setdefault(first, Resource())
        for name in nested:
            if not hasattr(resource, name):
                setattr(resource, name, Resource())
            resource = getattr(resource, name)
        setattr(resource, method.name, function_of(method))
    return top


def function_of(method: Method) -> Callable[..., Any]:
    """The function of a method."""
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
    call.__doc__ = operation.about.partition("\n")[0]
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
    checked = query.read(as_texts(parameters))  # also where none are declared: it refuses them
    arguments: list[Any] = [checked] if query.fields else []
    if operation.upload:
        name, data = file if isinstance(file, tuple) else (None, file)
        if not isinstance(data, bytes):
            raise TypeError("the file is given as bytes, or as (name, bytes): file=…")
        arguments.append(operation.upload.of_bytes(data, checked.options, name))
    return arguments if body is None else [*arguments, body.parse(sent)]


def _result(operation: Operation, result: Any) -> Any:
    """The result of a method: the record that was created, or what the operation answers."""
    if operation.kind == "empty":
        return None
    if isinstance(result, StoredFile):
        return result.read()
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
