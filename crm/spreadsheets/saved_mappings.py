"""Mappings that people have chosen, kept for the next file with the same header."""

from collections.abc import Sequence
from dataclasses import replace

from crm.json import dumps, integer_id
from crm.records.custom import fields as custom_fields
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.resource import ERROR_COLUMN, ImportableResource
from crm.storage.session import current_session, execute, now, row, rows, transaction

SAVE = """
    INSERT INTO column_mapping (noun, header, name, mapping, user_id, created_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (noun, header) DO UPDATE SET name = excluded.name, mapping = excluded.mapping,
        user_id = excluded.user_id, updated_at = excluded.updated_at
"""
custom_fields.uses["column_mapping"] = "noun || 's'", "mapping"


def find(resource: ImportableResource, header: Sequence[str]) -> tuple[str, ImportOptions] | None:
    """The name and the options of the mapping for this header, if there is one."""
    sql = "SELECT name, mapping FROM column_mapping WHERE noun = ? AND header = ?"
    saved = row(sql, _key(resource, header))
    return None if saved is None else (saved[0], ImportOptions.from_json(saved[1]))


def every(resource: ImportableResource) -> dict[int, tuple[str, ImportOptions]]:
    """{id: (name, options)} of all mappings of a resource, by name."""
    sql = "SELECT id, name, mapping FROM column_mapping WHERE noun = ? ORDER BY name, id"
    saved = rows(sql, (resource.singular,))
    return {id: (name, ImportOptions.from_json(mapping)) for id, name, mapping in saved}


def delete(resource: ImportableResource, id: str) -> None:
    """Forget a mapping, if there is one of this id."""
    with transaction():
        sql = "DELETE FROM column_mapping WHERE noun = ? AND id = ?"
        execute(sql, (resource.singular, integer_id(id)))


def _key(resource: ImportableResource, header: Sequence[str]) -> tuple[str, str]:
    """A file of rejected rows, which has their errors too, is one with the same header."""
    names = [name for name in header if name != ERROR_COLUMN]
    return resource.singular, dumps(names).decode()


def save(
    resource: ImportableResource, header: Sequence[str], name: str, options: ImportOptions
) -> None:
    """Keep the options for this header, in place of those kept before."""
    stored = replace(options, header_line=None, sheet=None).as_json()
    with transaction():
        execute(
            SAVE, (*_key(resource, header), name, stored, current_session().user_id, now(), now())
        )
