"""The trail of a record: what each change after its creation made of what, by whom, when (D17).

`Kept.put` writes it; here it is read, in the form that the record itself has on the wire. A note is
no change, nor is a deletion, after which the trail is as unseen as the record; undoing one is.
"""

from crm.rest import fields, filters, paging, parts
from crm.rest.envelopes import page_of
from crm.rest.filters import Query
from crm.rest.paging import Page
from crm.rest.resource import Blueprint, named
from crm.rest.shapes import Noun, Shape
from crm.rest.sizes import PARTS_BYTES
from crm.tenancy.dialect import json_row
from crm.tenancy.records import live


class ChangeKeyNoun(Noun):
    id = fields.Id(read_only=True)
    name = fields.Text(255, read_only=True)


class Columns(fields.Extra):
    """Some columns of a record, as they were."""

    most_bytes = PARTS_BYTES + (1 << 18)


class ChangeNoun(Noun):
    id = fields.Id(read_only=True)
    at = fields.Moment(read_only=True)
    user_id = fields.Id(read_only=True, nullable=True)
    key = parts.Part(
        ChangeKeyNoun.out("ChangeKeyOut"),
        column=json_row({"id": "id", "name": "name"}, "api_key WHERE api_key.id = change.key_id"),
        read_only=True,
        nullable=True,
        about="The API key that was used; null for a change made in the cabinet.",
    )
    before = Columns(read_only=True, about="The fields that changed, as they were.")
    after = Columns(read_only=True, about="The same fields, as they became.")


class ChangeFilter(filters.Filter):
    sort = filters.Sort("-id")


CHANGE = Shape(ChangeNoun.out("ChangeOut"), "change", live=False)
CHANGE_PAGE = page_of(CHANGE.schema)
CHANGE_FILTER = ChangeFilter()


def of_record(shape: Shape, id: int | str, query: Query) -> Page:
    """A page of the changes of a live record, the newest first."""
    noun = shape.table
    where, params = "noun = ? AND record_id = ?", (noun, live(noun, id))
    page = paging.page(CHANGE, query, CHANGE_FILTER.fields["sort"], where, params)
    for change in page.records:
        for side in ("before", "after"):
            change[side] = shape.show(change[side])
    return page


def endpoints(shapes: dict[str, Shape]) -> Blueprint:
    """The endpoints of `{"leads": LEAD, …}`: how the changes of each noun are shown."""
    blueprint = Blueprint("changes", "What changed in a record, when and by whom.")

    def add_endpoint(plural: str, shape: Shape) -> None:
        @blueprint.get(f"/{plural}/<id>/changes")
        @blueprint.needs(f"{plural}:read")
        @blueprint.arguments(CHANGE_FILTER, location="query")
        @blueprint.page(CHANGE_PAGE)
        @named(f"list_{shape.table}_changes", f"List the changes of a {shape.table}.")
        def list_changes(query: Query, id: str) -> Page:
            return of_record(shape, id, query)

    for plural, shape in shapes.items():
        add_endpoint(plural, shape)
    return blueprint
