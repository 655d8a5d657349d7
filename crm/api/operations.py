"""The frame of every operation: key, right, limit, body, idempotency, ETag, answer.

A resource module decorates plain functions: schema in, schema out. This module turns each into the
view that Flask calls, in one wrapper made once, and into its documentation. The order is always
the same: tenant, key, limit (`admission.py`), then right, parameters, body, rule, answer.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import quote

import flask_smorest
from flask import Request, Response, g, has_request_context, request
from marshmallow import Schema
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import HTTP_STATUS_CODES

from crm.access import rights
from crm.api import idempotency
from crm.errors import Malformed, Stale, TooLarge, WrongType
from crm.json import dumps, loads
from crm.records.pagination import Page
from crm.records.queries import Filter
from crm.records.schemas import Body, Payload, require_unchanged
from crm.records.views import RecordView

PREFIX = "/api/v1"
BODY_LIMIT = 1 << 20  # bytes of a JSON body (D4)
JSON_TYPES = ("application/json", "application/merge-patch+json")
JSON = "application/json"
NO_PARAMETERS = Filter(only=())
NO_BODY = Body()


class JsonResponse:
    """A JSON answer that is complete: werkzeug's Response would take 10 µs to say as much."""

    __slots__ = ("body", "headers", "kept", "status_code")

    def __init__(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None):
        self.body, self.status_code = body, status
        self.headers = headers or {}
        self.headers["Content-Type"] = JSON
        self.kept: bytes | None = None  # what a replay of it says, where that isn't the same

    def get_data(self) -> bytes:
        return self.body

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> list[bytes]:
        status = f"{self.status_code} {HTTP_STATUS_CODES[self.status_code].upper()}"
        length = ("Content-Length", str(len(self.body)))
        start_response(status, [*self.headers.items(), length])
        return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [self.body]


AnyResponse = Response | JsonResponse


@dataclass(slots=True)
class Operation:
    """What the decorators say of one endpoint function."""

    kind: str = "record"
    status: int = 200
    noun: str = ""
    query: Filter = NO_PARAMETERS
    body: Body | None = None
    upload: Callable[[Any], Any] | None = None
    shape: RecordView | None = None
    answer: Schema | None = None
    needs: tuple[str, ...] | None = None
    example: Any = None
    conflicts: bool = False
    secret: bool = False
    doc: dict[str, Any] = field(default_factory=dict)
    view: Callable[..., Any] | None = None  # the endpoint function as it was written
    current: RecordView | None = None  # of the record that PATCH and DELETE change
    reads: str = ""  # of a change: the scope without which its answer shows no stored value (D1)

    @property
    def record_view(self) -> RecordView:
        """How the record is shown that the operation creates, gives, changes or deletes."""
        view = self.shape or self.current
        assert view is not None
        return view


class Blueprint(flask_smorest.Blueprint):
    """The endpoints of one resource. `label`, marked by N_(): it has rights `<name>:read|write`."""

    def __init__(self, name: str, description: str, label: str = ""):
        super().__init__(name, __name__, url_prefix=PREFIX, description=description)
        self.label = label
        self.shapes: dict[str, RecordView] = {}  # of the records that PATCH and DELETE change
        self.operations: dict[str, Operation] = {}

    def arguments(self, schema: Any, *, location: str = "json", example: Any = None) -> Callable:
        """What the operation takes: a `Filter` from the query, a `Body` from JSON."""

        def note(view: Callable) -> Callable:
            operation = _of(view)
            if location == "query":
                operation.query = schema
            else:
                operation.body, operation.example = schema, example
            return view

        return note

    def upload(self, read: Callable[[Any], Any]) -> Callable:
        """The operation takes multipart/form-data; `read(request)` gives what the view gets."""
        return _note(upload=read)

    def needs(self, *scopes: str) -> Callable:
        """Other rights than the resource's own; none at all: any valid key."""
        return _note(needs=scopes)

    def conflicts(self) -> Callable:
        """The operation may answer 409."""
        return _note(conflicts=True)

    def secret(self) -> Callable:
        """The answer has a `secret`, which is told this once: a replay is without it (D4).

        Of what is created, the view gives (its id, the secret).
        """
        return _note(secret=True)

    def one(self, shape: RecordView) -> Callable:
        """Answers 200 with the record, which the view gives as it is shown, and its ETag."""
        return _note(kind="record", shape=shape, answer=shape.schema)

    def page(self, schema: Schema, noun: str = "") -> Callable:
        """Answers 200 with a page of records; the view gives a `Page`. `noun` is for an operation
        that changes them: what a short answer calls them (`<noun>_ids`)."""
        return _note(kind="page", answer=schema, noun=noun)

    def created(
        self, noun: str, shape: RecordView | None = None, several: bool = False
    ) -> Callable:
        """Answers 201 with the id that the view gives, and the record if the caller prefers.

        `several`: the view may give a list of ids.
        """
        doc = {"several": several}
        return _note(kind="created", status=201, noun=noun, shape=shape, doc=doc)

    def answer(self, schema: Schema, status: int = 200, or_else: int | None = None) -> Callable:
        """Answers with the object that the view gives, or (object, headers), or with another
        status that is announced by `or_else`: (object, headers, status)."""
        doc = {"or_else": or_else}
        return _note(kind="json", status=status, answer=schema, doc=doc)

    def empty(self) -> Callable:
        """Answers 204."""
        return _note(kind="empty", status=204)

    def raw(self, media_type: str) -> Callable:
        """Answers with the Response that the view makes."""
        return _note(kind="raw", doc={"media_type": media_type})

    def add_url_rule(self, rule: str, endpoint: Any = None, view_func: Any = None, **options: Any):
        """Register the endpoint as its compiled view (called by `@blueprint.get` and the like)."""
        operation: Operation = view_func.operation
        method = options["methods"][0]
        if operation.needs is None:
            operation.needs = (f"{self.name}:{'read' if method == 'GET' else 'write'}",)
        if method != "GET" and operation.needs:
            operation.reads = f"{operation.needs[0].partition(':')[0]}:read"
        if operation.kind == "record" and operation.shape:
            self.shapes[rule] = operation.shape
        self.operations[view_func.__name__] = operation
        operation.view, operation.current = view_func, self.shapes.get(rule)
        view = compiled(view_func, operation, method)
        super().add_url_rule(rule, endpoint, view, **options)

    def register_views_in_doc(self, api: Any, *args: Any, **options: Any) -> None:
        """Left until the document is asked for: two thirds of the time of a start."""
        api.undocumented.append(partial(super().register_views_in_doc, api, *args, **options))


def _of(view: Any) -> Operation:
    if not hasattr(view, "operation"):
        _note_operation(view, Operation())
    return view.operation


def _note_operation(view: Any, operation: Operation) -> None:
    view.operation = operation


def _note(**values: Any) -> Callable:
    def note(view: Callable) -> Callable:
        operation = _of(view)
        for name, value in values.items():
            setattr(operation, name, value)
        return view

    return note


def named(name: str, about: str) -> Callable:
    """The operation id and the summary of a view that is made several times, for several nouns."""

    def rename(view: Callable) -> Callable:
        view.__name__, view.__doc__ = name, about
        return view

    return rename


def compiled(view: Callable, operation: Operation, method: str) -> Callable:
    """The view that Flask calls. The hot path of every request: keep it short."""
    needs, body, query = operation.needs or (), operation.body, operation.query
    current = operation.current
    takes_query = query is not NO_PARAMETERS
    changes = method in ("PATCH", "DELETE") and current is not None

    def serve(**path: str) -> AnyResponse:
        rights.require(g.caller.scopes, needs)
        arguments: list[Any] = []
        asked = request._get_current_object()  # type: ignore[attr-defined]  # it is a proxy
        if asked.environ.get("QUERY_STRING"):
            read = query.read(asked.args)
            if takes_query:
                arguments.append(read)
        elif takes_query:
            arguments.append(query.unasked())
        if body is not None:
            arguments.append(body.parse(json_body(asked)))
        elif operation.upload is not None:
            arguments.append(operation.upload(asked))
        elif method == "POST":
            NO_BODY.parse(json_body(asked))

        def act() -> AnyResponse:
            return respond(asked, view(*arguments, **path), operation)

        if method == "POST" and "HTTP_IDEMPOTENCY_KEY" in asked.environ:
            return idempotency.once(asked, arguments, act)
        if changes:
            echoed = (
                arguments[-1].echoed if arguments and isinstance(arguments[-1], Payload) else None
            )
            while echoed or "HTTP_IF_MATCH" in asked.environ:
                version = known_version(asked, operation, [*path.values()][-1], echoed or {})
                try:
                    result = view(*arguments, **path, expected_version=version)
                except Stale:
                    continue  # changed since the check: whether it still fits is checked again
                return respond(asked, result, operation)
        return act()

    serve.__name__, serve.__doc__ = view.__name__, view.__doc__
    _note_operation(serve, operation)
    return serve


def respond(asked: Request, result: Any, operation: Operation) -> AnyResponse:
    """The answer of an operation (D1). Of a change that its caller may not read it shows ids."""
    kind = operation.kind
    if operation.reads and kind in ("record", "page") and not may_read(operation):
        return JsonResponse(dumps(_ids_of(result, operation)))
    if kind == "record":
        body = dumps(result)
        etag = etag_of(body)
        headers = {"ETag": f'"{etag}"'}
        if (
            "HTTP_IF_NONE_MATCH" in asked.environ
            and asked.method in ("GET", "HEAD")
            and asked.if_none_match.contains_weak(etag)  # a proxy that packs makes it weak
        ):
            response = Response(status=304, headers=headers)
            del response.headers["Content-Type"]
            return response
        return JsonResponse(body, 200, headers)
    if kind == "page":
        meta = {"next_cursor": result.next_cursor, **result.meta}
        body = dumps({"data": result.records, "meta": meta})
        link = {"Link": f'<{_next_link(result)}>; rel="next"'} if result.next_cursor else None
        return JsonResponse(body, 200, link)
    if kind == "created":
        return _created(asked, result, operation)
    if kind == "empty":
        response = Response(status=204)
        del response.headers["Content-Type"]
        return response
    if kind == "json":
        body, headers, *status = result if isinstance(result, tuple) else (result, {})
        return _told(body, status[0] if status else operation.status, headers, operation)
    return result


def may_read(operation: Operation) -> bool:
    """Whether the caller may see the record that the operation changes."""
    return rights.allows(g.caller.scopes, operation.reads)


def _ids_of(result: Any, operation: Operation) -> dict[str, Any]:
    """The short answer: what was changed, without any of its values."""
    if operation.kind == "page":
        return {"status": "ok", f"{operation.noun}_ids": [each["id"] for each in result.records]}
    return {"status": "ok", f"{operation.record_view.noun}_id": result["id"]}


def _told(body: dict[str, Any], status: int, headers: Any, operation: Operation) -> JsonResponse:
    found = JsonResponse(dumps(body), status, headers)
    if operation.secret:
        found.kept = dumps({name: body[name] for name in body if name != "secret"})
    return found


def _created(asked: Request, id: Any, operation: Operation) -> JsonResponse:
    noun = operation.noun
    headers = {}
    id, secret = id if operation.secret else (id, None)
    if isinstance(id, list):
        body: dict[str, Any] = {"status": "ok", f"{noun}_ids": [str(each) for each in id]}
    else:
        body = {"status": "ok", f"{noun}_id": str(id)}
        headers["Location"] = f"{asked.root_path}{asked.path.rstrip('/')}/{id}"
        if operation.shape and "HTTP_PREFER" in asked.environ and _prefers(asked, operation):
            body["data"] = operation.shape.one(id)
            headers["Preference-Applied"] = "return=representation"
    if secret:
        body["secret"] = secret
    return _told(body, 201, headers, operation)


def json_body(asked: Request) -> Any:
    """The JSON sent; {} without a body. Raises TooLarge, WrongType or Malformed."""
    data = _whole_body(asked.environ) or raw_body(BODY_LIMIT)
    if not data:
        return {}
    if asked.environ.get("CONTENT_TYPE") not in JSON_TYPES and asked.mimetype not in JSON_TYPES:
        raise WrongType
    try:
        return loads(data)
    except (ValueError, RecursionError):
        raise Malformed from None


def _whole_body(environ: dict[str, Any]) -> bytes:
    """A body that came with its length, read at once: werkzeug's stream takes 5 % of a create.
    Empty if it is for raw_body() to read, or to refuse."""
    length = environ.get("CONTENT_LENGTH", "")
    if not (length.isascii() and length.isdecimal() and 0 < int(length) <= BODY_LIMIT):
        return b""
    data = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = BytesIO(data)  # for whoever reads it again; cut short, it is refused
    return data if len(data) == int(length) else b""


def raw_body(limit: int) -> bytes:
    """The bytes sent. A body without a length is read one byte beyond the limit, to know."""
    request.max_content_length = limit + 1
    try:
        data = request.get_data()
    except RequestEntityTooLarge:
        raise TooLarge from None
    if len(data) > limit:
        raise TooLarge(f"the body is larger than {limit} bytes")
    return data


def known_version(
    asked: Request, operation: Operation, id: str, echoed: dict[str, Any]
) -> int | None:
    """The version of the record to change, once If-Match and the read-only fields sent fit it.

    An ETag is of the whole answer (D4), which may show other records: those are compared here, and
    only the record's own version in the transaction of the change. Without the right to read, both
    conditions would confirm guesses of stored values: then an ETag is refused (403), and of the
    read-only fields only `id` is accepted. Raises Stale, Invalid, Forbidden and NotFound.
    """
    known: dict[str, Any] = {"id": id}
    if rights.allows(g.caller.scopes, operation.reads):
        known = operation.record_view.expanded(echoed).one(id)
        if "HTTP_IF_MATCH" in asked.environ and not asked.if_match.contains(etag_of(dumps(known))):
            raise Stale
    elif not asked.if_match.star_tag and "HTTP_IF_MATCH" in asked.environ:
        rights.require(g.caller.scopes, [operation.reads])
    require_unchanged(known, echoed)
    return known.get("version")


def etag_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def address(path: str) -> str:
    """Where something of the API is, below the mount point of the request, if there is one."""
    return f"{request.root_path if has_request_context() else ''}{PREFIX}{path}"


def _prefers(asked: Request, operation: Operation) -> bool:
    """Is the record asked for, by a key that may read it?"""
    return "return=representation" in asked.environ["HTTP_PREFER"] and may_read(operation)


def _next_link(page: Page) -> str:
    sent = request.environ.get("QUERY_STRING", "")
    sent = quote(sent, safe="%&=+,:;@/?!$'()*~-._", encoding="latin-1")
    kept = [pair for pair in sent.split("&") if pair and not pair.startswith("cursor=")]
    return f"{request.root_path}{request.path}?{'&'.join([*kept, f'cursor={page.next_cursor}'])}"
