"""The OpenAPI 3.1 document (D16), made from what the blueprints' decorators declare.

Each schema has an example, from its fields' own examples or by their types.
"""

import re
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask_smorest
from apispec import BasePlugin
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask
from marshmallow import Schema
from marshmallow import fields as ma
from werkzeug.http import HTTP_STATUS_CODES

from crm.api import envelopes
from crm.api.operations import JSON, PREFIX, SECRETS, Operation
from crm.json import dumps
from crm.outbox import events
from crm.records import fields
from crm.records.nested import Nested
from crm.records.parameters import Parameter
from crm.records.schemas import Body
from crm.records.views import RecordView

PROBLEM = "application/problem+json"
PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}
DELIVERIES = "deliveries"  # a tag of operations would give their generated class another content
GUIDES_PATH = f"{PREFIX}/docs/guides"
PATH_PARAMETER = re.compile("<([^>]+)>")
ID = {"type": "string", "minLength": 1}
# 400, 404, 422: at least for query and host; 414: from the server.
COMMON_PROBLEMS = (400, 401, 403, 404, 414, 422, 429, 503)
PROBLEMS = {"POST": (413, 415, 507), "PUT": (413, 415, 507), "DELETE": (412,)}
PROBLEMS["PATCH"] = (*PROBLEMS["PUT"], *PROBLEMS["DELETE"])
COMMON_HEADERS = ("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
PROBLEM_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
# What no operation changes, as the comments in the file say.
FIXED_PARTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("openapi.toml").read_text("utf-8")
)
MOMENT = "2026-03-01T08:00:00Z"
SAMPLES = {
    fields.Id: "12",
    fields.Text: "Олена Петренко",
    fields.LongText: "Зателефонувати після 15:00",
    fields.Amount: 1250.5,
    fields.Quantity: 2,
    fields.DateTime: MOMENT,
    fields.Date: "2026-03-01",
    fields.Currency: "UAH",
    fields.Boolean: True,
    fields.Tags: ["vip"],
    fields.Extra: {"floor": "3"},
    fields.Color: "#1f6feb",
    fields.Number: 10,
    ma.DateTime: MOMENT,
    ma.Integer: 1,
    ma.Boolean: True,
    ma.Dict: {},
}


class Api(flask_smorest.Api):
    """smorest's Api, which describes the operations when the document is first asked for.

    To describe them takes two thirds of the time of a start.
    """

    ERROR_SCHEMA = PROBLEM_SCHEMA

    def __init__(self, app: Flask):
        self.operations: dict[str, Operation] = {}  # by endpoint
        self.event_schemas: Callable[[], dict[str, Schema]] = dict  # by kind
        self._is_described = False
        self._lock = threading.Lock()
        app.config.update(
            API_TITLE="CRM", API_VERSION="v1", OPENAPI_VERSION="3.1.0", OPENAPI_URL_PREFIX=None
        )
        super().__init__(
            app,
            spec_kwargs={
                "flask_plugin": BasePlugin(),  # instead of the one that takes rules of Flask
                "marshmallow_plugin": MarshmallowPlugin(schema_name_resolver=_schema_name),
                "info": FIXED_PARTS["info"],
            },
        )
        self.ma_plugin.converter.add_attribute_function(_describe_field)

    def _describe_components(self) -> None:
        components = self.spec.components
        del components.schemas["PaginationMetadata"]  # of a header that smorest's pages have
        components.security_schemes |= FIXED_PARTS["security_schemes"]
        components.headers |= FIXED_PARTS["headers"]
        components.schemas |= FIXED_PARTS["schemas"]
        # Lazy: the document has those that an operation refers to. smorest's own are named by
        # http.HTTPStatus, so some of them are replaced and none of the others is referred to.
        for status in HTTP_STATUS_CODES:
            if status >= 400:
                components.response(_component(status), _describe_problem(status), lazy=True)

    def document(self, root: str) -> dict[str, Any]:
        """The whole document. `root`: what the URLs of the server and the guides begin with, as the
        tenant's address or the mount point.
        """
        with self._lock:  # two first requests at once must not describe an operation twice
            if not self._is_described:
                self._describe_components()
                for endpoint, operation in self.operations.items():
                    described = _describe_operation(operation)
                    described["tags"] = [endpoint.partition(".")[0]]
                    names = PATH_PARAMETER.findall(operation.rule)
                    parameters = [{"in": "path", "name": name, "schema": ID} for name in names]
                    path = PATH_PARAMETER.sub(r"{\1}", operation.rule)
                    operations = {operation.method.lower(): described}
                    self.spec.path(path, operations=operations, parameters=parameters)
                self.spec.options["webhooks"] = self._describe_webhooks()
                self.spec.tag({"name": DELIVERIES, "description": "What webhooks receive."})
                self._is_described = True
        return {
            **self.spec.to_dict(),
            "servers": [{"url": f"{root}{PREFIX}"}],
            "externalDocs": {"description": "Guides", "url": f"{root}{GUIDES_PATH}/"},
        }

    def _describe_webhooks(self) -> dict[str, Any]:
        schemas = self.spec.components.schemas
        webhooks, references, data = {}, {}, dict[str, Any]()
        event_schemas = self.event_schemas()
        for kind, about in events.KINDS.items():
            event: Any = event_schemas[kind]
            references[kind] = self.ma_plugin.converter.resolve_nested_schema(event)
            data |= schemas[_schema_name(event.fields["data"].schema)]["properties"]
            content = {"schema": references[kind], "example": example(event)}
            scopes = events.scopes_of_data(kind)
            needed = ", ".join(f"`{scope}`" for scope in dict.fromkeys(scopes.values()))
            webhooks[kind] = {
                "post": {
                    "operationId": kind.replace(".", "_"),
                    "summary": about,
                    "description": "Sent to every endpoint that wants this kind of event. A key"
                    f" that chooses it needs {needed}.",
                    "security": [],  # no key of the API: the receiver checks the signature
                    "tags": [DELIVERIES],
                    "parameters": FIXED_PARTS["webhook_headers"],
                    "requestBody": {"required": True, "content": {JSON: content}},
                    "responses": {
                        "2XX": {"description": "Received; anything else is tried again."}
                    },
                }
            }
        mapping = {kind: reference["$ref"] for kind, reference in references.items()}
        schemas["EventData"] = {"type": "object", "properties": data}
        # `properties` is for openapi-generator's PHP, which joins the kinds in one class: without
        # it, `data` would have the type of the last kind alone.
        properties = {
            **schemas[_schema_name(event)]["properties"],
            "type": {"type": "string", "enum": [*mapping]},
            "data": {"$ref": "#/components/schemas/EventData"},
        }
        schemas["Event"] = {
            "type": "object",
            "properties": properties,
            "oneOf": [*references.values()],
            "discriminator": {"propertyName": "type", "mapping": mapping},
        }
        return webhooks


def _schema_name(schema: Any) -> str:
    schema_class = schema if isinstance(schema, type) else schema.__class__
    return schema_class.__name__.removesuffix("Schema").removesuffix("Out")


def _describe_field(converter: Any, field: ma.Field, **_: Any) -> dict[str, Any]:
    """apispec's attribute function for our own fields; it calls them as the converter's methods."""
    if isinstance(field, Parameter):
        return field.json_schema()
    if isinstance(field, fields.Field):
        return describe_field(field)
    if isinstance(field, Nested) and field.about:
        return {"description": field.about}
    if isinstance(field, envelopes.Events):
        return {"type": "array", "items": {"$ref": "#/components/schemas/Event"}}
    if isinstance(field, envelopes.Records):
        schema = converter.resolve_nested_schema(field.schema)
        return {"type": "array", "items": schema} if field.several else schema
    if "const" in field.metadata:  # which apispec leaves out
        return {"const": field.metadata["const"]}
    return {}


def describe_field(field: fields.Field) -> dict[str, Any]:
    """The JSON Schema of a field of a record or a body (OpenAPI 3.1)."""
    schema = field.schema_type()
    if field.allow_none and "anyOf" in schema:
        schema["anyOf"].append({"type": "null"})
    elif field.allow_none:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    about = [field.about] if field.about else []
    if field.incoming and field.default_value is not None:
        # Not as `default`: openapi-typescript takes a field that has one for required.
        default = dumps(field.default_value).decode().strip('"')
        about.append(f"By default `{default}`.")
    if about:
        schema["description"] = " ".join(about)
    if field.example is not None:
        schema["examples"] = [field.example]
    return schema


def _describe_operation(operation: Operation) -> dict[str, Any]:
    """One operation of the document."""
    scopes = list(operation.needs or ())
    # An endpoint whose scopes depend on the request describes them itself.
    summary, _, description = operation.about.partition("\n\n")
    if not description:
        scope_names = " and ".join(f"`{scope}`" for scope in scopes) or "any valid key"
        description = f"Needs {scope_names}."
    statuses = filter(None, (operation.status, operation.other_status))
    problems = [*COMMON_PROBLEMS, *PROBLEMS.get(operation.method, ())]
    problems += [409] * operation.conflicts
    responses = {
        **{str(status): _describe_success(operation, status) for status in statuses},
        **{str(status): _component(status) for status in sorted(problems)},
    }
    if operation.kind == "record" and operation.method == "GET":
        responses["304"] = {"description": "Not changed since If-None-Match"}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "description": description + _describe_short_answer(operation),
        "security": [{"ApiKey": scopes}],
        "responses": responses,
    }
    if parameters := _describe_parameters(operation):
        described["parameters"] = parameters
    if body := _describe_body(operation):
        described["requestBody"] = body
    return described


def _describe_short_answer(operation: Operation) -> str:
    """What a change answers to a key that may not read its record."""
    if not operation.reads or operation.kind not in ("record", "page", "created"):
        return ""
    if operation.kind == "created":
        return f" `Prefer` needs `{operation.reads}` too." if operation.response_view else ""
    noun = operation.noun or operation.record_view.noun
    ids = f'"{noun}_ids": […]' if operation.kind == "page" else f'"{noun}_id": "…"'
    return f' Without `{operation.reads}` the answer is `{{"status": "ok", {ids}}}` alone.'


def _describe_parameters(operation: Operation) -> list[dict[str, Any]]:
    """The query parameters and the headers of requests."""
    names = {"POST": ["Idempotency-Key"], "PATCH": ["If-Match"], "DELETE": ["If-Match"]}
    headers = [*names.get(operation.method, ())]
    if operation.method == "POST" and operation.kind == "created" and operation.response_view:
        headers.append("Prefer")
    if operation.method == "GET" and operation.kind == "record":
        headers.append("If-None-Match")
    described: list[dict[str, Any]] = []
    if operation.query.fields:
        described.append({"in": "query", "schema": operation.query})
    for name in headers:
        described.append({"in": "header", "name": name, **FIXED_PARTS["request_headers"][name]})
    return described


def _describe_body(operation: Operation) -> dict[str, Any] | None:
    if (upload := operation.upload) is not None:
        more = {name: upload.filter.fields[name].json_schema() for name in upload.parts}
        file = FIXED_PARTS["upload"]
        form = {**file, "properties": {**file["properties"], **more}}
        return {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    if (body := operation.body) is None:
        return None
    schema = {"oneOf": list(body.alternatives)} if body.alternatives else body
    content = {"schema": schema, "example": operation.example or example(body)}
    # Also where nothing counts as `{}`: generators give an optional body another place.
    return {"required": True, "content": {JSON: content}}


def _describe_success(operation: Operation, status: int) -> dict[str, Any]:
    names = [*COMMON_HEADERS]
    if operation.method == "POST":
        names.append("Idempotency-Replayed")
    if status == 201 or operation.other_status:
        names.append("Location")
    if operation.kind in ("record", "page"):
        names.append("ETag" if operation.kind == "record" else "Link")
    response = {
        "description": HTTP_STATUS_CODES[status],
        "headers": dict(zip(names, names, strict=True)),
    }
    files = dict.fromkeys(operation.media_type.split(), {"schema": {"type": "string"}})
    if operation.kind == "raw":
        return {**response, "content": files}
    schema: Any
    if operation.kind == "created":
        schema = envelopes.created(
            operation.noun, operation.response_view, operation.several, operation.secret
        )
        body: dict[str, Any] = {"status": "ok", f"{operation.noun}_id": "12"}
    elif operation.answer is None:
        return response
    else:
        is_other = status == operation.other_status
        schema = (is_other and operation.other_answer) or operation.answer
        schema = schema() if callable(schema) else schema
        view = operation.response_view
        body = example(view if view and schema is view.schema else schema)
    if operation.secret:
        names = [name for name in SECRETS if name in schema.fields]
        body |= {name: schema.fields[name].metadata["examples"][0] for name in names}
    return {**response, "content": {JSON: {"schema": schema, "example": body}, **files}}


def _describe_problem(status: int) -> dict[str, Any]:
    title = HTTP_STATUS_CODES[status]
    problem = {**FIXED_PARTS["problem_example"], "title": title, "status": status}
    return {
        "description": title,
        "headers": {name: name for name in ("X-Request-Id", *PROBLEM_HEADERS.get(status, ()))},
        "content": {PROBLEM: {"schema": PROBLEM_SCHEMA, "example": problem}},
    }


def _component(status: int) -> str:
    """The name of a problem's response in the document.

    From werkzeug's titles, because those of Python's http.HTTPStatus change with its version.
    """
    return HTTP_STATUS_CODES[status].upper().replace(" ", "_")


def example(schema: Schema | RecordView) -> dict[str, Any]:
    """An example of a body with all its fields, of a view with the parts that it shows, or of
    another response with the required fields and all records."""
    is_whole = isinstance(schema, (Body, RecordView))
    return {
        name: _build_value(field)
        for name, field in schema.fields.items()
        if is_whole or field.required or isinstance(field, envelopes.Records)
    }


def _build_value(field: Any) -> Any:
    if isinstance(field, ma.Nested):
        return [example(field.schema)] if field.many else example(field.schema)
    if isinstance(field, envelopes.Records):
        record = example(field.shown)
        return [record] if field.several else record
    if isinstance(field, ma.List):
        return [_build_value(field.inner)]
    if isinstance(field, fields.Field) and field.example is not None:
        return field.example
    if isinstance(field, fields.Choice):
        return field.choices[0]
    if isinstance(field, fields.Integer):
        return max(field.minimum, min(1, field.maximum))
    if isinstance(field, ma.String):
        values = field.metadata.get("examples") or field.metadata.get("enum")
        only = field.metadata.get("const", None if field.allow_none else "12")
        return values[0] if values else only
    return next(SAMPLES[kind] for kind in type(field).__mro__ if kind in SAMPLES)
