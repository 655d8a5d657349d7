"""Views: how a record is shown, made once from its schema.

A view has one SELECT text and builds the dicts of its rows, for GET one, lists and the bodies of
events alike. marshmallow's dump would take five times as long.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from marshmallow import Schema

from crm.errors import NotFound
from crm.json import integer_id
from crm.records.conditions import EVERY_ROW
from crm.records.deletions import absent
from crm.records.fields import Id
from crm.records.finished_json import record_json
from crm.records.record import Record, SoftDeletedRecord
from crm.records.schemas import Body, schema_of
from crm.storage.dialect import quoted, selected
from crm.storage.session import row, rows, transaction


class RecordView:
    """A record as it is shown: SELECT text and dicts, from a schema of what is shown.

    schema: as RecordSchema.out() makes it. table: the table read; `source` is its SQL text.
    live: whether soft-deleted records are hidden.
    expand: names the parts it shows of those that the schema leaves to `expand=`.
    noun: what answers call the record (`<noun>_id`), by default the table.
    body, patch: the schemas of what may be sent, as declare_views() sets them.
    """

    body: Body | None = None
    patch: Body | None = None

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
        self.source = quoted(table)
        self.noun = noun or table
        self.live = "deleted_at IS NULL" if live else EVERY_ROW
        self.has_audit_trail = live  # as every soft-deleted record
        self.expand = frozenset(expand)
        self.fields: dict[str, Any] = {
            name: field
            for name, field in schema.fields.items()
            if name in self.expand or not getattr(field, "expanded", False)
        }
        self.columns = ", ".join(map(self._column, self.fields))
        self.select = f"SELECT {self.columns} FROM {self.source}"
        self.json = record_json(self.fields, self.source)
        self._one = f"{self.select} WHERE {self.live} AND {self.source}.id = ?"
        self._expanded_views: dict[frozenset[str], RecordView] = {}
        self._names = tuple(self.fields)
        # Ids come as texts from the database, which is faster than to convert them here.
        self._selected_converters = self._list_converters(skip=Id)
        self._stored_converters = self._list_converters()

    def expanded(self, names: Collection[str]) -> "RecordView":
        """The view that shows these parts too, made once; names of other fields add nothing."""
        if not names:
            return self
        parts = (name for name in names if getattr(self.schema.fields.get(name), "expanded", False))
        if not (expand := self.expand.union(parts)) - self.expand:
            return self
        if expand not in self._expanded_views:
            live = self.live != EVERY_ROW
            self._expanded_views[expand] = RecordView(
                self.schema, self.table, live, expand, self.noun
            )
        return self._expanded_views[expand]

    def one(self, id: int | str) -> dict[str, Any]:
        """The live record of that id as it is shown; raises NotFound."""
        values = row(self._one, (id if type(id) is int else integer_id(id),))
        if values is None:
            raise absent(self.table, id)
        return self.of_row(values)

    def changed(self, id: int | str) -> dict[str, Any]:
        """As one(), of a record that the actor has just changed, perhaps to be a colleague's."""
        try:
            return self.one(id)
        except NotFound:
            with transaction():  # which reads the records of all
                return self.one(id)

    def every(self, rest: str, *params: Any) -> list[dict[str, Any]]:
        """The records of the SELECT with `WHERE rest`, as they are shown.

        rest: SQL, which may end in ORDER BY and LIMIT. params: its parameters.
        """
        return self.of_rows(rows(f"{self.select} WHERE {rest}", params))

    def of_row(self, values: Sequence[Any]) -> dict[str, Any]:
        """The record of one row of the SELECT."""
        return self._build(list(values), self._selected_converters)

    def of_rows(self, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """The records of rows of the SELECT."""
        return list(map(self.of_row, rows))

    def of_record(self, record: Record) -> dict[str, Any]:
        """A record just written as it is shown; for records all of whose fields are columns."""
        return self._build(list(map(record.__data__.get, self._names)), self._stored_converters)

    def show(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Single columns as they are shown, such as the changed fields of an event.

        What is no field of the record, such as a deal's items, stays as it is.
        """
        return {
            name: self.fields[name].show(value) if name in self.fields else value
            for name, value in stored.items()
        }

    def _build(self, values: list[Any], converters: "Converters") -> dict[str, Any]:
        for index, convert in converters:
            values[index] = convert(values[index])
        return dict(zip(self._names, values))  # noqa: B905

    def _list_converters(self, skip: type | None = None) -> "Converters":
        return tuple(
            (index, field.converter)
            for index, field in enumerate(self.fields.values())
            if field.converter is not None and not (skip and isinstance(field, skip))
        )

    def _column(self, name: str) -> str:
        field = self.fields[name]
        column = field.column or f"{self.source}.{name}"
        if isinstance(field, Id):
            column = f"CAST({column} AS TEXT)"
        return selected(column, f"shown_{name}")


def declare_views(
    record: type[Record], body: type[Body] = Body, expand: Iterable[str] = (), noun: str = ""
) -> tuple[RecordView, Body, Body]:
    """Make the view of a record's declared fields, the schema of a new one, and that of a patch.

    body: the base of the second. expand, noun: as in RecordView.
    """
    schema, name = schema_of(record), record.__name__
    is_deletable = issubclass(record, SoftDeletedRecord)
    view = RecordView(schema.out(f"{name}Out"), record._meta.table_name, is_deletable, expand, noun)
    view.body, view.patch = sent = schema.body(f"{name}In", body), schema.patch(f"{name}Patch")
    return view, *sent


Converters = tuple[tuple[int, Callable[[Any], Any]], ...]
