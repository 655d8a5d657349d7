"""How a file refers to other records: what all kinds of references share (D2, D17).

A record is named by its id, by its external_id, or by a text that its own resource understands.
What is not found, or could be several records, is Invalid under the name of the column, and so are
two columns that name different records.

An exported file says in the column `source_tenant` which tenant its ids belong to. At another
tenant those ids mean nothing: a record without an external_id gets one made of both, by which
later files find it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from crm.errors import Invalid
from crm.json import integer_id
from crm.records.deletions import absent
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.storage.dialect import by_index
from crm.storage.session import current_session, one_row, row, rows
from crm.values.folding import fold, sort_key

MAX_QUOTED_CHARACTERS = 60  # of a cell in a message

Lookup = TypeVar("Lookup")


def source_tenant() -> str:
    """Return the text that names this tenant in files; it is unique to the tenant."""
    return f"{current_session().label}-{one_row('SELECT instance_id FROM tenant')[0]}"


class References:
    """What the files of one import or export refer to, looked up once.

    `options` are those of an import, which may create what does not exist.
    """

    def __init__(self, options: ImportOptions = PLAIN) -> None:
        self.own_tenant = source_tenant()
        self.options = options
        self._lookups: dict[type, Any] = {}
        self._named: dict[tuple[Any, ...], dict[str, list[int]]] = {}
        self._created: dict[tuple[Any, str], int] = {}  # ids by how they are created, and the text

    def lookup(self, kind: type[Lookup]) -> Lookup:
        """Return the lookup of this class; it is made at the first use."""
        if kind not in self._lookups:
            self._lookups[kind] = kind()
        return self._lookups[kind]

    def ids_named(self, table: str, name: str, where: str = "TRUE", *params: Any) -> list[int]:
        """The ids of the rows that meet an SQL condition and have this name, in any letter case."""
        folded, key = fold(name), (table, where, *params)
        if table == "client":  # of which there may be many, and few are named
            key = *key, folded
            table, where = by_index(table, "client_name"), f"sort_key = ? AND {where}"
            params = sort_key(name), *params
        if key not in self._named:
            by_name = self._named[key] = defaultdict(list)
            for id, stored in rows(f"SELECT id, name FROM {table} WHERE {where}", params):
                by_name[fold(stored)].append(id)
        return self._named[key].get(folded, [])

    def resolve(
        self,
        column: str,
        text: str,
        find: Callable[[str], int],
        create: Callable[[str], int] | None = None,
        within: Any = None,
    ) -> int | None:
        """The id that `find` gives for a cell; of a text that names nothing what the options say.

        `within` tells apart what may have the same text. None: the cell counts as empty. Raises
        what `find` and `create` do.
        """
        key = within or column, fold(text)
        if key in self._created:
            return self._created[key]
        try:
            return find(text)
        except Invalid as invalid:
            choice = self.options.choice(column, text)
            if choice is None or invalid.faults[0].code != "not_found":
                raise
            if choice == "create" and create is None:
                raise
        if choice.startswith("="):
            return find(choice[1:])
        if choice == "create" and create:
            self._created[key] = create(text)
        return self._created.get(key)

    def forget_created(self) -> None:
        """Look anew for what was created: it is rolled back, or may be."""
        if self._created:
            self._created.clear()
            self._lookups.clear()
            self._named.clear()

    def find_record(self, noun: str, values: dict[str, Any], source: str | None) -> int | None:
        """The id of the live record that `<noun>_id` and `<noun>_external_id` name, if any.

        Takes both out of `values`. `source` is the tenant that the ids belong to, None for this
        one. Raises Invalid.
        """
        id, external_id = values.pop(f"{noun}_id", None), values.pop(f"{noun}_external_id", None)
        column = f"{noun}_id" if external_id is None else f"{noun}_external_id"
        if source is not None:
            external_id = external_id or make_external_id(source, id)
            id = None
        record_id = None
        if external_id is not None:
            ids = _live_ids(noun, "external_id", external_id)
            record_id = require_one(ids, noun, external_id, column)
        if id is not None:
            if not _live_ids(noun, "id", id):
                unknown = absent(noun, id, f"there is no {noun} “{id}”")
                code = "in_trash" if "in_trash" in unknown.more else "not_found"
                raise Invalid.field(f"{noun}_id", code, unknown.detail)
            if record_id not in (None, id):
                raise contradiction(column, f"is not that of the {noun} {id}")
            record_id = id
        return record_id

    def find_named(self, noun: str, source: str | None, column: str, text: str) -> int:
        """The id of the live record that a cell names by its id, external_id or name.

        source: as in find_record(). Raises Invalid.
        """
        ids = [] if source else _live_ids(noun, "id", integer_id(text))
        for external_id in (text, *([f"{source}-{text}"] if source else [])):
            ids = ids or _live_ids(noun, "external_id", external_id)
        ids = ids or self.ids_named(noun, text, "deleted_at IS NULL")
        return require_one(ids, noun, text, column)

    def text_of(self, noun: str, id: int) -> str:
        """What find_named() finds a record by; of a deleted one the empty text."""
        sql = f"SELECT name, external_id FROM {noun} WHERE id = ? AND deleted_at IS NULL"
        texts = row(sql, (id,))
        return name_for_file(id, texts, partial(self.find_named, noun, None, "")) if texts else ""


def make_external_id(source: str | None, id: int | None) -> str | None:
    """Make an external_id for a record of another tenant that had none there."""
    return None if source is None or id is None else f"{source}-{id}"


def require_one(ids: list[int], noun: str, text: str, column: str) -> int:
    """The only one of the ids found for a text; raises Invalid `not_found` or `ambiguous`."""
    if len(ids) == 1:
        return ids[0]
    quoted = text[:MAX_QUOTED_CHARACTERS] + "…" * (len(text) > MAX_QUOTED_CHARACTERS)
    if not ids:
        raise Invalid.field(column, "not_found", f"there is no {noun} “{quoted}”")
    raise Invalid.field(column, "ambiguous", f"{len(ids)} {noun}s are called “{quoted}”")


def contradiction(column: str, detail: str) -> Invalid:
    """Make the error for two cells of a row that contradict each other."""
    return Invalid.field(column, "contradiction", f"{detail}: leave one of the cells empty")


def name_for_file(id: int, texts: Iterable[str | None], find: Callable[[str], int]) -> str:
    """The first of the texts by which `find` gives this id again, else the id as a text."""
    for text in filter(None, texts):
        try:
            if find(text) == id:
                return text
        except Invalid:
            continue
    return str(id)


def _live_ids(table: str, column: str, value: Any) -> list[int]:
    sql = f"SELECT id FROM {table} WHERE {column} = ? AND deleted_at IS NULL ORDER BY id"
    return [id for (id,) in rows(sql, (value,))]
