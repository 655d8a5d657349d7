"""Operations: what each request of one goes through.

A resource module declares them (blueprints.py). This module turns each into the view function that
Flask calls, in one wrapper made once. The order is always the same: tenant, key, limit
(admission.py), then scope, parameters, body, the endpoint function, response. Python runs the same
operations (embedding/resources.py), openapi.py documents them.

An endpoint function takes what a verb takes, in the same order: the ids in the path, then the
query, the file and the body, as far as the operation has them. PATCH and DELETE of a record that
GET shows pass `expected_version=` if the request has conditions.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import quote

from flask import Request, Response
from marshmallow import Schema
from werkzeug.datastructures import ETags
from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.routing import Rule

from crm.access import rights
from crm.api import idempotency
from crm.api.bodies import read_body
from crm.api.stored_files import StoredFile
from crm.errors import Malformed, Stale, WrongType
from crm.json import dumps, loads
from crm.records.pagination import Page
from crm.records.queries import Filter
from crm.records.schemas import Body, Payload, require_unchanged
from crm.records.views import RecordView
from crm.storage.session import current_session, settings

PREFIX = "/api/v1"
NO_PARAMETERS = Filter(only=())
NO_BODY = Body()
MAX_JSON_BODY_BYTES = 1 << 20
JSON = "application/json"
SECRETS = ("secret", "url")  # in the response of an operation that is declared to have one
JSON_TYPES = (JSON, "application/merge-patch+json")
ANY_ID, VIEWS = 1, 2  # keys of a segment of a path, whose other keys are texts


class JsonResponse:
    """A finished JSON response: werkzeug's Response would take 10 µs more."""

    __slots__ = ("body", "headers", "replay_body", "status_code")

    def __init__(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None):
        self.body, self.status_code = body, status
        self.headers = headers or {}
        self.headers["Content-Type"] = JSON
        self.replay_body: bytes | None = None  # for the same Idempotency-Key; None: the same body

    def get_data(self) -> bytes:
        """The body, by the name that werkzeug's Response has for it."""
        return self.body

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> list[bytes]:
        status = f"{self.status_code} {HTTP_STATUS_CODES[self.status_code].upper()}"
        length = ("Content-Length", str(len(self.body)))
        start_response(status, [*self.headers.items(), length])
        # Length and ETag of a HEAD are those of the GET, so its body is built too.
        return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [self.body]


AnyResponse = Response | JsonResponse


@dataclass(slots=True)
class Operation:
    """One operation of the API: its endpoint function, and what is declared about it.

    name: the operation id. about: its summary, with a description if there is one.
    rule: its URL rule below PREFIX. function: the endpoint function.
    kind: of the response: record, page, created, json, empty or raw; by default json or record.
    noun: what a response with ids alone calls the records.
    response_view: how the response shows the record.
    current_view: how the record is shown that PATCH or DELETE changes.
    needs: the scopes that the key must have; empty: any valid key.
    reads: of a change, the scope without which the response has no stored value (D1).
    answer: the schema of a page or of JSON, or what makes it; that of a record is the view's.
    upload: reads the file of a request with these ids in its path (spreadsheets/endpoints.py).
    example: a body for the documentation.
    secret: whether the response has one of SECRETS, which a replay leaves out (D4); the function of
    a `created` operation then returns (id, secret).
    For the documentation alone: conflicts: whether 409 is possible. several: whether several
    records may be created at once. other_status: one beside `status`, with other_answer, by default
    the same. media_type: of a raw response, or of one in place of JSON; several with spaces.

    By its kind, the function returns the record as it is shown, a `Page`, an id or a list of ids
    (created), an object, (object, headers), (object, headers, status) or a Response (json),
    anything (empty), a Response or a StoredFile (raw). A `Location` begins after PREFIX.
    """

    name: str = ""
    about: str = ""
    rule: str = ""
    function: Callable[..., Any] | None = None
    kind: str = ""
    method: str = ""
    status: int = 200
    noun: str = ""
    query: Filter = NO_PARAMETERS
    body: Body | None = None
    upload: Any = None
    max_body_bytes: int = MAX_JSON_BODY_BYTES
    response_view: RecordView | None = None
    answer: Schema | Callable[[], Schema] | None = None
    needs: tuple[str, ...] | None = None
    example: Any = None
    conflicts: bool = False
    secret: bool = False
    several: bool = False
    other_status: int | None = None
    other_answer: Schema | None = None
    media_type: str = ""
    current_view: RecordView | None = None
    reads: str = ""

    def __post_init__(self) -> None:
        self.kind = self.kind or ("json" if self.answer else "record")
        if self.kind == "record" and self.answer is None and self.response_view is not None:
            self.answer = self.response_view.schema

    @property
    def record_view(self) -> RecordView:
        """How the record is shown that the operation creates, gives, changes or deletes."""
        view = self.response_view or self.current_view
        assert view is not None
        return view

    @property
    def changes_record(self) -> bool:
        """Whether it changes one record and what belongs to it, which is quick."""
        view = self.response_view or self.current_view
        is_change = self.method != "GET" and self.kind in ("created", "record", "empty")
        return is_change and view is not None and view.has_audit_trail

    def run(self, ids: list[str], arguments: list[Any], if_match: ETags | None = None) -> Any:
        """Run the endpoint function, for a request or for Python: what it returns.

        ids: those in the path. arguments: the query, the file and the body, checked. if_match: the
        condition of the request, if it has one. Read-only fields in the body of a change are
        conditions too. Raises what the conditions and the function raise.
        """
        function: Any = self.function
        if self.current_view is not None and self.method in ("PATCH", "DELETE"):
            payload = arguments[-1] if arguments else None
            echoed = payload.echoed if isinstance(payload, Payload) else {}
            while echoed or if_match is not None:
                version = check_preconditions(self, ids[-1], echoed, if_match)
                try:
                    return function(*ids, *arguments, expected_version=version)
                except Stale:
                    continue  # changed since the check: whether it still fits is checked again
        return function(*ids, *arguments)


class Routes:
    """The rules of an app whose views are operations: a dictionary for each segment of a path.

    Werkzeug's matcher and Flask's two contexts take a third of the time of a GET, and operations
    use neither. What is not found here, Flask answers: other paths and methods, and OPTIONS.
    """

    def __init__(self, rules: Iterable[tuple[Rule, Any]]):
        """`rules`: with the view of each."""
        # What may follow a beginning of a path: by known texts, ANY_ID, or VIEWS by their methods.
        # An id with a suffix, such as `.pdf`, is by (ANY_ID, suffix).
        self._root: dict[Any, Any] = {}
        for rule, view in rules:
            segment = self._root
            for text in rule.rule.split("/"):
                _, is_id, suffix = text.partition(">")
                key = ((ANY_ID, suffix) if suffix else ANY_ID) if is_id else text
                segment = segment.setdefault(key, {})
            for method in (rule.methods or set()) - {"OPTIONS"}:  # Flask tells the methods
                segment.setdefault(VIEWS, {})[method] = rule, view

    def find(self, method: str, path: str) -> tuple[Rule, Any, list[str]] | None:
        """Return the rule, its view and the ids in the path; None if there is none."""
        segment, ids = self._root, []
        for text in path.split("/"):
            if text in segment:
                segment = segment[text]
            elif ANY_ID in segment and text and text.isascii():
                id, dot, suffix = text.partition(".")
                has_suffix = dot and (ANY_ID, dot + suffix) in segment
                segment = segment[(ANY_ID, dot + suffix) if has_suffix else ANY_ID]
                ids.append(id if has_suffix else text)
            else:
                return None
        rule_and_view = segment.get(VIEWS, {}).get(method)
        return None if rule_and_view is None else (*rule_and_view, ids)


def compile_view(operation: Operation) -> Callable[[Request, list[str]], AnyResponse]:
    """Make the function that answers a request, given the ids in its path.

    It is the hot path of every request: keep it short. It raises what the scopes, the parameters,
    the body and the endpoint function raise.
    """
    needs, body, query = operation.needs or (), operation.body, operation.query
    method, run = operation.method, operation.run
    takes_query = query is not NO_PARAMETERS
    changes_record = operation.changes_record

    def serve(api_request: Request, ids: list[str]) -> AnyResponse:
        rights.require(needs)
        arguments: list[Any] = []
        if api_request.environ.get("QUERY_STRING"):
            # Also where none are declared, so that an unknown parameter is refused.
            parameters = query.read(api_request.args)
            if takes_query:
                arguments.append(parameters)
        elif takes_query:
            arguments.append(query.default())
        if takes_query:
            arguments[0].as_json = True
        if body is not None:
            arguments.append(body.parse(read_json_body(api_request)))
        elif operation.upload is not None:
            arguments.append(operation.upload(api_request, *ids))
        elif method == "POST":
            # A body that nobody reads is refused, not ignored (D4).
            NO_BODY.parse(read_json_body(api_request))

        def act() -> AnyResponse:
            if_match = api_request.if_match if "HTTP_IF_MATCH" in api_request.environ else None
            result = run(ids, arguments, if_match)
            return build_response(api_request, result, operation)

        if changes_record:
            current_session().joins_groups = True
        # After the body was checked: an invalid one is refused without the writer's lock.
        if method == "POST" and "HTTP_IDEMPOTENCY_KEY" in api_request.environ:
            return idempotency.once(api_request, act)
        return act()

    return serve


def read_json_body(request: Request) -> Any:
    """The parsed JSON of the body; {} without a body.

    Raises TooLarge, WrongType for another Content-Type, and Malformed.
    """
    data = _read_whole_body(request.environ) or read_body(request, MAX_JSON_BODY_BYTES)
    if not data:
        return {}
    # The mimetype is parsed only of a header that has parameters too.
    if request.environ.get("CONTENT_TYPE") not in JSON_TYPES and request.mimetype not in JSON_TYPES:
        raise WrongType
    try:
        return loads(data)
    except (ValueError, RecursionError):
        raise Malformed from None


def _read_whole_body(environ: dict[str, Any]) -> bytes:
    """A body with a Content-Length, read at once: werkzeug's stream takes 5 % of a create.

    Empty if read_body() is to read or to refuse it.
    """
    length = environ.get("CONTENT_LENGTH", "")
    if not (length.isascii() and length.isdecimal() and 0 < int(length) <= MAX_JSON_BODY_BYTES):
        return b""
    data = environ["wsgi.input"].read(int(length))
    # The hash of an Idempotency-Key reads it again; read_body() refuses one that is cut short.
    environ["wsgi.input"] = BytesIO(data)
    return data if len(data) == int(length) else b""


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
    if kind == "json" and not isinstance(result, Response):
        body, headers, *status = result if isinstance(result, tuple) else (result, {})
        if "Location" in headers:
            # The whole address, whatever the status: Apache's mod_wsgi takes a path with 200 for an
            # internal redirect, and answers with what is there.
            address = settings().url_of(current_session().label)
            headers["Location"] = f"{address}{PREFIX}{headers['Location']}"
        return _build_json(body, status[0] if status else operation.status, headers, operation)
    return result.respond(request) if isinstance(result, StoredFile) else result


def etag_of(body: bytes) -> str:
    """The ETag of a response's body, without its quotes."""
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def may_read(operation: Operation) -> bool:
    """Whether the caller may see the record that the operation changes."""
    return rights.allows(rights.granted(), operation.reads)


def _list_ids(result: Any, operation: Operation) -> dict[str, Any]:
    """The short response: what was changed, without any of its values."""
    if operation.kind == "page":
        return {"status": "ok", f"{operation.noun}_ids": [one["id"] for one in result.records]}
    return {"status": "ok", f"{operation.record_view.noun}_id": result["id"]}


def _build_json(
    body: dict[str, Any], status: int, headers: dict[str, str], operation: Operation
) -> JsonResponse:
    response = JsonResponse(dumps(body), status, headers)
    if operation.secret:
        without_secret = {name: body[name] for name in body if name not in SECRETS}
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
        prefers_record = "return=representation" in request.environ.get("HTTP_PREFER", "")
        if view and prefers_record and may_read(operation):
            body["data"] = view.one(id)
            headers["Preference-Applied"] = "return=representation"
    if secret:
        body["secret"] = secret
    return _build_json(body, 201, headers, operation)


def check_preconditions(
    operation: Operation, id: str, echoed: dict[str, Any], if_match: ETags | None
) -> int | None:
    """The version of the record to change, once If-Match and the read-only fields sent fit it.

    An ETag is of the whole response (D4), which may show other records: those are compared here,
    and only the record's own version in the transaction of the change. Without the right to read,
    both conditions would confirm guesses of stored values: then an ETag is refused (403), and of
    the read-only fields only `id` is accepted.

    echoed: the read-only fields that were sent. if_match: the header, if there is one. Returns
    None, for any version, to a caller that may not read the record. Raises Stale, Invalid,
    Forbidden and NotFound.
    """
    known: dict[str, Any] = {"id": id}
    if may_read(operation):
        known = operation.record_view.expanded(echoed).one(id)
        if if_match is not None and not if_match.contains(etag_of(dumps(known))):
            raise Stale
    elif if_match is not None and not if_match.star_tag:
        rights.require([operation.reads])
    require_unchanged(known, echoed)
    return known.get("version")


def _build_next_url(request: Request, page: Page) -> str:
    sent = request.environ.get("QUERY_STRING", "")
    sent = quote(sent, safe="%&=+,:;@/?!$'()*~-._", encoding="latin-1")
    pairs = [pair for pair in sent.split("&") if pair and not pair.startswith("cursor=")]
    address = settings().url_of(current_session().label)
    return f"{address}{request.path}?{'&'.join([*pairs, f'cursor={page.next_cursor}'])}"
