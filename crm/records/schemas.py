"""Schemas of what may be sent and of what is shown, made from the declared fields of a record.

A `RecordSchema` names all fields of a record once; `body()` and `patch()` are what may be sent,
`out()` is what is shown.
"""

from functools import cache
from itertools import islice
from types import FunctionType
from typing import Any

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError
from marshmallow.schema import SchemaMeta

from crm.errors import MAX_FAULTS, Fault, Invalid
from crm.json import dumps, loads
from crm.records.columns import declared

READ_ONLY = ("read_only", "this field cannot be changed")  # code and detail of an error


class Payload(dict[str, Any]):
    """The stored values of what was sent, by name.

    echoed: the read-only fields that were sent and must be as the record shows them.
    """

    echoed: dict[str, Any]


class SchemaType(SchemaMeta):
    """marshmallow's metaclass, which looks for decorated methods only where a class has methods.

    It looks at each attribute of each class, 8 % of a start: nearly all have fields alone.
    """

    def resolve_hooks(cls) -> dict[str, list[tuple[str, bool, dict]]]:
        """The methods of the class that marshmallow calls, by the step at which it does."""
        has_methods = any(isinstance(value, METHODS) for value in vars(cls).values())
        if has_methods or len(cls.__bases__) > 1 or not isinstance(cls.__base__, SchemaType):
            return super().resolve_hooks()
        return hooks_of(cls.__base__)


METHODS = (FunctionType, classmethod, staticmethod)
hooks_of = cache(SchemaType.resolve_hooks)


class Body(Schema, metaclass=SchemaType):
    """A schema of what may be sent: every field not known is refused (D4).

    echoes: the read-only fields, which may be sent as they are.
    alternatives: bodies of which it accepts one, for the documentation.
    """

    class Meta:
        unknown = RAISE

    fields: dict[str, Any]  # marshmallow's type has nothing of our Field and Nested

    echoes: dict[str, Any] = {}
    alternatives: tuple["Body", ...] = ()

    def parse(self, sent: Any) -> Payload:
        """The stored form of a body; raises Invalid naming every wrong value, up to MAX_FAULTS."""
        if not isinstance(sent, dict):
            raise Invalid(Fault("", "invalid_type", "the body must be a JSON object"))
        echoed = {name: sent[name] for name in self.echoes if name in sent}
        if echoed:
            sent = {name: value for name, value in sent.items() if name not in echoed}
        try:
            payload = self.read(sent)
        except ValidationError as error:
            raise Invalid(list(islice(faults(error.normalized_messages()), MAX_FAULTS))) from None
        payload.echoed = echoed
        return payload

    def read(self, sent: dict[str, Any]) -> Payload:
        """The stored form of the fields sent; raises ValidationError as load() does.

        load() visits every field, sent or not: of the 26 of a lead most forms send 4.
        """
        payload, errors = Payload(), {}
        unknown = sent.keys() - self.fields.keys()
        if len(unknown) > MAX_FAULTS:  # before each value is read, which takes longer
            raise ValidationError(dict.fromkeys(islice(unknown, MAX_FAULTS), ["Unknown field."]))
        for name, field in self.fields.items():
            try:
                if name in sent:
                    payload[name] = field.deserialize(sent[name], name, sent)
                elif field.required:
                    raise field.make_error("required")
            except ValidationError as error:
                errors[name] = error.messages
        for name in unknown:
            errors[name] = ["Unknown field."]
        if errors:
            raise ValidationError(errors)
        return payload


def require_unchanged(current: dict[str, Any], echoed: dict[str, Any]) -> None:
    """Check that `Payload.echoed` is as the record shows it; raises Invalid (D4).

    `current` has the fields that the caller may know. Any other is refused whatever its value:
    otherwise the answer would reveal whether a guess is right.
    """
    known = loads(dumps({name: current[name] for name in echoed if name in current}))
    changed = [name for name in echoed if name not in known or known[name] != echoed[name]]
    if changed:
        raise Invalid([Fault(f"/{name}", *READ_ONLY) for name in changed])


def faults(messages: Any, pointer: str = "") -> Any:
    """Yield a Fault for each of marshmallow's nested messages.

    pointer: the JSON pointer to what the messages are about.
    """
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


class RecordSchema(Schema, metaclass=SchemaType):
    """All fields of a record, in the order they are shown."""

    class Meta:
        # Answers may grow (D16). The document then leaves `additionalProperties` out: to validators
        # that is open too, but generated types have the documented fields and no others.
        unknown = EXCLUDE

    fields: dict[str, Any]  # as in Body

    @classmethod
    def body(cls, name: str, base: type[Body] = Body, **more: Any) -> Body:
        """The schema, of this name, of what may be sent to create a record, and of more fields."""
        fields = {
            field_name: field.variant(incoming=True, required=field.required)
            for field_name, field in (fields_of(cls) | more).items()
            if not field.dump_only
        }
        return type(name, (base,), fields)()

    @classmethod
    def patch(cls, name: str) -> Body:
        """The schema of a merge patch: what may be sent to change a record.

        Read-only fields may be sent too, as they are.
        """
        declared = fields_of(cls).items()
        fields = {
            field_name: field.variant(incoming=True, required=False)
            for field_name, field in declared
            if not field.dump_only and not field.create_only
        }
        for field in fields.values():
            field.default_value = None  # what is absent stays as it is
            field.is_patch = True
        schema = type(name, (Body,), fields)()
        schema.echoes = {
            field_name: field.variant(incoming=False, required=False)
            for field_name, field in declared
            if field.dump_only or field.create_only
        }
        return schema

    @classmethod
    def out(cls, name: str) -> "RecordSchema":
        """The schema of what is shown."""
        fields = {
            field_name: field.variant(incoming=False, required=True)
            for field_name, field in fields_of(cls).items()
            if not field.load_only
        }
        return type(name, (RecordSchema,), fields)()


@cache
def fields_of(schema: type[RecordSchema]) -> dict[str, Any]:
    """The fields of a schema, of which the schemas of one direction have copies."""
    return schema().fields


def schema_of(model: type) -> type[RecordSchema]:
    """The RecordSchema of a record's declared fields."""
    wires = {name: column.wire for name, column in declared(model).items()}
    return type(f"{model.__name__}Schema", (RecordSchema,), wires)
