"""HTTP endpoints that help to match the columns of a file with the fields of a resource (D9)."""

from typing import Any

from marshmallow import fields as ma

from crm.api.blueprints import Blueprint
from crm.api.bodies import MAX_ENVELOPE_BYTES
from crm.api.envelopes import Open
from crm.records.parameters import Query
from crm.spreadsheets.foreign.aliases import aliases_of, fields_of
from crm.spreadsheets.foreign.headers import CONFIDENCES
from crm.spreadsheets.foreign.proposals import FileProposal, propose
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES
from crm.spreadsheets.resource import ImportableResource
from crm.spreadsheets.uploaded_files import IMPORT_FILTER, UploadReader


class FieldOut(Open):
    """A field that a column of a file may be mapped to."""

    field = ma.String(required=True)
    type = ma.String(required=True, metadata={"examples": ["number"]})
    required = ma.Boolean(required=True)
    aliases = ma.List(ma.String(), required=True)
    example = ma.String(required=True, allow_none=True)


class FileColumnOut(Open):
    """A column of a file, and which field it seems to be."""

    file = ma.String(required=True)
    field = ma.String(required=True, allow_none=True)
    confidence = ma.String(required=True, metadata={"enum": list(CONFIDENCES)})
    samples = ma.List(ma.String(), required=True)


class FieldsOut(Open):
    """The fields of a resource."""

    data = ma.List(ma.Nested(FieldOut), required=True)


class ImportPreviewOut(Open):
    """How a file would be read; `left_out` lines are no records, such as totals."""

    encoding = ma.String(required=True)
    delimiter = ma.String(required=True)
    header_line = ma.Integer(required=True)
    columns = ma.List(ma.Nested(FileColumnOut), required=True)
    entries = ma.Integer(required=True)
    left_out = ma.Integer(required=True)


FIELDS, PREVIEW = FieldsOut(), ImportPreviewOut()


def add_mapping_endpoints(blueprint: Blueprint, resource: ImportableResource) -> None:
    """Add `GET /<plural>/import/columns` and `POST /<plural>/import/preview`."""
    plural = resource.plural

    @blueprint.operation(
        "GET",
        f"/{plural}/import/columns",
        name=f"list_{plural}_import_columns",
        about=f"List the fields that columns of a file may be.\n\nNeeds `{plural}:read`.",
        needs=(f"{plural}:read",),
        kind="json",
        answer=FIELDS,
    )
    def list_columns() -> dict[str, Any]:
        return {"data": describe_fields(resource)}

    @blueprint.operation(
        "POST",
        f"/{plural}/import/preview",
        name=f"preview_{plural}_import",
        about="Tell how a file would be read, and what its columns seem to be; nothing is written."
        f"\n\nA column that nothing tells for sure has no field. Needs `{plural}:write`.",
        needs=(f"{plural}:write",),
        query=IMPORT_FILTER,
        upload=UploadReader(lambda data, _, given: propose(data, resource, given), guesses=True),
        max_body_bytes=MAX_LARGE_FILE_BYTES + MAX_ENVELOPE_BYTES,
        kind="json",
        answer=PREVIEW,
    )
    def preview(query: Query, upload: tuple[str | None, FileProposal]) -> dict[str, Any]:
        proposal = upload[1]
        columns = [guess._asdict() for guess in proposal.guesses]
        counts = {"entries": proposal.entries, "left_out": proposal.left_out}
        table = proposal.table
        read_as = {name: getattr(table, name) for name in ("encoding", "delimiter", "header_line")}
        return {**read_as, "columns": columns, **counts}


def describe_fields(resource: ImportableResource) -> list[dict[str, Any]]:
    """What a column may be mapped to, with what it may hold."""
    described = []
    for name, column in fields_of(resource).items():
        wire, declared = column.field if column else None, resource.body.fields.get(name)
        example = wire.example if wire else None
        described.append(
            {
                "field": name,
                "type": type(wire).__name__.lower() if wire else "text",
                "required": name in resource.required_columns
                or bool(declared and declared.required),
                "aliases": aliases_of(resource)[name],
                "example": None if example is None else str(example),
            }
        )
    return described
