"""Examples for the document (D16): for each schema one, from its fields' own or by their type."""

from typing import Any

from marshmallow import Schema
from marshmallow import fields as ma

from crm.api.envelopes import Records
from crm.records import fields
from crm.records.schemas import Body
from crm.records.views import RecordView

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


def example(schema: Schema | RecordView) -> dict[str, Any]:
    """An example of a body with all its fields, of a view with the parts that it shows, or of
    another response with the required fields and all records."""
    fields = schema.fields
    if not isinstance(schema, (Body, RecordView)):
        fields = {
            name: field
            for name, field in fields.items()
            if field.required or isinstance(field, Records)
        }
    return {name: _build_value(field) for name, field in fields.items()}


def _build_value(field: Any) -> Any:
    if isinstance(field, ma.Nested):
        return [example(field.schema)] if field.many else example(field.schema)
    if isinstance(field, Records):
        record = example(field.schemas[0])
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
