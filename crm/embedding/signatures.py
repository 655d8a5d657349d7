"""The methods of the resources, one for each operation of the API: names, signatures, types and
docstrings, made from the declared schemas.

Types are Python source, for the generated stub (stub.py) and as annotations at run time. Values may
be given as they are on the wire or as Python has them: a number as Decimal, a time as datetime.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, NamedTuple

from marshmallow import Schema
from marshmallow import fields as ma

from crm.api.envelopes import Records
from crm.api.openapi import describe_field
from crm.api.operations import Operation
from crm.records import fields, parameters
from crm.records.nested import Nested
from crm.wsgi import CRMApp

SIMPLE_TYPES = {"boolean": "bool", "integer": "int", "string": "str"}
TEXT_TYPES = {"date-time": "datetime | str", "date": "date | str"}
VERSION = "As it was read: refused when the record has changed since."
FILE = "The file's bytes."
WITHOUT_METHOD = ("get_current_user",)  # it describes the API key of a request
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
        elif operation.upload is not None or operation.kind == "raw":
            name = f"{words.pop().removesuffix('.csv')}_csv"
        elif len(words) > 1 and (
            operation.kind == "json" or operation.method == "POST" and operation.kind != "created"
        ):
            name = words.pop()
        elif segments[-1].startswith("<"):
            name = RECORD_METHODS[operation.method]
        else:
            name = COLLECTION_METHODS[operation.method]
        id_names = (*parents[: len(words) - 1], "id")[: len(segments) - len(parents)]
        yield Method(tuple(words), name, id_names, operation)


@dataclass(frozen=True)
class Argument:
    """A keyword argument of a method; `type` is Python source."""

    name: str
    type: str
    is_required: bool = False
    about: str = ""


@dataclass
class TypedRecord:
    """A TypedDict of the stub: its keys with their types, and whether each is always there."""

    about: str
    keys: dict[str, tuple[str, bool]] = field(default_factory=dict)
    base: str = "TypedDict"


class Types:
    """The types of fields and schemas. Keeps the TypedDict of each schema that it meets."""

    def __init__(self) -> None:
        self.records: dict[str, TypedRecord] = {}

    def of_schema(self, schema: Schema, is_input: bool = False) -> str:
        """The name of the TypedDict of a schema."""
        name = type(schema).__name__.removesuffix("Schema").removesuffix("Out")
        if name not in self.records:
            record = self.records[name] = TypedRecord(_first_line(type(schema)))
            for key, declared in schema.fields.items():
                record.keys[key] = (self.of_field(declared, is_input), declared.required)
        return name

    def with_secret(self, name: str) -> str:
        """A record that was created with a secret, which is shown this once."""
        record = TypedRecord("As it was created.", {"secret": ("str", True)}, name)
        self.records[f"{name}Created"] = record
        return f"{name}Created"

    def of_field(self, declared: ma.Field, is_input: bool) -> str:
        """The type of a field of a body (`is_input`) or of a record."""
        many = "Sequence" if is_input else "list"
        if isinstance(declared, Records):
            name = " | ".join(self.of_schema(schema) for schema in declared.schemas)
            source = f"{many}[{name}]"
        elif isinstance(declared, ma.Nested):
            source = self.of_schema(declared.schema, is_input)
            source = f"{many}[{source}]" if declared.many else source
        elif isinstance(declared, ma.List):
            source = f"{many}[{self.of_field(declared.inner, is_input)}]"
        elif isinstance(declared, fields.Field):
            source = _type_of(declared.schema_type(), is_input)
        elif isinstance(declared, ma.Integer):
            source = "int"
        elif isinstance(declared, ma.Dict):
            source = "dict[str, Any]"
        else:  # the other fields of answers are texts
            source = _literal(declared.metadata.get("enum", ())) or "str"
        return f"{source} | None" if declared.allow_none else source

    def of_parameter(self, declared: parameters.Parameter) -> str:
        """The type of a parameter of a query; None means that it is not given."""
        if isinstance(declared, parameters.Reference):
            source = "int | str"
        else:
            source = _type_of(declared.schema_type(), is_input=True)
            if source == _literal(("true", "false")):
                source = "bool"
        if declared.repeated:
            source = f"{source} | Sequence[{source}]"
        return f"{source} | None"

    def of_result(self, method: Method) -> str:
        """What a method returns."""
        operation = method.operation
        if operation.kind == "empty":
            return "None"
        if operation.kind == "raw":
            return "bytes"
        if operation.kind in ("page", "json"):
            answer = operation.answer
            assert answer is not None, f"{method.name}: no answer"
            if operation.kind == "json":
                return self.of_schema(answer)
            records: Any = answer.fields["data"]
            return f"Page[{self.of_schema(records.schemas[0])}]"
        name = self.of_schema(method.operation.record_view.schema)
        return self.with_secret(name) if operation.secret else name


def variants(method: Method, types: Types) -> Iterator[tuple[list[Argument], str]]:
    """The keyword arguments of a method with its type of result: one pair, or one for each body
    that it takes. Of several records that are sent at once, the result is a list."""
    operation = method.operation
    bodies = (operation.body and operation.body.alternatives) or (operation.body,)
    for number, body in enumerate(bodies):
        result = types.of_result(method)
        yield [*_arguments(method, body, types)], f"builtins.list[{result}]" if number else result


def signature(method: Method, types: Types) -> inspect.Signature:
    """The signature at run time. Of several bodies, it has the arguments of all."""
    parameter, alternatives = inspect.Parameter, [*variants(method, types)]
    ids = [
        parameter(name, parameter.POSITIONAL_ONLY, annotation="int | str")
        for name in method.id_names
    ]
    keywords = {
        argument.name: parameter(
            argument.name,
            parameter.KEYWORD_ONLY,
            annotation=argument.type,
            default=parameter.empty if argument.is_required and len(alternatives) == 1 else ...,
        )
        for arguments, _ in alternatives
        for argument in arguments
    }
    results = " | ".join(result for _, result in alternatives)
    return inspect.Signature([*ids, *keywords.values()], return_annotation=results)


def docstring(method: Method, types: Types) -> str:
    """What the method does, and its arguments whose meaning their name does not give."""
    lines = [method.operation.about.partition("\n")[0]]
    abouts = {
        argument.name: argument.about
        for arguments, _ in variants(method, types)
        for argument in arguments
        if argument.about
    }
    if abouts:
        lines += ["", *(f"{name}: {about}" for name, about in abouts.items())]
    return "\n".join(lines)


def _arguments(method: Method, body: Any, types: Types) -> Iterator[Argument]:
    """Those of the file, the body and the query; the required ones first."""
    operation = method.operation
    if operation.upload:
        yield Argument("file", "bytes", True, FILE)
    declared = [
        Argument(name, types.of_field(one, True), one.required, _about(one))
        for name, one in (body.fields.items() if body else ())
    ]
    yield from sorted(declared, key=lambda argument: not argument.is_required)
    if body and "version" in body.echoes:
        yield Argument("version", "int", about=VERSION)
    for name, parameter in operation.query.fields.items():
        if iskeyword(name):  # `for`: it can only be given as **{"for": "people"}
            continue
        yield Argument(name, types.of_parameter(parameter), about=parameter.about)


def _about(declared: ma.Field) -> str:
    if isinstance(declared, fields.Field):
        return describe_field(declared).get("description", "")
    return declared.about if isinstance(declared, Nested) else ""


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def _type_of(schema: dict[str, Any], is_input: bool) -> str:
    """The type of a JSON Schema."""
    if "anyOf" in schema:
        types = (_type_of(one, is_input) for one in schema["anyOf"])
        return " | ".join(dict.fromkeys(types))
    if "enum" in schema:
        return _literal(schema["enum"])
    kind = schema["type"]
    if kind == "array":
        items = _type_of(schema["items"], is_input)
        return f"Sequence[{items}]" if is_input else f"list[{items}]"
    if kind == "object":
        return "Mapping[str, Any]" if is_input else "dict[str, Any]"
    if kind == "number":
        return "float | Decimal" if is_input else "int | Decimal"
    if is_input and schema.get("format") in TEXT_TYPES:
        return TEXT_TYPES[schema["format"]]
    return SIMPLE_TYPES[kind]


def _literal(values: Any) -> str:
    return f"Literal[{', '.join(repr(value) for value in values)}]" if values else ""
