"""The OpenAPI 3.1 document (D16), made from what the blueprints' decorators say."""

import threading
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from typing import Any

import flask_smorest
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask
from flask_smorest.spec.plugins import FlaskPlugin
from marshmallow import Schema
from marshmallow import fields as ma

from crm.outbox import events
from crm.rest import fields
from crm.rest.resource import PREFIX, Blueprint, Operation
from crm.rest.shapes import Body, Shape

PROBLEM = "application/problem+json"
ALWAYS = (401, 403, 404, 405, 422, 429, 503)
ABOUT = """Leads, clients, deals, products, tasks, pipelines and users of one tenant.

Every request carries `Authorization: Bearer <API_KEY>`. Errors are RFC 9457 problems with a stable
`code`. Lists are read by `limit` and `cursor`. A POST may carry an `Idempotency-Key`."""


class FaultSchema(Schema):
    pointer = ma.String(metadata={"description": "JSON pointer into the body"})
    parameter = ma.String(metadata={"description": "Name of a query parameter"})
    header = ma.String(metadata={"description": "Name of a header"})
    code = ma.String(required=True)
    detail = ma.String(required=True)

    class Meta:
        unknown = "include"


class ProblemSchema(Schema):
    """RFC 9457 (D14)."""

    type = ma.String(required=True)
    title = ma.String(required=True)
    status = ma.Integer(required=True)
    detail = ma.String(required=True)
    instance = ma.String(required=True)
    code = ma.String(required=True, metadata={"description": "Stable: for programs"})
    request_id = ma.String(required=True)
    errors = ma.List(ma.Nested(FaultSchema))

    class Meta:
        unknown = "include"


class MetaSchema(Schema):
    next_cursor = ma.String(required=True, allow_none=True)
    total = ma.Integer()

    class Meta:
        unknown = "include"


class TombstoneSchema(Schema):
    """A deleted record, with `include_deleted`."""

    id = ma.String(required=True)
    deleted_at = ma.DateTime(required=True)
    updated_at = ma.DateTime(required=True)

    class Meta:
        unknown = "include"


class Records(ma.Field):
    """The records of a page: one schema, or with tombstones among them."""

    def __init__(self, *schemas: Any):
        super().__init__(required=True)
        self.schemas = schemas


def page_of(schema: Schema, deleted: bool = False) -> Schema:
    """The envelope of a list."""
    name = f"{schema.__class__.__name__.removesuffix('Out')}Page"
    records = Records(schema, TombstoneSchema()) if deleted else Records(schema)
    found = {"data": records, "meta": ma.Nested(MetaSchema, required=True)}
    return type(name, (_Open,), found)()


class _Open(Schema):
    class Meta:
        unknown = "include"


def _described(self: Any, field: ma.Field, **_: Any) -> dict[str, Any]:
    """apispec's attribute function for our own fields."""
    if isinstance(field, fields.Field):
        return field.json_schema()
    if isinstance(field, fields.Part) and field.about:
        return {"description": field.about}
    if isinstance(field, Records):
        found = [self.resolve_nested_schema(schema) for schema in field.schemas]
        return {"type": "array", "items": found[0] if len(found) == 1 else {"anyOf": found}}
    return {}


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
                "info": {"description": ABOUT},
            },
        )
        self.ma_plugin.converter.add_attribute_function(_described)
        self.spec.components.security_scheme(
            "ApiKey", {"type": "http", "scheme": "bearer", "description": "An API key (`crm_…`)."}
        )

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
        return {**self.spec.to_dict(), "servers": [{"url": f"{root}{PREFIX}"}]}

    def _register_error_handlers(self) -> None:
        """One handler for API and pages is registered by create_app."""

    def _register_responses(self) -> None:
        example = {
            "type": "about:blank",
            "detail": "what went wrong, for people",
            "instance": f"{PREFIX}/leads",
            "code": "a_stable_code",
            "request_id": "4f2a9c0d1e5b7a3c8d6e0f12",
        }
        for status in (*(status for status in HTTPStatus if status >= 400), None):
            told = {"status": status or 500, "title": status.phrase if status else "Error"}
            content = {"schema": ProblemSchema, "example": {**example, **told}}
            response = {
                "description": status.phrase if status else "Any other problem",
                "content": {PROBLEM: content},
            }
            name = status.name if status else "DEFAULT_ERROR"
            self.spec.components.response(name, response, lazy=True)

    def _register_pagination_header(self) -> None:
        """Pages are told in the body."""


def _schema_name(schema: Any) -> str:
    kind = schema if isinstance(schema, type) else schema.__class__
    return kind.__name__.removesuffix("Schema").removesuffix("Out")


UPLOAD = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
                "required": ["file"],
                "additionalProperties": False,
            }
        }
    },
}


def _document(doc: dict, info: dict, *, spec: Any, method: str, **_: Any) -> dict[str, Any]:
    """One operation of the document."""
    operation: Operation = info["operation"]
    scopes = list(operation.needs or ())
    found: dict[str, Any] = {
        "operationId": info["name"],
        "security": [{"ApiKey": scopes}],
        "responses": {str(operation.status): _success(operation, info["name"])},
    }
    if also := operation.doc.get("or_else"):
        again = _success(operation, info["name"])
        found["responses"][str(also)] = {**again, "description": HTTPStatus(also).phrase}
    if "write" in "".join(scopes) or "create" in "".join(scopes) or scopes:
        found["x-scopes"] = scopes
    parameters = []
    if operation.query.fields:
        parameters.append({"in": "query", "schema": operation.query})
    parameters += [_header(name) for name in _headers(operation, method)]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content = {"schema": operation.body, "example": operation.example or example(operation.body)}
        found["requestBody"] = {"required": method != "post" or any(
            f.required for f in operation.body.fields.values()
        ), "content": {"application/json": content}}
    elif operation.upload is not None:
        found["requestBody"] = UPLOAD
    problems = set(ALWAYS)
    problems |= {400} if operation.query.fields or operation.body or operation.upload else set()
    problems |= {409} if operation.conflicts else set()
    problems |= {412} if method in ("patch", "delete") else set()
    problems |= {413, 415} if method in ("post", "patch", "put") else set()
    problems |= {400} if method in ("post", "patch", "put") else set()
    for status in sorted(problems):
        found["responses"][str(status)] = HTTPStatus(status).name
    found["responses"]["default"] = "DEFAULT_ERROR"
    if operation.kind == "record" and method == "get":
        found["responses"]["304"] = {"description": "Not changed since If-None-Match"}
    return {**doc, **found, **operation.doc.get("manual", {})}


def _success(operation: Operation, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if operation.kind == "raw":
        media = operation.doc["media_type"]
        return {**found, "content": {media: {"schema": {"type": "string"}}}}
    schema = operation.answer
    if operation.kind == "created":
        schema = created_schema(operation)
        found["headers"] = {"Location": {"schema": {"type": "string"}}}
    if schema is not None:
        found["content"] = {"application/json": {"schema": schema, "example": example(schema)}}
    return found


def created_schema(operation: Operation) -> Schema:
    """`{"status": "ok", "<noun>_id": "…"}`, with `data` when preferred (D1)."""
    return _created_schema(operation.noun, operation.shape, bool(operation.doc.get("several")))


@cache  # the same record may be created at several paths: its schema has one name
def _created_schema(noun: str, shape: Shape | None, several: bool) -> Schema:
    found = {"status": ma.String(required=True, metadata={"enum": ["ok"]})}
    if several:
        found[f"{noun}_id"] = ma.String()
        found[f"{noun}_ids"] = ma.List(ma.String())
    else:
        found[f"{noun}_id"] = ma.String(required=True, metadata={"examples": ["12"]})
    if shape:
        found["data"] = ma.Nested(shape.schema)
    return type(f"{noun.capitalize()}Created", (_Open,), found)()


def _headers(operation: Operation, method: str) -> list[str]:
    if method == "post":
        return ["Idempotency-Key", *(["Prefer"] if operation.shape else [])]
    if method in ("patch", "delete"):
        return ["If-Match"]
    return ["If-None-Match"] if operation.kind == "record" else []


HEADERS = {
    "Idempotency-Key": "The same key and body within 24 hours is one change and one answer.",
    "Prefer": "`return=representation` adds the record as `data`.",
    "If-Match": "The ETag that the record must still have, else 412.",
    "If-None-Match": "The ETag that is known already: 304 when nothing changed.",
}


def _header(name: str) -> dict[str, Any]:
    schema = {"type": "string"}
    if name == "Idempotency-Key":
        schema |= {"minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return {"in": "header", "name": name, "description": HEADERS[name], "schema": schema}


SAMPLES = {
    fields.Id: "12",
    fields.Text: "Олена Петренко",
    fields.LongText: "Зателефонувати після 15:00",
    fields.Price: 1250.5,
    fields.Amount: 1250.5,
    fields.Quantity: 2,
    fields.Number: 10,
    fields.Moment: "2026-03-01T08:00:00Z",
    fields.Past: "2026-03-01T08:00:00Z",
    fields.Day: "2026-03-01",
    fields.Currency: "UAH",
    fields.Flag: True,
    fields.Tags: ["vip"],
    fields.Extra: {"floor": "3"},
    fields.Color: "#1f6feb",
}


def example(schema: Schema) -> dict[str, Any]:
    """An example of a schema, from its fields' own examples or one for each type."""
    found = {name: _sample(field) for name, field in schema.fields.items()}
    if isinstance(schema, Body):
        return {name: value for name, value in found.items() if value is not None}
    return found


def _sample(field: Any) -> Any:
    if isinstance(field, ma.Nested):
        return [example(field.schema)] if field.many else example(field.schema)
    if isinstance(field, Records):
        return [example(field.schemas[0])]
    if isinstance(field, ma.List):
        return [_sample(field.inner)]
    if getattr(field, "example", None) is not None:
        return field.example
    if isinstance(field, fields.Choice):
        return field.choices[0]
    if isinstance(field, fields.Whole):
        return max(field.least, min(1, field.most))
    if isinstance(field, ma.Integer):
        return 1
    if isinstance(field, ma.String):
        return (field.metadata.get("enum") or [None if field.allow_none else "12"])[0]
    return next((value for kind, value in SAMPLES.items() if type(field) is kind), None)


def describe_webhooks(api: Api, records: dict[str, Any]) -> None:
    """The 14 kinds of events in the document.

    `records` gives the schema of each name in an event's `data`, in a list where there are several.
    """
    api.undocumented.append(partial(_describe_webhooks, api, records))


def _describe_webhooks(api: Api, records: dict[str, Any]) -> None:
    found = {}
    for kind, about in events.KINDS.items():
        data = {name: _told(records[name]) for name in events.records_of(kind)}
        name = "".join(part.capitalize() for part in kind.replace(".", "_").split("_"))
        event = {
            "id": ma.String(required=True),
            "type": ma.String(required=True, metadata={"enum": [kind]}),
            "timestamp": ma.DateTime(required=True),
            "tenant": ma.String(required=True),
            "sequence": ma.Integer(required=True),
            "data": ma.Nested(type(f"{name}Data", (_Open,), data)(), required=True),
            "previous": ma.Dict(required=True),
        }
        schema = api.ma_plugin.converter.resolve_nested_schema(type(f"{name}Event", (_Open,), event)())
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        responses = {"2XX": {"description": "Received"}}
        found[kind] = {"post": {"summary": about, "requestBody": body, "responses": responses}}
    api.spec.options["webhooks"] = found


def _told(schema: Any) -> ma.Nested:
    if isinstance(schema, list):
        return ma.Nested(schema[0], many=True, required=True)
    return ma.Nested(schema, required=True)
