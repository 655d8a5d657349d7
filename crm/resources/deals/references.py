"""How files of deals name pipelines, stages, clients and contacts.

Pipelines and stages go by name or id, a client by id, external_id, or by its name if no other has
the same, a contact by its id or by its name at the client. Letter case does not matter in names.
"""

from collections import defaultdict
from functools import cached_property
from typing import Any

from crm.errors import Invalid
from crm.records.search import fold
from crm.spreadsheets.references import References, contradiction, name_for_file, require_one
from crm.tenancy.database import one_row, rows
from crm.values.ids import integer_id


class PipelineLookup:
    """The pipelines and stages of the tenant."""

    @cached_property
    def _pipelines(self) -> list[tuple[int, str]]:
        pipelines = rows("SELECT id, name FROM pipeline ORDER BY is_default DESC, position, id")
        return [(id, fold(name)) for id, name in pipelines]

    @cached_property
    def _stages(self) -> list[tuple[int, int, str]]:
        stages = rows("SELECT id, pipeline_id, name FROM stage ORDER BY pipeline_id, position, id")
        return [(id, pipeline_id, fold(name)) for id, pipeline_id, name in stages]

    def find_pipeline(self, text: str, is_foreign: bool = False) -> int:
        """The id of the pipeline that a cell names; raises Invalid."""
        named = [id for id, name in self._pipelines if name == fold(text)]
        by_id = [] if is_foreign else [id for id, _ in self._pipelines if id == integer_id(text)]
        return require_one(named or by_id, "pipeline", text, "pipeline")

    def find_stage(self, text: str, pipeline_id: int | None, is_foreign: bool = False) -> int:
        """The id of the stage that a cell names; raises Invalid.

        It is looked for in this pipeline; without one in the default pipeline, then in all.
        """
        named = [(id, of) for id, of, name in self._stages if name == fold(text)]
        home_pipeline_id = pipeline_id or self._pipelines[0][0]
        in_pipeline = [id for id, of in named if of == home_pipeline_id]
        in_all_pipelines = [] if pipeline_id else [id for id, _ in named]
        by_id = [] if is_foreign else [id for id, _, _ in self._stages if id == integer_id(text)]
        return require_one(in_pipeline or in_all_pipelines or by_id, "stage", text, "stage")

    def pipeline_name(self, id: int) -> str:
        """How a file names a pipeline."""
        (name,) = one_row("SELECT name FROM pipeline WHERE id = ?", (id,))
        return name_for_file(id, [name], self.find_pipeline)

    def stage_name(self, id: int) -> str:
        """How a file names a stage."""
        name, pipeline_id = one_row("SELECT name, pipeline_id FROM stage WHERE id = ?", (id,))
        return name_for_file(id, [name], lambda text: self.find_stage(text, pipeline_id))


class ClientLookup:
    """The live clients of the tenant and their contacts, by name."""

    def __init__(self) -> None:
        self._contacts_by_client: dict[int | None, dict[str, list[int]]] = {}

    @cached_property
    def _clients(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = defaultdict(list)
        for id, name in rows("SELECT id, name FROM client WHERE deleted_at IS NULL ORDER BY id"):
            by_name[fold(name)].append(id)
        return by_name

    def clients_named(self, name: str) -> list[int]:
        """The ids of the clients with this name."""
        return self._clients.get(fold(name), [])

    def contacts_named(self, client_id: int | None, name: str) -> list[int]:
        """The ids of the contacts with this name at a client."""
        if client_id not in self._contacts_by_client:
            by_name: dict[str, list[int]] = defaultdict(list)
            sql = "SELECT id, name FROM contact WHERE client_id = ? ORDER BY id"
            for id, contact_name in rows(sql, (client_id,)):
                by_name[fold(contact_name)].append(id)
            self._contacts_by_client[client_id] = by_name
        return self._contacts_by_client[client_id].get(fold(name), [])


def find_client(
    values: dict[str, Any], source: str | None, record: Any, references: References
) -> int | None:
    """The id of the client that any column of a deal's row names; takes those out of `values`.

    `record` is the deal if it exists. Raises Invalid.
    """
    name = values.pop("client", None)
    try:
        client_id = references.find_record("client", values, source)
    except Invalid:
        if source is None or name is None:
            raise
        client_id = None  # not known by the other tenant's id, but perhaps by name
    if name is None:
        return client_id
    if record is not None and fold(record.client_name or "") == fold(name):
        return client_id or record.client_id  # unchanged, even if the client was deleted since
    named = references.lookup(ClientLookup).clients_named(name)
    if client_id is None:
        return require_one(named, "client", name, "client")
    if client_id not in named:
        raise contradiction("client", f"is not the name of the client {client_id}")
    return client_id


def find_contact(
    values: dict[str, Any], source: str | None, client_id: int | None, references: References
) -> int | None:
    """The id of the contact that a deal's row names by id or name; takes both out of `values`.

    Raises Invalid.
    """
    id, name = values.pop("contact_id", None), values.pop("contact", None)
    id = id if source is None else None
    if name is None:
        return id
    named = references.lookup(ClientLookup).contacts_named(client_id, name)
    if id is None:
        return require_one(named, "contact", name, "contact")
    if id not in named:
        raise contradiction("contact", f"is not the name of the contact {id}")
    return id
