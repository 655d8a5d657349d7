"""How a file names other records: by what people have (D2, D17).

A user by id, e-mail, phone or exact name; a client by id, external_id, or name if it is the only
one; a contact by its name at the client; pipelines and stages by name or id; leads and deals by id
or external_id. Letter case doesn't matter in names. What isn't found, or could be several, is
Invalid under the name of the column, and so are two columns that name different records.

An exported file says in `ids_of` whose ids it has. In a file of another tenant ids say nothing
here: a record without an external_id gets one made of the two, by which others find it.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any

from crm.errors import Invalid
from crm.records.search import fold
from crm.resources import users
from crm.tenancy.database import current_session, row, rows
from crm.values.ids import integer_id

QUOTED = 60  # characters of a cell that a message tells


def ids_of() -> str:
    """Whose ids those of this tenant's files are: no other tenant has this text."""
    return f"{current_session().label}-{row('SELECT instance_id FROM tenant')[0]}"


class References:
    """What can be named at the tenant visited, looked up as a file asks for it."""

    def __init__(self) -> None:
        self.own = ids_of()
        self._contacts_of: dict[int | None, dict[str, list[int]]] = {}

    def external_id(self, of: str | None, id: int | None) -> str | None:
        """The external_id of a record that had none where it comes from."""
        return None if of is None or id is None else f"{of}-{id}"

    # Users

    @cached_property
    def _users(self) -> tuple[set[int], dict[str, int], dict[str, list[int]]]:
        """Their ids, {e-mail or phone: id}, {name: ids}; those who left too: history has them."""
        reached: dict[str, int] = {}
        named: dict[str, list[int]] = defaultdict(list)
        found = rows("SELECT id, name, email, phone FROM user ORDER BY id")
        for id, name, email, phone in found:
            reached |= {reach.lower(): id for reach in (phone, email) if reach}
            named[fold(name)].append(id)
        return {id for id, *_ in found}, reached, named

    def user(self, text: str, column: str, is_foreign: bool = False) -> int:
        """The id of a user."""
        ids, reached, named = self._users
        if not is_foreign and integer_id(text) in ids:
            return integer_id(text)
        if id := reached.get(text.lower()) or reached.get(users.reach_of(text)):
            return id
        return only(named.get(fold(text), []), "user", text, column)

    def text_of_user(self, id: int) -> str:
        """How a file names a user: so that another tenant with the same people knows them."""
        name, email, phone = row("SELECT name, email, phone FROM user WHERE id = ?", (id,))
        return self._text_of(id, [email, phone, name], lambda text: self.user(text, ""))

    # Pipelines and stages

    @cached_property
    def _pipelines(self) -> list[tuple[int, str]]:
        found = rows("SELECT id, name FROM pipeline ORDER BY is_default DESC, position, id")
        return [(id, fold(name)) for id, name in found]

    @cached_property
    def _stages(self) -> list[tuple[int, int, str]]:
        found = rows("SELECT id, pipeline_id, name FROM stage ORDER BY pipeline_id, position, id")
        return [(id, pipeline_id, fold(name)) for id, pipeline_id, name in found]

    def pipeline(self, text: str, is_foreign: bool = False) -> int:
        """The id of a pipeline."""
        named = [id for id, name in self._pipelines if name == fold(text)]
        by_id = [] if is_foreign else [id for id, _ in self._pipelines if id == integer_id(text)]
        return only(named or by_id, "pipeline", text, "pipeline")

    def stage(self, text: str, pipeline_id: int | None, is_foreign: bool = False) -> int:
        """The id of a stage: of this pipeline, else of the only one that has it."""
        named = [(id, of) for id, of, name in self._stages if name == fold(text)]
        near = [id for id, of in named if of == (pipeline_id or self._pipelines[0][0])]
        by_id = [] if is_foreign else [id for id, _, _ in self._stages if id == integer_id(text)]
        far = [] if pipeline_id else [id for id, _ in named]
        return only(near or far or by_id, "stage", text, "stage")

    def text_of_pipeline(self, id: int) -> str:
        (name,) = row("SELECT name FROM pipeline WHERE id = ?", (id,))
        return self._text_of(id, [name], self.pipeline)

    def text_of_stage(self, id: int) -> str:
        name, of = row("SELECT name, pipeline_id FROM stage WHERE id = ?", (id,))
        return self._text_of(id, [name], lambda text: self.stage(text, of))

    # Leads, clients, contacts, deals

    def kept(self, noun: str, values: dict[str, Any], of: str | None) -> int | None:
        """The id of the live record that `<noun>_id` and `<noun>_external_id` name; takes both out
        of the values."""
        id, external_id = values.pop(f"{noun}_id", None), values.pop(f"{noun}_external_id", None)
        column = f"{noun}_id" if external_id is None else f"{noun}_external_id"
        if of is not None:
            external_id = external_id or self.external_id(of, id)
            id = None
        found = None
        if external_id is not None:
            found = only(self._ids(noun, "external_id", external_id), noun, external_id, column)
        if id is not None:
            by_id = only(self._ids(noun, "id", id), noun, str(id), f"{noun}_id")
            if found not in (None, by_id):
                raise contradiction(column, f"is not that of the {noun} {id}")
            found = by_id
        return found

    def client(self, values: dict[str, Any], of: str | None, record: Any) -> int | None:
        """The client that a deal's row names by any of its columns; takes them out."""
        name = values.pop("client", None)
        try:
            found = self.kept("client", values, of)
        except Invalid:
            if of is None or name is None:
                raise
            found = None  # another tenant's client who isn't here under that id, but by name
        if name is None:
            return found
        if record is not None and fold(record.client_name or "") == fold(name):
            return found or record.client_id  # as it is, also when it was deleted since
        named = self._clients.get(fold(name), [])
        if found is None:
            return only(named, "client", name, "client")
        if found not in named:
            raise contradiction("client", f"is not the name of the client {found}")
        return found

    def contact(self, values: dict[str, Any], of: str | None, client_id: int | None) -> int | None:
        """The contact that a deal's row names by id or name; takes both columns out."""
        id, name = values.pop("contact_id", None), values.pop("contact", None)
        id = id if of is None else None
        if name is None:
            return id
        named = self._contacts(client_id).get(fold(name), [])
        if id is None:
            return only(named, "contact", name, "contact")
        if id not in named:
            raise contradiction("contact", f"is not the name of the contact {id}")
        return id

    @cached_property
    def _clients(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for id, name in rows("SELECT id, name FROM client WHERE deleted_at IS NULL ORDER BY id"):
            found[fold(name)].append(id)
        return found

    def _contacts(self, client_id: int | None) -> dict[str, list[int]]:
        if client_id not in self._contacts_of:
            found: dict[str, list[int]] = defaultdict(list)
            sql = "SELECT id, name FROM contact WHERE client_id = ? ORDER BY id"
            for id, name in rows(sql, (client_id,)):
                found[fold(name)].append(id)
            self._contacts_of[client_id] = found
        return self._contacts_of[client_id]

    @staticmethod
    def _ids(table: str, column: str, value: Any) -> list[int]:
        sql = f"SELECT id FROM {table} WHERE {column} = ? AND deleted_at IS NULL"
        return [id for (id,) in rows(sql, (value,))]

    @staticmethod
    def _text_of(id: int, texts: list[str | None], find: Callable[[str], int]) -> str:
        """The first of the texts that leads back to the record, else its id."""
        for text in filter(None, texts):
            try:
                if find(text) == id:
                    return text
            except Invalid:
                continue
        return str(id)


def only(found: list[int], noun: str, text: str, column: str) -> int:
    """The one that was found; raises Invalid naming what was looked for."""
    if len(found) == 1:
        return found[0]
    told = f"{text[:QUOTED]}…" if len(text) > QUOTED else text
    if not found:
        raise Invalid.field(column, "not_found", f"there is no {noun} “{told}”")
    raise Invalid.field(column, "ambiguous", f"{len(found)} {noun}s are called “{told}”")


def contradiction(column: str, detail: str) -> Invalid:
    """Two cells of a row say different things."""
    return Invalid.field(column, "contradiction", f"{detail}: leave one of the cells empty")
