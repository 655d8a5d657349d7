"""Operations: the blueprint of a resource, and what each request of one goes through.

A resource module decorates plain functions: schema in, schema out. This module turns each into the
view function that Flask calls, in one wrapper made once, and notes what openapi.py documents. The
order is always the same: tenant, key, limit (admission.py), then scope, parameters, body, the
decorated function, response.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import flask_smorest
from flask import Flask, Request, Response, g, has_request_context, request
from marshmallow import Schema

from crm.access import rights
from crm.api import idempotency
from crm.api.bodies import read_json_body
from crm.api.responses import AnyResponse, JsonResponse, etag_of
from crm.errors import Stale
from crm.json import dumps
from crm.records.pagination import Page
from crm.records.queries import Filter
from crm.records.schemas import Body, Payload, require_unchanged
from crm.records.views import RecordView

PREFIX = "/api/v1"
NO_PARAMETERS = Filter(only=())
NO_BODY = Body()


@dataclass(slots=True)
class Operation:
    """What the decorators declare about one endpoint function.

    kind: what the response is: record, page, created, json, empty or raw.
    noun: what a response with ids alone calls the records.
    response_view: how the response shows the record.
    current_view: how the record is shown that PATCH or DELETE changes.
    needs: the scopes that the key must have; empty: any valid key.
    reads: of a change, the scope without which the response has no stored value (D1).
    conflicts: whether 409 is documented. secret: whether the response has a secret.
    doc: what only the documentation needs.
    function: the endpoint function as it was written.
    """

    kind: str = "record"
    method: str = ""
    status: int = 200
    noun: str = ""
    query: Filter = NO_PARAMETERS
    body: Body | None = None
    upload: Callable[[Any], Any] | None = None
    response_view: RecordView | None = None
    answer: Schema | None = None
    needs: tuple[str, ...] | None = None
    example: Any = None
    conflicts: bool = False
    secret: bool = False
    doc: dict[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    current_view: RecordView | None = None
    reads: str = ""

    @property
    def record_view(self) -> RecordView:
        """How the record is shown that the operation creates, gives, changes or deletes."""
        view = self.response_view or self.current_view
        assert view is not None
        return view


class Blueprint(flask_smorest.Blueprint):
    """The endpoints of one resource.

    smorest's decorators wrap the function one in another: its `arguments` would parse a query twice
    (60 µs), its `response` dump a list of 50 in 3.8 ms. Ours only note what an endpoint takes and
    returns, and compile_view() makes one wrapper.

    label: what people call the resource, marked by N_(). With one, the resource has its own scopes,
    `<name>:read` and `<name>:write`.
    """

    def __init__(self, name: str, description: str, label: str = ""):
        super().__init__(name, __name__, url_prefix=PREFIX, description=description)
        self.label = label
        self.operations: dict[str, Operation] = {}
        self.views: dict[str, RecordView] = {}  # by URL rule, of what GET shows there

    def arguments(self, schema: Any, *, location: str = "json", example: Any = None) -> Callable:
        """Declare what the operation takes: a `Filter` from the query, a `Body` from JSON.

        location: "query" or "json". example: a body for the documentation, by default made from
        the schema.
        """
        if location == "query":
            return _declare(query=schema)
        return _declare(body=schema, example=example)

    def upload(self, read: Callable[[Any], Any]) -> Callable:
        """Declare multipart/form-data; the function gets what `read(request)` returns."""
        return _declare(upload=read)

    def needs(self, *scopes: str) -> Callable:
        """Declare other scopes than the resource's own; none at all: any valid key."""
        return _declare(needs=scopes)

    def conflicts(self) -> Callable:
        """Declare that 409 is possible."""
        return _declare(conflicts=True)

    def secret(self) -> Callable:
        """Declare that the response has a `secret`, which a replay leaves out (D4).

        The function of a `created` operation then returns (id, secret).
        """
        return _declare(secret=True)

    def one(self, view: RecordView) -> Callable:
        """Respond 200 with the record, which the function returns as `view` shows it, and ETag."""
        return _declare(kind="record", response_view=view, answer=view.schema)

    def page(self, schema: Schema, noun: str = "") -> Callable:
        """Respond 200 with the `Page` that the function returns.

        noun: for an operation that changes the records: a short response calls them `<noun>_ids`.
        """
        return _declare(kind="page", answer=schema, noun=noun)

    def created(self, noun: str, view: RecordView | None = None, several: bool = False) -> Callable:
        """Respond 201 with the id that the function returns, and the record if `Prefer` asks.

        several: whether the function may return a list of ids.
        """
        doc = {"several": several}
        return _declare(kind="created", status=201, noun=noun, response_view=view, doc=doc)

    def answer(self, schema: Schema, status: int = 200, or_else: int | None = None) -> Callable:
        """Respond with the object that the function returns.

        It may return (object, headers) too, or (object, headers, status) where `or_else` declares
        another status.
        """
        return _declare(kind="json", status=status, answer=schema, doc={"or_else": or_else})

    def empty(self) -> Callable:
        """Respond 204."""
        return _declare(kind="empty", status=204)

    def raw(self, media_type: str) -> Callable:
        """Respond with the Response that the function returns."""
        return _declare(kind="raw", doc={"media_type": media_type})

    def add_url_rule(self, rule: str, endpoint: Any = None, view_func: Any = None, **options: Any):
        """Register the endpoint as its compiled view (called by `@blueprint.get` and the like)."""
        operation: Operation = view_func.operation
        method = operation.method = options["methods"][0]
        if operation.needs is None:
            operation.needs = (f"{self.name}:{'read' if method == 'GET' else 'write'}",)
        if method != "GET" and operation.needs:
            operation.reads = f"{operation.needs[0].partition(':')[0]}:read"
        if operation.kind == "record" and operation.response_view:
            self.views[rule] = operation.response_view
        self.operations[view_func.__name__] = operation
        # DELETE shows nothing: its record is shown as by GET or PATCH, registered before it.
        operation.function, operation.current_view = view_func, self.views.get(rule)
        super().add_url_rule(rule, endpoint, compile_view(operation), **options)

    def register_views_in_doc(
        self, api: Any, app: Flask, spec: Any, *, name: str, parameters: Any
    ) -> None:
        """Let the API describe the operations (smorest calls this at registration)."""
        api.add_operations(app.url_map, name, self.operations)


def _get_operation(function: Any) -> Operation:
    if not hasattr(function, "operation"):
        function.operation = Operation()
    return function.operation


def _declare(**values: Any) -> Callable:
    """A decorator that sets these attributes of the function's operation."""

    def decorate(function: Callable) -> Callable:
        operation = _get_operation(function)
        for name, value in values.items():
            setattr(operation, name, value)
        return function

    return decorate


def named(name: str, about: str) -> Callable:
    """Give an endpoint function that is made for several nouns its operation id and summary."""

    def rename(function: Callable) -> Callable:
        function.__name__, function.__doc__ = name, about
        return function

    return rename


def compile_view(operation: Operation) -> Callable:
    """Make the view function that Flask calls. It is the hot path of every request: keep it short.

    It raises what the scopes, the parameters, the body and the endpoint function raise.
    """
    function: Any = operation.function
    needs, body, query = operation.needs or (), operation.body, operation.query
    method = operation.method
    takes_query = query is not NO_PARAMETERS
    changes_record = method in ("PATCH", "DELETE") and operation.current_view is not None

    def serve(**path: str) -> AnyResponse:
        rights.require(g.caller.scopes, needs)
        arguments: list[Any] = []
        # werkzeug's documented method: the proxy would look the request up at every attribute.
        api_request = request._get_current_object()  # type: ignore[attr-defined]
        if api_request.environ.get("QUERY_STRING"):
            # Also where none are declared, so that an unknown parameter is refused.
            parameters = query.read(api_request.args)
            if takes_query:
                arguments.append(parameters)
        elif takes_query:
            arguments.append(query.default())
        if body is not None:
            arguments.append(body.parse(read_json_body(api_request)))
        elif operation.upload is not None:
            arguments.append(operation.upload(api_request))
        elif method == "POST":
            # A body that nobody reads is refused, not ignored (D4).
            NO_BODY.parse(read_json_body(api_request))

        def act() -> AnyResponse:
            return build_response(api_request, function(*arguments, **path), operation)

        # After the body was checked: an invalid one is refused without the writer's lock.
        if method == "POST" and "HTTP_IDEMPOTENCY_KEY" in api_request.environ:
            return idempotency.once(api_request, arguments, act)
        if changes_record:
            payload = arguments[-1] if arguments else None
            echoed = payload.echoed if isinstance(payload, Payload) else None
            while echoed or "HTTP_IF_MATCH" in api_request.environ:
                version = check_preconditions(
                    api_request, operation, [*path.values()][-1], echoed or {}
                )
                try:
                    result = function(*arguments, **path, expected_version=version)
                except Stale:
                    continue  # changed since the check: whether it still fits is checked again
                return build_response(api_request, result, operation)
        return act()

    view: Any = serve
    view.__name__, view.__doc__ = function.__name__, function.__doc__
    view.operation = operation
    return view


def build_response(request: Request, result: Any, operation: Operation) -> AnyResponse:
    """The response to an operation (D1): what its function returned, as its kind says.

    A change shows ids alone to a caller that may not read the record.
    """
    kind = operation.kind
    if operation.reads and kind in ("record", "page") and not may_read(operation):
        return JsonResponse(dumps(_list_ids(result, operation)))
    if kind == "record":
        body = dumps(result)
        etag = etag_of(body)
        headers = {"ETag": f'"{etag}"'}
        if (
            "HTTP_IF_NONE_MATCH" in request.environ
            and request.method in ("GET", "HEAD")
            and request.if_none_match.contains_weak(etag)  # a proxy that compresses makes it weak
        ):
            response = Response(status=304, headers=headers)
            del response.headers["Content-Type"]
            return response
        return JsonResponse(body, 200, headers)
    if kind == "page":
        meta = {"next_cursor": result.next_cursor, **result.meta}
        body = dumps({"data": result.records, "meta": meta})
        link = None
        if result.next_cursor:
            link = {"Link": f'<{_build_next_url(request, result)}>; rel="next"'}
        return JsonResponse(body, 200, link)
    if kind == "created":
        return _build_created(request, result, operation)
    if kind == "empty":
        response = Response(status=204)
        del response.headers["Content-Type"]
        return response
    if kind == "json":
        body, headers, *status = result if isinstance(result, tuple) else (result, {})
        return _build_json(body, status[0] if status else operation.status, headers, operation)
    return result


def may_read(operation: Operation) -> bool:
    """Whether the caller may see the record that the operation changes."""
    return rights.allows(g.caller.scopes, operation.reads)


def _list_ids(result: Any, operation: Operation) -> dict[str, Any]:
    """The short response: what was changed, without any of its values."""
    if operation.kind == "page":
        ids = [record["id"] for record in result.records]
        return {"status": "ok", f"{operation.noun}_ids": ids}
    return {"status": "ok", f"{operation.record_view.noun}_id": result["id"]}


def _build_json(
    body: dict[str, Any], status: int, headers: dict[str, str], operation: Operation
) -> JsonResponse:
    response = JsonResponse(dumps(body), status, headers)
    if operation.secret:
        without_secret = {name: body[name] for name in body if name != "secret"}
        response.replay_body = dumps(without_secret)
    return response


def _build_created(request: Request, result: Any, operation: Operation) -> JsonResponse:
    noun, view = operation.noun, operation.response_view
    headers = {}
    id, secret = result if operation.secret else (result, None)
    if isinstance(id, list):
        body: dict[str, Any] = {"status": "ok", f"{noun}_ids": list(map(str, id))}
    else:
        body = {"status": "ok", f"{noun}_id": str(id)}
        headers["Location"] = f"{request.root_path}{request.path.rstrip('/')}/{id}"
        if view and "HTTP_PREFER" in request.environ and _prefers_record(request, operation):
            body["data"] = view.one(id)
            headers["Preference-Applied"] = "return=representation"
    if secret:
        body["secret"] = secret
    return _build_json(body, 201, headers, operation)


def check_preconditions(
    request: Request, operation: Operation, id: str, echoed: dict[str, Any]
) -> int | None:
    """The version of the record to change, once If-Match and the read-only fields sent fit it.

    An ETag is of the whole response (D4), which may show other records: those are compared here,
    and only the record's own version in the transaction of the change. Without the right to read,
    both conditions would confirm guesses of stored values: then an ETag is refused (403), and of
    the read-only fields only `id` is accepted.

    echoed: the read-only fields that were sent. Returns None, for any version, to a caller that may
    not read the record. Raises Stale, Invalid, Forbidden and NotFound.
    """
    known: dict[str, Any] = {"id": id}
    if rights.allows(g.caller.scopes, operation.reads):
        known = operation.record_view.expanded(echoed).one(id)
        has_etag = "HTTP_IF_MATCH" in request.environ
        if has_etag and not request.if_match.contains(etag_of(dumps(known))):
            raise Stale
    elif not request.if_match.star_tag and "HTTP_IF_MATCH" in request.environ:
        rights.require(g.caller.scopes, [operation.reads])
    require_unchanged(known, echoed)
    return known.get("version")


def build_path(path: str) -> str:
    """The path of a URL of the API, below the mount point of the request, if there is one.

    path: what follows PREFIX, such as `/deals/12`.
    """
    return f"{request.root_path if has_request_context() else ''}{PREFIX}{path}"


def _prefers_record(request: Request, operation: Operation) -> bool:
    """Does a caller that may read the record want it in the response?"""
    return "return=representation" in request.environ["HTTP_PREFER"] and may_read(operation)


def _build_next_url(request: Request, page: Page) -> str:
    query_string = request.environ.get("QUERY_STRING", "")
    query_string = quote(query_string, safe="%&=+,:;@/?!$'()*~-._", encoding="latin-1")
    pairs = [pair for pair in query_string.split("&") if pair and not pair.startswith("cursor=")]
    return f"{request.root_path}{request.path}?{'&'.join([*pairs, f'cursor={page.next_cursor}'])}"
