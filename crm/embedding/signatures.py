"""Signatures, types and docstrings of the methods, made from the declared schemas.

Types are Python source, for the generated stub (stub.py) and as annotations at run time. Values may
be given as they are on the wire or as Python has them: a number as Decimal, a time as datetime.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from marshmallow import Schema
from marshmallow import fields as ma

from crm.api.envelopes import Records
from crm.api.openapi import describe_field
from crm.embedding.methods import Method
from crm.records import fields, parameters
from crm.records.nested import Nested

SIMPLE_TYPES = {"boolean": "bool", "integer": "int", "string": "str"}
TEXT_TYPES = {"date-time": "datetime | str", "date": "date | str"}
VERSION = "As it was read: refused when the record has changed since."
FILE = "The file's bytes."


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
            found = f"{many}[{name}]"
        elif isinstance(declared, ma.Nested):
            found = self.of_schema(declared.schema, is_input)
            found = f"{many}[{found}]" if declared.many else found
        elif isinstance(declared, ma.List):
            found = f"{many}[{self.of_field(declared.inner, is_input)}]"
        elif isinstance(declared, fields.Field):
            found = _type_of(declared.schema_type(), is_input)
        elif isinstance(declared, ma.Integer):
            found = "int"
        elif isinstance(declared, ma.Dict):
            found = "dict[str, Any]"
        else:  # the other fields of answers are texts
            found = _literal(declared.metadata.get("enum", ())) or "str"
        return f"{found} | None" if declared.allow_none else found

    def of_parameter(self, declared: parameters.Parameter) -> str:
        """The type of a parameter of a query; None means that it is not given."""
        if isinstance(declared, parameters.Reference):
            found = "int | str"
        else:
            found = _type_of(declared.schema_type(), is_input=True)
            if found == _literal(("true", "false")):
                found = "bool"
        if declared.repeated:
            found = f"{found} | Sequence[{found}]"
        return f"{found} | None"

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
    found: dict[str, inspect.Parameter] = {
        name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY, annotation="int | str")
        for name in method.id_names
    }
    alternatives = [*variants(method, types)]
    for arguments, _ in alternatives:
        for argument in arguments:
            is_required = argument.is_required and len(alternatives) == 1
            found.setdefault(
                argument.name,
                inspect.Parameter(
                    argument.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=argument.type,
                    default=inspect.Parameter.empty if is_required else ...,
                ),
            )
    results = " | ".join(result for _, result in alternatives)
    return inspect.Signature([*found.values()], return_annotation=results)


def docstring(method: Method, types: Types) -> str:
    """What the method does, and its arguments whose meaning their name does not give."""
    lines = [_first_line(method.operation.function)]
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
        found = (_type_of(one, is_input) for one in schema["anyOf"])
        return " | ".join(dict.fromkeys(found))
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
