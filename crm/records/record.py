"""What every kept row shares: an id never reused, times, a version, and a trail of its changes.

A record's values are the stored ones: money in 1/10 000, times and dates as texts, lists and
objects as JSON texts (D2). Schemas make them from what was sent and shapes show them again.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, Self

from peewee import AutoField, IntegerField, Model, TextField

from crm.errors import Conflict, Invalid, NotFound, Stale
from crm.json import dumps
from crm.records import search
from crm.records.retention import KEPT_DAYS
from crm.tenancy import quota
from crm.tenancy.database import current_session, database, execute, now, row, rows, time_before
from crm.tenancy.sweeps import DAY_SECONDS
from crm.values.ids import integer_id


class Row(Model):
    """A row of the tenant visited."""

    class Meta:
        database = database
        legacy_table_names = False


class Record(Row):
    """A row with an id, `created_at`, `updated_at` and a `version` that grows with each change."""

    noun: ClassVar[str] = ""

    id = AutoField()
    created_at = TextField()
    updated_at = TextField()
    version = IntegerField(default=1)

    @classmethod
    def find(cls, id: int | str, expected_version: int | None = None) -> Self:
        """The record of that id.

        Raises NotFound, also for an id that can't be one, and Stale when the record has another
        version than the expected one; None expects none.
        """
        values = row(_select_one(cls), (integer_id(id),))
        if values is None:
            raise NotFound
        record = cls._of(zip(_columns(cls), values, strict=True))
        if expected_version not in (None, record.version):
            raise Stale
        return record

    @classmethod
    def first(cls, condition: str, *params: Any) -> Self | None:
        """The first live record that meets an SQL condition, by id."""
        found = row(f"{_select(cls)} AND {condition} ORDER BY id LIMIT 1", params)
        return found and cls._of(zip(_columns(cls), found, strict=True))

    @classmethod
    def every(cls, condition: str, *params: Any) -> list[Self]:
        """All live records that meet an SQL condition (it may end in ORDER BY)."""
        names = _columns(cls)
        found = rows(f"{_select(cls)} AND {condition}", params)
        return [cls._of(zip(names, values, strict=True)) for values in found]

    @classmethod
    def _of(cls, values: Any) -> Self:
        """The record of values by column; peewee's own way sets each as an attribute."""
        record = cls()
        record.__data__.update(values)
        return record

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        """Insert a row and give the record; inside a transaction."""
        quota.require_room()
        moment = now()
        created_at = values.get("created_at") or moment  # history moves in with its dates (D17)
        values = {**values, "created_at": created_at, "updated_at": moment, "version": 1}
        record = cls._of(values)
        values |= record.derived()
        sql = _insert(cls._meta.table_name, tuple(values))
        record.id = execute(sql, tuple(values.values())).lastrowid
        return record

    def derived(self) -> dict[str, Any]:
        """Columns of a new row that are made from its others."""
        return {}

    def put(self, values: dict[str, Any]) -> dict[str, Any]:
        """Store what differs and give what it was: {column: the value before}. May be empty."""
        before = {
            name: old for name, value in values.items() if (old := getattr(self, name)) != value
        }
        if before:
            self._store({name: values[name] for name in before})
        return before

    def _store(self, values: dict[str, Any]) -> None:
        values = {**values, "updated_at": now(), "version": self.version + 1}
        sql = _update(self._meta.table_name, tuple(values))
        execute(sql, (*values.values(), self.id))
        for name, value in values.items():
            setattr(self, name, value)

    def touch(self) -> None:
        """A part of it that is kept elsewhere has changed: its next version."""
        self._store({})

    def erase(self) -> None:
        """Delete the row for good."""
        execute(f"DELETE FROM {self._meta.table_name} WHERE id = ?", (self.id,))


class SoftDeletedRecord(Record):
    """A noun of the specification: searched, soft-deleted, with a trail of changes (D17)."""

    external_id = TextField(null=True)
    extra = TextField(null=True)
    deleted_at = TextField(null=True)
    folded = TextField(null=True)

    def search_texts(self) -> Iterable[str | None]:
        """The texts that `q` looks into (D3)."""
        return ()

    @classmethod
    def add(cls, values: dict[str, Any]) -> Self:
        cls._external_id_is_free(values.get("external_id"))
        record = super().add(values)
        execute(search.add_statement(cls._meta.table_name), (record.id, record.folded))
        return record

    def derived(self) -> dict[str, Any]:
        self.folded = search.fold(*self.search_texts())
        return {"folded": self.folded}

    def put(self, values: dict[str, Any], beside: dict[str, tuple] | None = None) -> dict[str, Any]:
        """As Record.put. `beside` is what changed in other rows of it: {name: (before, after)}."""
        if values.get("external_id") not in (None, self.external_id):
            self._external_id_is_free(values["external_id"])
        before = super().put(values)
        after = {name: getattr(self, name) for name in before}
        if beside and not before:
            self.touch()
        for name, (old, new) in (beside or {}).items():
            before[name], after[name] = old, new
        if before:
            self.refold()
            self._trail(before, after)
            quota.require_room()
        return before

    def refold(self) -> None:
        """Keep the search index right after a change of the texts it is made from."""
        folded = search.fold(*self.search_texts())
        if folded != self.folded:
            self._fold(folded)

    def remove(self, **last: Any) -> None:
        """Soft-delete: the row stays, nobody finds it."""
        self._fold(None)
        self._store({"deleted_at": now(), **last})

    @classmethod
    def removed(cls, id: int | str) -> Self:
        """The record of that id that was deleted and is still kept; raises NotFound."""
        names = _columns(cls)
        found = row(
            f"SELECT {', '.join(names)} FROM {cls._meta.table_name}"
            " WHERE id = ? AND deleted_at >= ?",
            (integer_id(id), time_before(KEPT_DAYS * DAY_SECONDS)),
        )
        if found is None:
            raise NotFound
        return cls._of(zip(names, found, strict=True))

    def restore(self) -> None:
        """Undo remove(): it is found again, and the trail tells of it; inside a transaction.

        Raises Conflict `duplicate_external_id` when another record has its external_id by now.
        """
        self._external_id_is_free(self.external_id)
        before = {"deleted_at": self.deleted_at}
        self._store({"deleted_at": None})
        self.refold()
        self._trail(before, {"deleted_at": None})

    def _fold(self, folded: str | None) -> None:
        table = self._meta.table_name
        execute(search.remove_statement(table), (self.id,))
        execute(_set_folded(table), (folded, self.id))
        if folded is not None:
            execute(search.add_statement(table), (self.id, folded))
        self.folded = folded

    def _trail(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        here = current_session()
        execute(
            "INSERT INTO change (noun, record_id, at, user_id, key_id, before, after)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self.noun,
                self.id,
                self.updated_at,
                here.user_id,
                here.key_id,
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
    """An id sent in a body must be a live record's; raises Invalid naming the field (D2)."""
    if id is not None and row(_select_one(record), (id,)) is None:
        raise Invalid.field(field, "unknown_id", f"there is no {record.noun} with this id")


@lru_cache(maxsize=64)
def _columns(record: type[Record]) -> tuple[str, ...]:
    return tuple(field.column_name for field in record._meta.sorted_fields)


@lru_cache(maxsize=64)
def _select(record: type[Record]) -> str:
    live = "deleted_at IS NULL" if issubclass(record, SoftDeletedRecord) else "1"
    return f"SELECT {', '.join(_columns(record))} FROM {record._meta.table_name} WHERE {live}"


@lru_cache(maxsize=64)
def _select_one(record: type[Record]) -> str:
    return f"{_select(record)} AND id = ?"


@lru_cache(maxsize=512)
def _insert(table: str, names: tuple[str, ...]) -> str:
    places = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"


@lru_cache(maxsize=512)
def _update(table: str, names: tuple[str, ...]) -> str:
    return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in names)} WHERE id = ?"


@lru_cache(maxsize=16)
def _set_folded(table: str) -> str:
    return f"UPDATE {table} SET folded = ? WHERE id = ?"
