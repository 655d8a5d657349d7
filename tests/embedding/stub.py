"""Write the stub of the resources in Python: `python -m tests.generated`.

The methods, their types and their docstrings are made from the declarations of the API's
operations. The part above the line GENERATED stays as it is. It needs ruff, which formats the stub.
A test fails when the stub differs from the declarations.

Types are Python source. Values may be given as they are on the wire or as Python has them: a number
as Decimal, a time as datetime.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

from marshmallow import Schema
from marshmallow import fields as ma

from crm import embedding
from crm.api.envelopes import Events, Records
from crm.api.openapi import describe_field
from crm.api.operations import Operation
from crm.embedding import CRM
from crm.embedding.resources import Method, methods_of
from crm.records import fields, parameters
from crm.records.schemas import Body

PATH = Path(embedding.__file__).with_name("attributes.pyi")
GENERATED = "# Generated from here on.\n"
SIMPLE_TYPES = {"boolean": "bool", "integer": "int", "string": "str"}
TEXT_TYPES = {"date-time": "datetime | str", "date": "date | str"}


@dataclass
class TypedRecord:
    """A TypedDict of the stub: its keys with their types, and whether each is always there."""

    about: str
    keys: dict[str, tuple[str, bool]] = field(default_factory=dict)
    base: str = "TypedDict"


class Types:
    """The types of fields and schemas. Keeps the TypedDict of each schema that it meets, and the
    union of the events."""

    def __init__(self) -> None:
        self.records: dict[str, TypedRecord] = {}
        self.event = ""

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
            if isinstance(declared, Events):
                self.event = " | ".join(map(self.of_schema, declared.schemas))
                source = "Event"
            else:
                source = self.of_schema(declared.schema)
            source = f"{many}[{source}]" if declared.several else source
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
            only = [declared.metadata["const"]] if "const" in declared.metadata else ()
            source = _literal(declared.metadata.get("enum", only)) or "str"
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
            answer: Any = operation.answer
            assert answer is not None, f"{method.name}: no answer"
            answer = answer() if callable(answer) else answer
            if operation.kind == "json":
                return self.of_schema(answer)
            records: Any = answer.fields["data"]
            return f"Page[{self.of_schema(records.shown)}]"
        name = self.of_schema(method.operation.record_view.schema)
        return self.with_secret(name) if operation.secret else name


class Argument(NamedTuple):
    """A keyword argument of a method; `field` is what declares its values."""

    name: str
    field: Any  # None: bytes
    is_required: bool = False
    about: str = ""


def bodies_of(operation: Operation) -> tuple[Body | None, ...]:
    """The bodies of which an operation takes one."""
    return (operation.body and operation.body.alternatives) or (operation.body,)


def arguments_of(operation: Operation, body: Body | None) -> Iterator[Argument]:
    """The keyword arguments of a method with this body; the required ones first."""
    if operation.upload:
        yield Argument("file", None, True, "The file's bytes, or (name, bytes).")
    declared = body.fields.items() if body else ()
    for name, one in sorted(declared, key=lambda item: not item[1].required):
        about = getattr(one, "about", "")  # of a part, such as the contacts of a client
        if isinstance(one, fields.Field):
            about = describe_field(one).get("description", "")
        yield Argument(name, one, one.required, about)
    if body and "version" in body.echoes:
        about = "As it was read: refused when the record has changed since."
        yield Argument("version", body.echoes["version"], about=about)
    for name, parameter in operation.query.fields.items():
        if not iskeyword(name):  # `for`: it can only be given as **{"for": "people"}
            yield Argument(name, parameter, about=parameter.about)


def of_argument(argument: Argument, types: Types) -> str:
    """The type of a keyword argument."""
    if argument.field is None:
        return "bytes | tuple[str, bytes]"
    if argument.name == "version":
        return "int"
    if isinstance(argument.field, parameters.Parameter):
        return types.of_parameter(argument.field)
    return types.of_field(argument.field, True)


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


def generate() -> str:
    """The text of the stub, from the declarations of the API's operations."""
    types = Types()
    classes: dict[tuple[str, ...], list[str]] = {(): []}
    for method in methods_of(CRM(sends=False).app):
        for length in range(1, len(method.path) + 1):
            path = method.path[:length]
            if path not in classes:
                classes[path] = []
                classes[path[:-1]].append(f"{path[-1]}: {class_name(path)}")
        classes[method.path] += _definitions(method, types)
    records = [_typed_dict(name, record) for name, record in types.records.items()]
    resources = [_class(class_name(path), lines) for path, lines in classes.items() if path]
    root = _class("ResourceAttributes", classes[()])
    written_by_hand = PATH.read_text().partition(GENERATED)[0] + GENERATED
    event = f"Event = {types.event}"
    return _formatted("\n\n".join([written_by_hand, *records, event, *resources, root]))


def class_name(path: tuple[str, ...]) -> str:
    """The name of a resource's class."""
    return "".join(name.capitalize() for name in path)


def _class(name: str, lines: list[str]) -> str:
    attributes_first = sorted(lines, key=lambda line: line.startswith(("def ", "@")))
    return f"class {name}:\n" + textwrap.indent("\n".join(attributes_first), "    ")


def _typed_dict(name: str, record: TypedRecord) -> str:
    if any(map(iskeyword, record.keys)):  # `import`: it cannot stand in a class
        keys = ", ".join(f'"{key}": {kind}' for key, (kind, _) in record.keys.items())
        return f'{name} = TypedDict("{name}", {{{keys}}})'
    lines = [f"class {name}({record.base}):"]
    if record.about:
        lines.append(f'    """{record.about}"""')
    lines += [
        f"    {key}: {kind if is_always_there else f'NotRequired[{kind}]'}"
        for key, (kind, is_always_there) in record.keys.items()
    ]
    return "\n".join(lines)


def _definitions(method: Method, types: Types) -> list[str]:
    """The method; with several bodies, an overload for each, of which the further ones make several
    records."""
    definitions = []
    bodies = bodies_of(method.operation)
    abouts = {
        f"{one.name}: {one.about}": None
        for body in bodies
        for one in arguments_of(method.operation, body)
        if one.about
    }
    summary = method.operation.about.partition("\n")[0]
    text = _wrapped("\n".join([summary, "", *abouts] if abouts else [summary]))
    about = textwrap.indent(f'"""{text}"""', "    ")
    for number, body in enumerate(bodies):
        result = types.of_result(method)
        result = f"builtins.list[{result}]" if number else result
        arguments = [*arguments_of(method.operation, body)]
        ids = [f"{name}: int | str" for name in method.id_names]
        names = ["self", *ids, *(["/"] if ids else []), *(["*"] if arguments else [])]
        names += [
            f"{one.name}: {of_argument(one, types)}{'' if one.is_required else ' = ...'}"
            for one in arguments
        ]
        definition = f"def {method.name}({', '.join(names)}) -> {result}:\n{about}"
        definitions.append(f"@overload\n{definition}" if len(bodies) > 1 else definition)
    return definitions


def _wrapped(text: str) -> str:
    """The lines no longer than 90 characters; a docstring of several lines ends in an own line."""
    lines = [
        textwrap.fill(line, 90, subsequent_indent="    ", break_on_hyphens=False)
        for line in text.splitlines()
    ]
    return "\n".join(lines) + ("\n" if len(lines) > 1 else "")


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PATH), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    PATH.write_text(generate())
