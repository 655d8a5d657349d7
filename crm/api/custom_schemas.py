"""The schemas of a tenant's own fields, for its keys and for assistants."""

from collections.abc import Mapping
from typing import Any

from crm.api.openapi import describe_field
from crm.records.custom.fields import CustomField

CustomFields = Mapping[str, CustomField]  # by key


def with_custom(document: dict[str, Any], own: Mapping[str, CustomFields]) -> dict[str, Any]:
    """The OpenAPI document, `custom` of records having the fields of a tenant, by resource."""
    schemas = {**document["components"]["schemas"]}
    for plural, custom in own.items():
        noun = plural[:-1].title()
        for name in (noun, f"Listed{noun}", f"{noun}In", f"{noun}Patch"):
            incoming = name.endswith(("In", "Patch"))
            part = f"{noun}Custom{'Patch' if incoming else ''}"
            schemas[part] = describe_custom(custom, incoming)
            reference = {"custom": {"$ref": f"#/components/schemas/{part}"}}
            properties = schemas[name]["properties"] | reference
            schemas[name] = {**schemas[name], "properties": properties}
    return {**document, "components": {**document["components"], "schemas": schemas}}


def describe_custom(custom: CustomFields, incoming: bool = True) -> dict[str, Any]:
    """The JSON Schema of a tenant's own fields of a resource, by key."""
    properties = {}
    for key, field in custom.items():
        wire = field.wire.variant(incoming=incoming, required=False)
        wire.allow_none = incoming
        options = ", ".join(f"`{one['key']}` {one['label']}" for one in field.options)
        about = filter(None, (field.type.label, field.help, options))
        titles = {"title": field.label, "description": ". ".join(about)}
        properties[key] = titles | describe_field(wire)
    return {"type": "object", "properties": properties}
