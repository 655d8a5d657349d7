"""Possible duplicates: live clients and leads with the same phone or e-mail (D5, D6).

Only shown on request, with `expand=possible_duplicates` on GET one, and never in events: they are
other records, of which the caller sees those that its key may read. A client's contacts count as
the client. A lead and the client that it was converted into are no duplicates of each other.
"""

from typing import Any

from crm.access import rights
from crm.records import fields, nested, parameters, queries
from crm.records.parameters import Query
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.storage.dialect import comparable, json_rows

MAX_DUPLICATES = 50


class DuplicateSchema(RecordSchema):
    resource = fields.Choice("client", "lead", dump_only=True)
    id = fields.Id(dump_only=True)
    name = fields.Text(255, dump_only=True)


DUPLICATE = DuplicateSchema.out("DuplicateOut")


def field(noun: str) -> nested.NestedList:
    """The field `possible_duplicates` of a client or a lead."""
    return nested.NestedList(
        DUPLICATE,
        column=json_rows(
            {name: name for name in DUPLICATE.fields},
            f"({_build_duplicates_sql(noun)}) AS duplicate{ORDER}",
        ),
        dump_only=True,
        expanded=True,
        about="Clients and leads with the same phone or email: with `expand=` on GET one.",
    )


class ExpansionFilter(queries.Filter):
    """What GET one takes."""

    expand = parameters.Expand("possible_duplicates")


EXPANSION = ExpansionFilter(only=["expand"])


def show(view: RecordView, id: str, query: Query) -> dict[str, Any]:
    """The record; its possible duplicates if asked for, those alone that the caller may read."""
    if not query.expand:
        return view.one(id)
    record = view.expanded(query.expand).one(id)
    if duplicates := record.get("possible_duplicates"):
        record["possible_duplicates"] = [
            duplicate for duplicate in duplicates if rights.can_read(f"{duplicate['resource']}s")
        ]
    return record


ORDER = f" ORDER BY resource, id LIMIT {MAX_DUPLICATES}"


def _build_duplicates_sql(noun: str) -> str:
    """Build an SQL query: (resource, id, name) of records with the record's phone or e-mail."""
    if noun == "client":
        other_client, other_lead = "client.id", "coalesce(other.client_id, 0) <> client.id"
    else:
        other_client, other_lead = "coalesce(lead.client_id, 0)", "other.id <> lead.id"
    client = f"other.deleted_at IS NULL AND other.id <> {other_client}"
    lead = f"other.deleted_at IS NULL AND {other_lead}"
    selects = []
    for field in ("phone", "email"):
        addresses = f"SELECT {comparable(f'{noun}.{field}')}"
        if noun == "client":
            of_contacts = "FROM contact WHERE contact.client_id = client.id"
            addresses += f" UNION SELECT {comparable(field)} {of_contacts}"
        of_other = f"{comparable(f'other.{field}')} IN ({addresses})"
        selects += [
            "SELECT 'client' AS resource, other.id, other.name FROM client AS other"
            f" WHERE {of_other} AND {client}",
            "SELECT 'client', other.id, other.name FROM contact AS person"
            " JOIN client AS other ON other.id = person.client_id"
            f" WHERE {comparable(f'person.{field}')} IN ({addresses}) AND {client}",
            f"SELECT 'lead', other.id, other.name FROM lead AS other WHERE {of_other} AND {lead}",
        ]
    return " UNION ".join(selects)
