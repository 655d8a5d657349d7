"""What all records share: an id never reused, times, a version, and an audit trail.

A record's values are the stored ones: money in 1/10 000, times and dates as texts, lists and
objects as JSON texts (D2). Schemas make them from what was sent and views show them again.

Each statement is built once for the same columns: its text is kept and stays prepared.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

from peewee import Model, TextField

from crm.errors import Conflict, Invalid, NotFound, Stale
from crm.json import dumps, integer_id
from crm.records import columns, tags, words
from crm.records.columns import N_, Column
from crm.records.custom import values as custom_values
from crm.records.deletions import absent
from crm.records.retention import KEPT_SECONDS
from crm.storage import search_index
from crm.storage.dialect import quoted
from crm.storage.quota import require_room
from crm.storage.session import (
    current_session,
    execute,
    insert,
    now,
    row,
    rows,
    time_before,
)
from crm.values import folding

NOTE_IN_BATCH = """
    INSERT INTO batch_record
        (batch_id, noun, record_id, action, version_before, version, audit_id)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (noun, record_id, batch_id) DO UPDATE SET version = excluded.version
"""
# An undo leaves a record as an earlier batch left it, which then can be undone, too.
MOVE_NOTES = """
    UPDATE batch_record SET version = ?
    WHERE noun = ? AND record_id = ? AND version = ? AND outcome IS NULL
"""

ADD_AUDIT_ENTRY = """
    INSERT INTO audit_entry (noun, record_id, at, user_id, key_id, tool, before, after)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


class Row(Model):
    """A row of the current tenant. It has no database of peewee's: statements are by session."""

    class Meta:
        legacy_table_names = False

    @classmethod
    def has_rows(cls) -> bool:
        """Whether the table has any row; those of deleted records count."""
        return row(f"SELECT 1 FROM {quoted(cls._meta.table_name)} LIMIT 1") is not None

    @classmethod
    def first(cls, condition: str, *params: Any, own: bool = False) -> Self | None:
        """The first live record that meets an SQL condition, by id; `own` as in rows()."""
        values = row(f"{_select(cls)} AND {condition} ORDER BY id LIMIT 1", params, own)
        return None if values is None else cls._from_row(values)

    @classmethod
    def every(cls, condition: str, *params: Any, own: bool = False) -> list[Self]:
        """All live records that meet an SQL condition (it may end in ORDER BY); `own` as above."""
        return [cls._from_row(one) for one in rows(f"{_select(cls)} AND {condition}", params, own)]

    @classmethod
    def _from_row(cls, values: Sequence[Any]) -> Self:
        return cls._from_values(dict(zip(_columns(cls), values, strict=True)))

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Self:
        """The record of values by column; peewee's own way sets each as an attribute."""
        record = cls()
        record.__data__.update(values)
        return record


class Record(Row):
    """A row with an id, `created_at`, `updated_at` and a `version` that grows with each change."""

    noun: ClassVar[str] = ""

    id = columns.PrimaryId()
    created_at = columns.DateTime(dump_only=True, sorted=True)
    updated_at = columns.DateTime(dump_only=True, sorted=True)
    version = columns.Integer(1, 1 << 53, dump_only=True)

    @classmethod
    def find(cls, id: int | str, expected_version: int | None = None) -> Self:
        """The record of that id.

        Raises NotFound, also for an id that can't be one, and Stale when the record has another
        version than the expected one; None expects none.
        """
        values = row(f"{_select(cls)} AND id = ?", (integer_id(id),), own=True)
        if values is None:
            # The parts of any record have a column of that name.
            raise absent(cls.noun if isinstance(cls.noun, str) else cls._meta.table_name, id)
        record = cls._from_row(values)
        if expected_version not in (None, record.version):
            raise Stale
        return record

    @classmethod
    def find_any(cls, id: int) -> Self | None:
        """The record of that id, deleted or not."""
        values = row(f"{_select(cls, live=False)} AND id = ?", (id,))
        return None if values is None else cls._from_row(values)

    @classmethod
    def of(cls, owner: "Record", id: int | str, expected_version: int | None = None) -> Self:
        """The part of `owner` of that id; raises NotFound, also for another record's, and Stale."""
        part = cls.find(id, expected_version)
        if getattr(part, f"{owner.noun}_id") != owner.id:
            raise NotFound
        return part

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        """Insert a row and return the record; inside a transaction.

        Columns that are absent get their declared defaults.
        """
        require_room()
        moment = now()
        values = words.unified(cls, {**_defaults(cls), **values})
        values = {
            **storable(cls, values),
            "created_at": values.get("created_at") or moment,  # imported history has one (D17)
            "updated_at": moment,
            "version": 1,
        }
        record = cls._from_values(values)
        values |= record.derived()
        record.id = insert(insert_statement(cls, tuple(values)), [*values.values()])
        return record

    def derived(self) -> dict[str, Any]:
        """Columns of a new row that are made from its others."""
        return {}

    def save_changes(self, values: dict[str, Any]) -> dict[str, Any]:
        """Store what differs and return {column: the value before}, which may be empty."""
        values = words.unified(type(self), values)
        before = {
            name: old for name, value in values.items() if (old := getattr(self, name)) != value
        }
        if before:
            self._store(storable(type(self), {name: values[name] for name in before}))
        return before

    def _store(self, values: dict[str, Any]) -> None:
        values = {**values, "updated_at": now(), "version": self.version + 1}
        execute(update_statement(type(self), tuple(values)), [*values.values(), self.id])
        self.__data__.update(values)

    def touch(self) -> None:
        """Give it its next version, for a change of a part that is stored in another table."""
        self._store({})

    def note_in_batch(self, action: str, audit_id: int | None = None) -> None:
        """Note in the session's batch, if there is one, what was done and the version it left.

        Of several changes the first stays noted, with the last version. What an undo changes,
        of this record or of others that follow it, the notes of batches before follow.
        """
        session, record, before = current_session(), (self.noun, self.id), self.version - 1
        if session.is_undo:
            execute(MOVE_NOTES, (self.version, *record, before))
        elif session.batch_id is not None:
            noted = (session.batch_id, *record, action, before, self.version, audit_id)
            execute(NOTE_IN_BATCH, noted)

    def erase(self) -> None:
        """Delete the row for good."""
        execute(f"DELETE FROM {quoted(self._meta.table_name)} WHERE id = ?", (self.id,))


class SoftDeletedRecord(Record):
    """A record that is searched, soft-deleted, and has an audit trail (D17).

    is_tagged: whether it is found by its tags (tags.py).
    """

    is_tagged: ClassVar[bool] = False
    custom: Any  # of those that have fields of the tenant's own (custom/values.py)

    external_id = columns.Text(128, example="1C-000123", searched=True, label=N_("External ID"))
    extra = columns.MergedExtra(label=N_("Other data"), form=False)
    deleted_at = TextField(null=True)
    search_text = TextField(null=True)
    created_at = columns.PastDateTime(create_only=True, null=False, sorted=True)

    def search_texts(self) -> Iterable[str | None]:
        """The texts that `q` looks into (D3): those of the searched columns."""
        texts = [self.__data__.get(name) for name in searched_columns(type(self))]
        return texts + custom_values.search_texts(f"{self.noun}s", self.__data__.get("custom"))

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        cls._require_free_external_id(values.get("external_id"))
        if values.get("extra") == "{}":
            values = {**values, "extra": None}
        if values.get("custom"):
            values = {**values, "custom": custom_values.merged(None, values["custom"])}
        if "created_by" in cls._meta.fields:
            values = {"created_by": current_session().user_id, **values}
        record = super().add(values)
        if not record.id % search_index.ROWS_AT_ONCE:
            index_new(cls._meta.table_name)
        if cls.is_tagged and values.get("tags"):
            tags.index(cls.noun, record.id, values["tags"], is_new=True)
        if values.get("custom"):
            custom_values.index(f"{cls.noun}s", record.id, None, values["custom"])
        record.note_in_batch("created")
        return record

    def derived(self) -> dict[str, Any]:
        self.search_text = folding.fold(*self.search_texts())
        return {"search_text": self.search_text}

    def save_changes(
        self, values: dict[str, Any], changed_parts: dict[str, tuple] | None = None
    ) -> dict[str, Any]:
        """As Record.save_changes(), with the search text and an audit entry.

        changed_parts: what changed in other tables that belong to it: {name: (before, after)}.
        """
        if values.get("external_id") not in (None, self.external_id):
            self._require_free_external_id(values["external_id"])
        before = super().save_changes(values)
        if self.is_tagged and "tags" in before:
            tags.index(self.noun, self.id, values["tags"])
        if "custom" in before:
            custom_values.index(f"{self.noun}s", self.id, before["custom"], values["custom"])
        after = {name: getattr(self, name) for name in before}
        if changed_parts and not before:
            self.touch()  # the version is that of the parts, too
        for name, (old, new) in (changed_parts or {}).items():
            before[name], after[name] = old, new
        if before:
            self.update_search_text()
            self.note_in_batch("updated", self._add_audit_entry(before, after))
            require_room()
        return before

    def update_fields(self, data: dict[str, Any]) -> Any:
        """Change the sent fields by the record's rules; inside a transaction."""
        self.save_changes(data)

    def put_back(self, values: dict[str, Any]) -> None:
        """Give it the values before a change that is undone. Raises Invalid and Conflict."""
        self.save_changes(values)

    def update_search_text(self) -> None:
        """Update the search text after a change of the texts it is made from."""
        if (folded := folding.fold(*self.search_texts())) != self.search_text:
            self._store_search_text(folded)

    def remove(self, **merged_into: str) -> None:
        """Soft-delete it: the row stays, but is not found.

        merged_into: the id of the record that it was merged into, for the audit trail.
        """
        self._store_search_text(None)  # search never finds a deleted record
        self._store({"deleted_at": now()})
        after = {"deleted_at": self.deleted_at, **merged_into}
        self.note_in_batch("deleted", self._add_audit_entry({"deleted_at": None}, after))

    @classmethod
    def removed(cls, id: int | str) -> Self:
        """The soft-deleted record of that id that can still be restored; raises NotFound."""
        params = integer_id(id), time_before(KEPT_SECONDS)
        values = row(f"{_select(cls, live=False)} AND id = ? AND deleted_at >= ?", params, own=True)
        if values is None:
            raise NotFound
        return cls._from_row(values)

    def restore(self) -> None:
        """Undo remove(), with an audit entry; inside a transaction.

        Raises Conflict `duplicate_external_id` when another record has its external_id by now.
        """
        self._require_free_external_id(self.external_id)
        before = {"deleted_at": self.deleted_at}
        self._store({"deleted_at": None})
        self.update_search_text()
        self.note_in_batch("restored", self._add_audit_entry(before, {"deleted_at": None}))

    def _store_search_text(self, folded: str | None) -> None:
        table, these = self._meta.table_name, (f"[{self.id}]",)
        execute(search_index.remove_statement(table), these)
        execute(f"UPDATE {table} SET search_text = ? WHERE id = ?", (folded, self.id))
        execute(search_index.add_statement(table), these)
        self.search_text = folded

    def _add_audit_entry(self, before: dict[str, Any], after: dict[str, Any]) -> int:
        """Add an entry to the record's audit trail and return its id."""
        session = current_session()
        actor = session.user_id, session.key_id, session.tool
        texts = dumps(before).decode(), dumps(after).decode()
        return insert(ADD_AUDIT_ENTRY, (self.noun, self.id, self.updated_at, *actor, *texts))

    @classmethod
    def _require_free_external_id(cls, external_id: str | None) -> None:
        if external_id is not None and (other := cls.first("external_id = ?", external_id)):
            if not cls.first("id = ?", other.id, own=True):
                raise Conflict(f"another {cls.noun} has this external_id", "duplicate_external_id")
            detail = f"the {cls.noun} {other.id} has the external_id {external_id}"
            raise Conflict(detail, "duplicate_external_id", id=str(other.id))


def require_live(table: str, id: int | str) -> int:
    """The integer id of a live row of a noun's table; raises NotFound."""
    is_live = f"SELECT 1 FROM {table} WHERE id = ? AND deleted_at IS NULL"
    if row(is_live, (integer_id(id),), own=True) is None:
        raise absent(table, id)
    return integer_id(id)


def require_reference(record: type[Record], id: int | None, field: str) -> None:
    """Check that an id sent in a body is a live record's; raises Invalid naming the field (D2)."""
    if id is not None and row(f"{_select(record)} AND id = ?", (id,), own=True) is None:
        raise Invalid.field(field, "unknown_id", absent(record.noun, id).detail)


def storable(record: type[Record], values: dict[str, Any]) -> dict[str, Any]:
    """These values of a row, with the key by which lists sort its name if it has one."""
    if "name" not in values or "sort_key" not in record._meta.fields:
        return values
    return {**values, "sort_key": folding.sort_key(values["name"])}


def index_new(table: str) -> None:
    """Add the rows of a table to its search index that are not in it; inside a transaction."""
    for statement in search_index.add_new_statements(table):
        execute(statement)


@lru_cache(maxsize=64)
def _columns(record: type[Row]) -> tuple[str, ...]:
    return tuple(record._meta.sorted_field_names)


@lru_cache(maxsize=64)
def searched_columns(record: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, field in columns.declared(record).items() if field.searched)


@lru_cache(maxsize=64)
def _defaults(record: type[Record]) -> dict[str, Any]:
    """The stored forms of the declared defaults."""
    declared = columns.declared(record).items()
    return {
        name: column.wire.read(column.wire.default_value)
        for name, column in declared
        if isinstance(column, Column) and column.wire.default_value is not None
    }


@lru_cache(maxsize=128)
def _select(record: type[Row], live: bool = True) -> str:
    hides = live and issubclass(record, SoftDeletedRecord)
    selected = ", ".join(f'"{name}"' for name in _columns(record))
    condition = "deleted_at IS NULL" if hides else "TRUE"
    return f"SELECT {selected} FROM {quoted(record._meta.table_name)} WHERE {condition}"


@lru_cache(maxsize=512)
def insert_statement(record: type[Record], names: tuple[str, ...]) -> str:
    """An INSERT of these columns."""
    columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    return f"INSERT INTO {quoted(record._meta.table_name)} ({columns}) VALUES ({marks})"


@lru_cache(maxsize=512)
def update_statement(record: type[Record], names: tuple[str, ...]) -> str:
    """An UPDATE of these columns of one row; its last parameter is the id."""
    changes = ", ".join(f'"{name}" = ?' for name in names)
    return f"UPDATE {quoted(record._meta.table_name)} SET {changes} WHERE id = ?"
