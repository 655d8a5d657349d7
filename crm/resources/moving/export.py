"""Moving out: records as files that an import takes as they are (D9)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from crm import sheets
from crm.json import dumps
from crm.resources.moving.cells import Column
from crm.resources.moving.noun import KEYS, Moving
from crm.resources.moving.references import References
from crm.tenancy.reading import batches, snapshot

REPEATED = frozenset((*KEYS, "ids_of"))  # in the further rows of a record

Write = Callable[[Any], str]
MayRead = Callable[[str], bool]  # is the reader allowed to read the noun of this plural?


def export_csv(
    to: BinaryIO,
    noun: Moving,
    condition: str = "1",
    params: Sequence[Any] = (),
    order: str = "id",
    excel: bool = False,
    may_read: MayRead = lambda plural: True,
) -> None:
    """Write all live records that meet an SQL condition, as a file of all columns.

    A record with parts has a row for each; only its keys are repeated. What was deleted is named
    nowhere. Of other nouns that the reader may not read only ids are told (D12).
    """
    here = References()
    own = [column for column in noun.columns if column.sql]
    chosen = ", ".join(column.sql for column in own)
    sql = (
        f"SELECT {noun.name}.id, {chosen} FROM {noun.name}"
        f" WHERE deleted_at IS NULL AND {condition} ORDER BY {order}"
    )
    shows = {name: _once(show) for name, show in noun.shows(here).items()}
    shows["ids_of"] = lambda _: here.own
    shows |= {each.name: _hidden(each) for each in own if each.of and not may_read(each.of)}
    header = [column.name for column in noun.all_columns if column.sql]
    write_own = _writers(own, excel, shows)
    write_part = _writers(noun.part_columns, excel, {})

    def cells() -> Iterator[list[str]]:
        for found in batches(sql, params):
            yield from _rows(found, _parts(noun, found), own, write_own, write_part)

    with snapshot():
        sheets.write_to(to, header, cells(), excel, noun.texts)


def _hidden(column: Column) -> Write:
    """A user's id has no column of its own; those of others stand beside."""
    return str if column.of == "users" else lambda _: ""


def _parts(noun: Moving, found: list[tuple[Any, ...]]) -> dict[int, list[Sequence[Any]]]:
    """The parts of some records, by the id of the record."""
    parts: dict[int, list[Sequence[Any]]] = defaultdict(list)
    if noun.part_columns:
        for id, *values in noun.parts_of(dumps([id for id, *_ in found]).decode()):
            parts[id].append(values)
    return parts


def _rows(
    found: list[tuple[Any, ...]],
    parts: dict[int, list[Sequence[Any]]],
    own: list[Column],
    write_own: list[Write],
    write_part: list[Write],
) -> Iterator[list[str]]:
    """The cells: the record's own, those of a part, and whose the ids are."""
    nothing = [""] * len(write_part)
    for id, *values in found:
        *cells, whose = _written(values, write_own)
        for number, part in enumerate(parts.get(id, [None])):
            if number == 1:
                kept = zip(own, cells, strict=False)
                cells = [cell if column.name in REPEATED else "" for column, cell in kept]
            yield [*cells, *(nothing if part is None else _written(part, write_part)), whose]


def _writers(
    columns: Sequence[Column], excel: bool, shows: dict[str, Callable[[Any], str]]
) -> list[Write]:
    """For each column what makes its cell."""

    def writer(column: Column) -> Write:
        return shows.get(column.name) or (lambda value: column.show(value, excel))

    return [writer(column) for column in columns]


def _once(show: Write) -> Write:
    """What is asked for often, of users, pipelines and stages, is looked up once."""
    made: dict[Any, str] = {}

    def write(value: Any) -> str:
        if value not in made:
            made[value] = show(value)
        return made[value]

    return write


def _written(values: Sequence[Any], writers: list[Write]) -> list[str]:
    return [
        "" if value is None else write(value) for value, write in zip(values, writers, strict=True)
    ]
