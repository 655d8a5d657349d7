"""Shapes: how a record is shown, made once from its schema.

A `Noun` schema names all fields of a record once; `body()` and `patch()` are what may be sent,
`shape()` what is shown: one SELECT text and one row function, shared by GET one, lists and webhook
bodies. Building a record through marshmallow's dump takes five times as long; tests prove that
both give the same.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError

from crm.errors import MAX_FAULTS, Fault, Invalid, NotFound
from crm.json import dumps, loads
from crm.records.nested import Nested
from crm.records.record import Record
from crm.records.sizes import most_bytes
from crm.tenancy.database import now, row, rows
from crm.values import as_number
from crm.values.ids import integer_id


class Payload(dict):
    """What was sent, in stored form. `echoed` are read-only fields that came along."""

    echoed: dict[str, Any]


class Body(Schema):
    """What may be sent: every field not known is refused (D4)."""

    class Meta:
        unknown = RAISE

    echoes: dict[str, Any] = {}
    alternatives: tuple["Body", ...] = ()  # bodies of which it takes one, for the documentation

    def take(self, sent: Any) -> Payload:
        """The stored form of a body, or Invalid naming every value that doesn't fit."""
        if not isinstance(sent, dict):
            raise Invalid(Fault("", "invalid_type", "the body must be a JSON object"))
        echoed = {name: sent[name] for name in self.echoes if name in sent}
        if echoed:
            sent = {name: value for name, value in sent.items() if name not in echoed}
        try:
            found = self.read(sent)
        except ValidationError as error:
            raise Invalid(list(islice(faults(error.normalized_messages()), MAX_FAULTS))) from None
        found.echoed = echoed
        return found

    def read(self, sent: dict[str, Any]) -> Payload:
        """The stored form of the fields sent; raises ValidationError as load() does.

        load() asks every field, sent or not: of the 26 of a lead most forms send 4.
        """
        found, wrong = Payload(), {}
        unknown = sent.keys() - self.fields.keys()
        if len(unknown) > MAX_FAULTS:  # before each value is looked at: that takes long
            raise ValidationError(dict.fromkeys(islice(unknown, MAX_FAULTS), ["Unknown field."]))
        for name, field in self.fields.items():
            try:
                if name in sent:
                    found[name] = field.deserialize(sent[name], name, sent)
                elif field.required:
                    raise field.make_error("required")
            except ValidationError as error:
                wrong[name] = error.messages
        for name in unknown:
            wrong[name] = ["Unknown field."]
        if wrong:
            raise ValidationError(wrong)
        return found


def unchanged(current: dict[str, Any], echoed: dict[str, Any]) -> None:
    """Read-only fields that came along are as the record shows them; raises Invalid (D4).

    `current` has the fields that the caller may know. Any other is refused whatever its value:
    otherwise the answer would tell whether a guess is right.
    """
    known = loads(dumps({name: current[name] for name in echoed if name in current}))
    found = [name for name in echoed if name not in known or known[name] != echoed[name]]
    if found:
        detail = "this field cannot be changed"
        raise Invalid([Fault(f"/{name}", "read_only", detail) for name in found])


def faults(messages: Any, pointer: str = "") -> Any:
    """marshmallow's nested messages as a flat list of Fault."""
    if isinstance(messages, dict):
        for name, inner in messages.items():
            escaped = str(name).replace("~", "~0").replace("/", "~1")
            step = "" if name == "_schema" else f"/{escaped}"
            yield from faults(inner, pointer + step)
        return
    for message in messages:
        if isinstance(message, dict):
            yield Fault(pointer, message["code"], message["detail"])
        elif message == "Unknown field.":
            yield Fault(pointer, "unknown_field", "there is no such field")
        else:
            yield Fault(pointer, "invalid_type", message.rstrip(".").lower())


class RecordSchema(Schema):
    """All fields of a record, in the order they are shown."""

    class Meta:
        # Answers may grow (D16). The document then leaves `additionalProperties` out: to validators
        # that is open too, but generated types have the documented fields and no others.
        unknown = EXCLUDE

    @classmethod
    def body(cls, name: str, base: type[Body] = Body) -> Body:
        """What may be sent to create one."""
        return _variant(
            name,
            base,
            {
                field_name: field.variant(incoming=True, required=field.required)
                for field_name, field in cls._declared_fields.items()
                if not field.dump_only
            },
        )

    @classmethod
    def patch(cls, name: str) -> Body:
        """What may be sent to change one: a merge patch; read-only fields only as they are."""
        declared = cls._declared_fields.items()
        schema = _variant(
            name,
            Body,
            {
                field_name: field.variant(incoming=True, required=False)
                for field_name, field in declared
                if not field.dump_only and not field.create_only
            },
        )
        for field in schema.fields.values():
            field.default = None  # what is absent stays as it is
        schema.echoes = {
            field_name: field.variant(incoming=False, required=False)
            for field_name, field in declared
            if field.dump_only or field.create_only
        }
        return schema

    @classmethod
    def out(cls, name: str) -> Schema:
        """What is shown."""
        return _variant(
            name,
            RecordSchema,
            {
                field_name: field.variant(incoming=False, required=True)
                for field_name, field in cls._declared_fields.items()
                if not field.load_only
            },
        )


def _variant(name: str, base: type[Schema], fields: dict[str, Any]) -> Any:
    return type(name, (base,), fields)()


class RecordView:
    """A record as it is shown: SELECT text and row function, from a `Noun` schema's out().

    `select` ends in `FROM <table>`, ready for a WHERE. `expand` names the parts that it shows of
    those that the schema leaves to `expand=`. `noun` is what answers call it (`<noun>_id`), by
    default the table.
    """

    def __init__(
        self,
        schema: Schema,
        table: str,
        live: bool = True,
        expand: Iterable[str] = (),
        noun: str = "",
    ):
        self.schema = schema
        self.table = table
        self.noun = noun or table
        self.live = "deleted_at IS NULL" if live else "1"
        self.expand = frozenset(expand)
        self.fields = {
            name: field
            for name, field in schema.fields.items()
            if name in self.expand or not getattr(field, "expanded", False)
        }
        self.columns = ", ".join(map(self._column, self.fields))
        self.select = f"SELECT {self.columns} FROM {table}"
        self.of_row = row_function(self.fields)
        self._one = f"{self.select} WHERE {self.live} AND {table}.id = ?"
        self._wider: dict[frozenset[str], RecordView] = {}
        self.row_bytes = most_bytes(self.fields, stored=True)  # of a row of the SELECT, as JSON

    def expanded(self, names: Collection[str]) -> "RecordView":
        """The shape that shows these parts too; names of other fields add nothing."""
        if not names:
            return self
        parts = (n for n in names if getattr(self.schema.fields.get(n), "expanded", False))
        if not (wanted := self.expand.union(parts)) - self.expand:
            return self
        if wanted not in self._wider:
            live = self.live != "1"
            self._wider[wanted] = RecordView(self.schema, self.table, live, wanted, self.noun)
        return self._wider[wanted]

    def one(self, id: int | str) -> dict[str, Any]:
        """The live record of that id as it is shown; raises NotFound."""
        found = row(self._one, (id if type(id) is int else integer_id(id),))
        if found is None:
            raise NotFound
        return self.of_row(*found)

    def written(self, record: Record) -> dict[str, Any]:
        """A record just written as it is shown; for nouns whose columns alone are shown."""
        return self.of_row(*map(record.__data__.get, self.fields))

    def every(self, rest: str, *params: Any) -> list[dict[str, Any]]:
        """The records of `… WHERE rest`, as they are shown."""
        return [self.of_row(*found) for found in rows(f"{self.select} WHERE {rest}", params)]

    def show(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Single columns as they are shown, such as the changed fields of an event; what is no
        field of the record, such as a deal's lines, comes as it is shown."""
        return {
            name: self.fields[name].show(value) if name in self.fields else value
            for name, value in stored.items()
        }

    def _column(self, name: str) -> str:
        return self.fields[name].column or f"{self.table}.{name}"


def row_function(fields: dict[str, Any], subscript: bool = False) -> Callable[..., dict[str, Any]]:
    """One expression that builds the dict of a row: `lambda v0, v1, …: {"id": str(v0), …}`.

    With `subscript` it takes one dict of stored values instead of the row's values.
    """
    names: dict[str, Any] = {"loads": loads, "as_number": as_number, "now": now}
    parts = []
    for number, (name, field) in enumerate(fields.items()):
        value = f"part[{name!r}]" if subscript else f"v{number}"
        if isinstance(field, Nested):
            names[f"n{number}"] = row_function(field.schema.fields, subscript=True)
        parts.append(f"{name!r}: {field.code.format(v=value, n=f'n{number}')}")
    arguments = "part" if subscript else ", ".join(f"v{number}" for number in range(len(fields)))
    return eval(f"lambda {arguments}: {{{', '.join(parts)}}}", names)
