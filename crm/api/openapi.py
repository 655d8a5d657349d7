"""The OpenAPI 3.1 document (D16), made from what the blueprints' decorators say."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import flask_smorest
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask
from flask_smorest.spec.plugins import FlaskPlugin
from marshmallow import fields as ma
from werkzeug.http import HTTP_STATUS_CODES

from crm.api import envelopes
from crm.api.envelopes import ProblemSchema, Records
from crm.api.examples import example
from crm.api.operations import JSON, PREFIX, Blueprint, Operation
from crm.errors import Invalid
from crm.json import dumps
from crm.outbox import events
from crm.records import fields
from crm.records.nested import Nested
from crm.records.parameters import Parameter
from crm.records.schemas import Body

PROBLEM = "application/problem+json"
GUIDES_PATH = f"{PREFIX}/docs/guides"
ALWAYS = (400, 401, 403, 404, 422, 429, 503)  # 400, 404, 422: at least for query and host
WITH_BODY = (413, 415, 507)
ABOUT = """Leads, clients, deals, products, tasks, pipelines and users of one tenant.

Every request carries `Authorization: Bearer <API_KEY>`; each operation names the scopes that its
key needs. Errors are RFC 9457 problems with a stable `code`. Lists are read by `limit` and
`cursor`; a parameter shown as a list may be repeated. A change takes the fields that are sent;
read-only ones may come along as they are. A POST may carry an `Idempotency-Key`. Answers may get
more fields in time."""

CONTACT = {"name": "The operator of this installation"}
LICENSE = {"name": "MIT", "identifier": "MIT"}
ASKED = {  # headers of requests
    "Idempotency-Key": (
        "The same key and body within 24 hours is one change and one answer.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    ),
    "Prefer": ("`return=representation` adds the record as `data`.", {"type": "string"}),
    "If-Match": ("The ETag that the record must still have, else 412.", {"type": "string"}),
    "If-None-Match": (
        "The ETag that is known already: 304 when nothing changed.",
        {"type": "string"},
    ),
}
TOLD = {  # headers of answers
    "X-Request-Id": ("To name the request in a question to us.", "string"),
    "X-RateLimit-Limit": ("Requests a minute of the tenant's plan.", "integer"),
    "X-RateLimit-Remaining": ("Requests left in this minute.", "integer"),
    "X-RateLimit-Reset": ("When the minute ends, in UTC epoch seconds.", "integer"),
    "Retry-After": ("Seconds to wait.", "integer"),
    "WWW-Authenticate": ("`Bearer`", "string"),
    "Location": ("The address of what was created.", "string"),
    "ETag": ("Tells this state of the record from others.", "string"),
    "Link": ('`<…>; rel="next"`: the next page.', "string"),
    "Idempotency-Replayed": ("`true`: the answer was given before.", "string"),
}
EVERY = ("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
OF_PROBLEM = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
FILE = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary", "contentMediaType": "text/csv"},
    },
    "required": ["file"],
    "additionalProperties": False,
}
SIGNED = {  # headers of deliveries: the Standard Webhooks specification
    "webhook-id": "The event's id, the same at every attempt.",
    "webhook-timestamp": "When this attempt was made, in UTC epoch seconds.",
    "webhook-signature": "`v1,…`: HMAC-SHA256 of id, timestamp and body; several with spaces.",
}


class _Paths(FlaskPlugin):
    def path_helper(self, *args: Any, **options: Any) -> Any:
        return super().path_helper(*args, **options).removeprefix(PREFIX)


class Api(flask_smorest.Api):
    """smorest's Api with our errors and without its error handler for the whole app."""

    ERROR_SCHEMA = ProblemSchema

    def __init__(self, app: Flask):
        self.operations: dict[str, Operation] = {}
        self.undocumented: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        app.config.update(
            API_TITLE="CRM", API_VERSION="v1", OPENAPI_VERSION="3.1.0", OPENAPI_URL_PREFIX=None
        )
        super().__init__(
            app,
            spec_kwargs={
                "flask_plugin": _Paths(),
                "marshmallow_plugin": MarshmallowPlugin(schema_name_resolver=_schema_name),
                "info": {"description": ABOUT, "contact": CONTACT, "license": LICENSE},
            },
        )
        self.ma_plugin.converter.add_attribute_function(_described)
        self.spec.components.security_scheme(
            "ApiKey", {"type": "http", "scheme": "bearer", "description": "An API key (`crm_…`)."}
        )
        for name, (about, kind) in TOLD.items():
            header = {"description": about, "schema": {"type": kind}}
            self.spec.components.header(name, header)

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        blueprint._prepare_doc_cbks = [_document]
        for name, operation in blueprint.operations.items():
            self.operations[f"{blueprint.name}.{name}"] = operation
            for method_doc in blueprint._docs[name].values():
                if method_doc is not None:
                    method_doc["name"], method_doc["operation"] = name, operation
        super().register_blueprint(blueprint, **options)

    def document(self, root: str) -> dict[str, Any]:
        """The whole document; `root` is the mount point that the servers follow."""
        with self._lock:
            while self.undocumented:
                self.undocumented.pop(0)()
        return {
            **self.spec.to_dict(),
            "servers": [{"url": f"{root}{PREFIX}"}],
            "externalDocs": {"description": "Guides", "url": f"{root}{GUIDES_PATH}/"},
        }

    def _register_error_handlers(self) -> None:
        """One handler for API and pages is registered by create_app."""

    def _register_responses(self) -> None:
        for status, title in HTTP_STATUS_CODES.items():
            if status < 400:
                continue
            told = {
                "type": "about:blank",
                "title": title,
                "status": status,
                "detail": "what went wrong, for people",
                "instance": f"{PREFIX}/leads",
                "code": "a_stable_code",
                "request_id": "4f2a9c0d1e5b7a3c8d6e0f12",
            }
            response = {
                "description": title,
                "headers": _headers("X-Request-Id", *OF_PROBLEM.get(status, ())),
                "content": {PROBLEM: {"schema": ProblemSchema, "example": told}},
            }
            self.spec.components.response(_component(status), response, lazy=True)

    def _register_etag_headers(self) -> None:
        """Ours are in ASKED and TOLD."""

    def _register_pagination_header(self) -> None:
        """Pages are told in the body."""


def _schema_name(schema: Any) -> str:
    kind = schema if isinstance(schema, type) else schema.__class__
    return kind.__name__.removesuffix("Schema").removesuffix("Out")


def _described(self: Any, field: ma.Field, **_: Any) -> dict[str, Any]:
    """apispec's attribute function for our own fields."""
    if isinstance(field, Parameter):
        return field.json_schema()
    if isinstance(field, fields.Field):
        return field_schema(field)
    if isinstance(field, Nested) and field.about:
        return {"description": field.about}
    if isinstance(field, Records):
        found = [self.resolve_nested_schema(schema) for schema in field.schemas]
        return {"type": "array", "items": found[0] if len(found) == 1 else {"oneOf": found}}
    return {}


def field_schema(field: fields.Field) -> dict[str, Any]:
    """The JSON Schema of a field of a record or a body (OpenAPI 3.1)."""
    found = field.schema_type()
    if field.allow_none and "anyOf" in found:
        found["anyOf"].append({"type": "null"})
    elif field.allow_none:
        found["type"] = [found["type"], "null"]
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    about = [field.about] if field.about else []
    if field.incoming and field.default is not None:
        # Not as `default`: openapi-typescript takes a field that has one for required.
        default = dumps(field.default).decode().strip('"')
        about.append(f"By default `{default}`.")
    if about:
        found["description"] = " ".join(about)
    if field.example is not None:
        found["examples"] = [field.example]
    return found


def _document(doc: dict, info: dict, *, spec: Any, method: str, **_: Any) -> dict[str, Any]:
    """One operation of the document."""
    operation: Operation = info["operation"]
    scopes = list(operation.needs or ())
    found: dict[str, Any] = {"operationId": info["name"], "security": [{"ApiKey": scopes}]}
    # The endpoint's own words go before: they say which right is needed where it depends.
    if not doc.get("description"):
        needed = " and ".join(f"`{scope}`" for scope in scopes) or "any valid key"
        found["description"] = f"Needs {needed}.{_without_reading(operation)}"
    if parameters := _parameters(operation, method):
        found["parameters"] = parameters
    if body := _request_body(operation):
        found["requestBody"] = body
    found["responses"] = {
        **{str(status): _success(operation, status, method) for status in _successes(operation)},
        **{str(status): _component(status) for status in _problems(operation, method)},
    }
    if operation.kind == "record" and method == "get":
        found["responses"]["304"] = {"description": "Not changed since If-None-Match"}
    return {**doc, **found}


def _without_reading(operation: Operation) -> str:
    """What a change answers to a key that may not read its record."""
    if not operation.reads or operation.kind not in ("record", "page", "created"):
        return ""
    if operation.kind == "created":
        return f" `Prefer` needs `{operation.reads}` too." if operation.shape else ""
    return f" Without `{operation.reads}` the answer has ids alone."


def _parameters(operation: Operation, method: str) -> list[dict[str, Any]]:
    names = {"post": ["Idempotency-Key"], "patch": ["If-Match"], "delete": ["If-Match"]}
    headers = [*names.get(method, ())]
    if method == "post" and operation.kind == "created" and operation.shape:
        headers.append("Prefer")
    if method == "get" and operation.kind == "record":
        headers.append("If-None-Match")
    query = [{"in": "query", "schema": operation.query}] if operation.query.fields else []
    return query + [_asked(name) for name in headers]


def _asked(name: str) -> dict[str, Any]:
    about, schema = ASKED[name]
    return {"in": "header", "name": name, "description": about, "schema": schema}


def _request_body(operation: Operation) -> dict[str, Any] | None:
    if operation.upload is not None:
        return {"required": True, "content": {"multipart/form-data": {"schema": FILE}}}
    if (body := operation.body) is None:
        return None
    one_of = {"oneOf": list(body.alternatives)} if body.alternatives else body
    content = {"schema": one_of, "example": operation.example or example(body)}
    return {"required": not _takes_nothing(body), "content": {JSON: content}}


def _takes_nothing(body: Body) -> bool:
    """Is a request without a body good too?"""
    try:
        body.parse({})
    except Invalid:
        return False
    return True


def _successes(operation: Operation) -> list[int]:
    also = operation.doc.get("or_else")
    return [operation.status, *([also] if also else [])]


def _problems(operation: Operation, method: str) -> list[int]:
    found = {*ALWAYS}
    if method in ("post", "patch", "put"):
        found.update(WITH_BODY)
    if method in ("patch", "delete"):
        found.add(412)
    if operation.conflicts:
        found.add(409)
    return sorted(found)


def _success(operation: Operation, status: int, method: str) -> dict[str, Any]:
    names = [*EVERY]
    if method == "post":
        names.append("Idempotency-Replayed")
    if status == 201:
        names.append("Location")
    if operation.kind in ("record", "page"):
        names.append("ETag" if operation.kind == "record" else "Link")
    found = {"description": HTTP_STATUS_CODES[status], "headers": _headers(*names)}
    if operation.kind == "raw":
        return {**found, "content": {operation.doc["media_type"]: {"schema": {"type": "string"}}}}
    schema: Any = operation.answer
    described: Any = schema
    once = {"secret": envelopes.SHOWN_SECRET} if operation.secret else {}
    if operation.kind == "record":
        described = operation.shape
    elif operation.kind == "created":
        several = bool(operation.doc.get("several"))
        schema = envelopes.created(operation.noun, operation.shape, several, operation.secret)
        shown = {"status": "ok", f"{operation.noun}_id": "12", **once}
        return {**found, "content": {JSON: {"schema": schema, "example": shown}}}
    if schema is None:
        return found
    if operation.reads and operation.kind in ("record", "page"):
        noun = operation.noun or operation.record_view.noun
        short = envelopes.changed(noun, operation.kind == "page")
        schema = {"oneOf": [schema, short]}
    return {**found, "content": {JSON: {"schema": schema, "example": example(described) | once}}}


def _component(status: int) -> str:
    """The name of an error's answer in the document, by whatever Python that is served."""
    return HTTP_STATUS_CODES[status].upper().replace(" ", "_")


def _headers(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def describe_webhooks(api: Api, records: dict[str, Any]) -> None:
    """The 14 kinds of events in the document.

    `records` gives the schema of each name in an event's `data`, in a list where there are several.
    """
    api.undocumented.append(partial(_describe_webhooks, api, records))


def _describe_webhooks(api: Api, records: dict[str, Any]) -> None:
    parameters = [
        {
            "in": "header",
            "name": name,
            "description": about,
            "required": True,
            "schema": {"type": "string"},
        }
        for name, about in SIGNED.items()
    ]
    found = {}
    for kind, about in events.KINDS.items():
        told = []
        for name in events.list_records_in_data(kind):
            several = isinstance(records[name], list)
            told.append((name, records[name][0] if several else records[name], several))
        event = envelopes.event_of(kind, tuple(told))
        schema = api.ma_plugin.converter.resolve_nested_schema(event)
        found[kind] = {
            "post": {
                "operationId": kind.replace(".", "_"),
                "summary": about,
                "description": "Sent to every endpoint that wants this kind of event.",
                "security": [],  # no key of the API: the receiver checks the signature
                "tags": ["webhooks"],
                "parameters": parameters,
                "requestBody": {
                    "required": True,
                    "content": {JSON: {"schema": schema, "example": example(event)}},
                },
                "responses": {"2XX": {"description": "Received; anything else is tried again."}},
            }
        }
    api.spec.options["webhooks"] = found
