"""What all records share: an id never reused, times, a version, and an audit trail.

A record's values are the stored ones: money in 1/10 000, times and dates as texts, lists and
objects as JSON texts (D2). Schemas make them from what was sent and views show them again.

peewee's builder takes 150 microseconds for a statement, the database 6 to run it. So each statement
is built once, and its text is kept and stays prepared.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

from peewee import Model, TextField, Value

from crm.errors import Conflict, Invalid, NotFound, Stale
from crm.json import dumps
from crm.records import columns, fields, search
from crm.records.columns import N_, Column
from crm.records.retention import KEPT_SECONDS
from crm.tenancy import quota, search_index
from crm.tenancy.database import (
    current_session,
    database,
    execute,
    insert,
    now,
    row,
    rows,
    time_before,
)
from crm.values.ids import integer_id


class Row(Model):
    """A row of the current tenant."""

    class Meta:
        database = database
        legacy_table_names = False


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
        values = row(_select_one(cls), (integer_id(id),))
        if values is None:
            raise NotFound
        record = cls._of_row(values)
        if expected_version not in (None, record.version):
            raise Stale
        return record

    @classmethod
    def first(cls, condition: str, *params: Any) -> Self | None:
        """The first live record that meets an SQL condition, by id."""
        values = row(f"{_select(cls)} AND {condition} ORDER BY id LIMIT 1", params)
        return None if values is None else cls._of_row(values)

    @classmethod
    def every(cls, condition: str, *params: Any) -> list[Self]:
        """All live records that meet an SQL condition (it may end in ORDER BY)."""
        return [cls._of_row(values) for values in rows(f"{_select(cls)} AND {condition}", params)]

    @classmethod
    def _of_row(cls, values: Sequence[Any]) -> Self:
        return cls._of(dict(zip(_columns(cls), values, strict=True)))

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        """The record of values by column; peewee's own way sets each as an attribute."""
        record = cls()
        record.__data__.update(values)
        return record

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        """Insert a row and return the record; inside a transaction.

        Columns that are absent get their declared defaults.
        """
        quota.require_room()
        moment = now()
        created_at = values.get("created_at") or moment  # imported history has its dates (D17)
        values = {
            **_defaults(cls),
            **values,
            "created_at": created_at,
            "updated_at": moment,
            "version": 1,
        }
        record = cls._of(values)
        values |= record.derived()
        sql, names = _insert(cls, tuple(values))
        record.id = insert(sql, [values[name] for name in names])
        return record

    def derived(self) -> dict[str, Any]:
        """Columns of a new row that are made from its others."""
        return {}

    def put(self, values: dict[str, Any]) -> dict[str, Any]:
        """Store what differs and return {column: the value before}, which may be empty."""
        before = {
            name: old for name, value in values.items() if (old := getattr(self, name)) != value
        }
        if before:
            self._store({name: values[name] for name in before})
        return before

    def _store(self, values: dict[str, Any]) -> None:
        values = {**values, "updated_at": now(), "version": self.version + 1}
        sql, names = _update(type(self), tuple(values))
        execute(sql, [self.id if name == "id" else values[name] for name in names])
        for name, value in values.items():
            setattr(self, name, value)

    def touch(self) -> None:
        """Give it its next version, for a change of a part that is stored in another table."""
        self._store({})

    def erase(self) -> None:
        """Delete the row for good."""
        execute(_delete(type(self)), (self.id,))


class SoftDeletedRecord(Record):
    """A record that is searched, soft-deleted, and has an audit trail (D17)."""

    external_id = columns.Text(128, example="1C-000123", label=N_("External ID"))
    extra = columns.Extra(null=True, label=N_("Other data"), form=False)
    deleted_at = TextField(null=True)
    search_text = TextField(null=True)
    created_at = columns.PastDateTime(create_only=True, null=False, sorted=True)

    def search_texts(self) -> Iterable[str | None]:
        """The texts that `q` looks into (D3): those of the searched columns."""
        return [self.__data__.get(name) for name in _searched(type(self))]

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        cls._external_id_is_free(values.get("external_id"))
        record = super().add(values)
        execute(search_index.add_statement(cls._meta.table_name), (record.id, record.search_text))
        return record

    def derived(self) -> dict[str, Any]:
        self.search_text = search.fold(*self.search_texts())
        return {"search_text": self.search_text}

    def put(self, values: dict[str, Any], beside: dict[str, tuple] | None = None) -> dict[str, Any]:
        """As Record.put(), with an audit entry and the search text.

        beside: what changed in other tables that belong to it: {name: (before, after)}.
        """
        if values.get("external_id") not in (None, self.external_id):
            self._external_id_is_free(values["external_id"])
        before = super().put(values)
        after = {name: getattr(self, name) for name in before}
        if beside and not before:
            self.touch()  # the version is that of the parts, too
        for name, (old, new) in (beside or {}).items():
            before[name], after[name] = old, new
        if before:
            self.refold()
            self._add_audit_entry(before, after)
            quota.require_room()
        return before

    def refold(self) -> None:
        """Update the search text after a change of the texts it is made from."""
        folded = search.fold(*self.search_texts())
        if folded != self.search_text:
            self._fold(folded)

    def remove(self, **last: Any) -> None:
        """Soft-delete it: the row stays, but is not found. `last`: other columns to store."""
        self._fold(None)  # search never finds a deleted record
        self._store({"deleted_at": now(), **last})

    @classmethod
    def removed(cls, id: int | str) -> Self:
        """The soft-deleted record of that id that can still be restored; raises NotFound."""
        values = row(
            f"{_select(cls, live=False)} AND id = ? AND deleted_at >= ?",
            (integer_id(id), time_before(KEPT_SECONDS)),
        )
        if values is None:
            raise NotFound
        return cls._of_row(values)

    def restore(self) -> None:
        """Undo remove(), with an audit entry; inside a transaction.

        Raises Conflict `duplicate_external_id` when another record has its external_id by now.
        """
        self._external_id_is_free(self.external_id)
        before = {"deleted_at": self.deleted_at}
        self._store({"deleted_at": None})
        self.refold()
        self._add_audit_entry(before, {"deleted_at": None})

    def _fold(self, folded: str | None) -> None:
        table = self._meta.table_name
        execute(search_index.remove_statement(table), (self.id,))
        execute(f"UPDATE {table} SET search_text = ? WHERE id = ?", (folded, self.id))
        if folded is not None:
            execute(search_index.add_statement(table), (self.id, folded))
        self.search_text = folded

    def _add_audit_entry(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        session = current_session()
        execute(
            "INSERT INTO audit_entry (noun, record_id, at, user_id, key_id, before, after)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self.noun,
                self.id,
                self.updated_at,
                session.user_id,
                session.key_id,
                dumps(before).decode(),
                dumps(after).decode(),
            ),
        )

    @classmethod
    def _external_id_is_free(cls, external_id: str | None) -> None:
        if external_id is not None and (other := cls.first("external_id = ?", external_id)):
            detail = f"the {cls.noun} {other.id} has the external_id {external_id}"
            raise Conflict(detail, "duplicate_external_id", id=str(other.id))


def live(table: str, id: int | str) -> int:
    """The integer id of a live row of a noun's table; raises NotFound."""
    if row(f"SELECT 1 FROM {table} WHERE id = ? AND deleted_at IS NULL", (integer_id(id),)) is None:
        raise NotFound
    return integer_id(id)


def reference(record: type[Record], id: int | None, field: str) -> None:
    """Check that an id sent in a body is a live record's; raises Invalid naming the field (D2)."""
    if id is not None and row(_select_one(record), (id,)) is None:
        raise Invalid.field(field, "unknown_id", f"there is no {record.noun} with this id")


@lru_cache(maxsize=64)
def _columns(record: type[Record]) -> tuple[str, ...]:
    return tuple(field.column_name for field in record._meta.sorted_fields)


@lru_cache(maxsize=64)
def _searched(record: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, field in columns.declared(record).items() if field.searched)


@lru_cache(maxsize=64)
def _defaults(record: type[Record]) -> dict[str, Any]:
    """The stored forms of the declared defaults."""
    declared = columns.declared(record).items()
    return {
        name: column.wire.read(column.wire.default)
        for name, column in declared
        if isinstance(column, Column)
        and isinstance(column.wire, fields.Field)
        and column.wire.default is not None
    }


@lru_cache(maxsize=128)
def _select(record: type[Record], live: bool = True) -> str:
    # Under its own name, which conditions may use: peewee calls it "t1".
    sql, _ = record.alias(record._meta.table_name).select().sql()
    hides = live and issubclass(record, SoftDeletedRecord)
    return f"{sql} WHERE {'deleted_at IS NULL' if hides else 'TRUE'}"


@lru_cache(maxsize=64)
def _select_one(record: type[Record]) -> str:
    return f"{_select(record)} AND id = ?"


@lru_cache(maxsize=512)
def _insert(record: type[Record], names: tuple[str, ...]) -> tuple[str, list[str]]:
    """An INSERT of these columns, and their names in the order of its parameters."""
    return record.insert({_field(record, name): _parameter(name) for name in names}).sql()


@lru_cache(maxsize=512)
def _update(record: type[Record], names: tuple[str, ...]) -> tuple[str, list[str]]:
    """An UPDATE of these columns of one row; "id" is among the names of its parameters."""
    changes = {_field(record, name): _parameter(name) for name in names}
    return record.update(changes).where(record.id == _parameter("id")).sql()


@lru_cache(maxsize=64)
def _delete(record: type[Record]) -> str:
    return record.delete().where(record.id == _parameter("id")).sql()[0]


def _field(record: type[Record], name: str) -> Any:
    return record._meta.fields[name]


def _parameter(name: str) -> Value:
    """A parameter that peewee leaves as it is: the statement's values become their names."""
    return Value(name, converter=False)
