"""Lists on stdout: aligned columns with headings, or JSON for programs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from crm.json import dumps

COLUMN_SEPARATOR = "  "

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON array of objects, for programs."
)


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    as_json: bool,
    **texts: Callable[[Mapping[str, Any]], Any],
) -> None:
    """Print a list.

    texts: the columns in their order, each with the function that gives a row's text in it. None
    and the empty string are printed as `-`. JSON has all fields of the rows, without headings.
    """
    if as_json:
        click.echo(dumps(list(rows)))
        return
    lines = [[name.replace("_", " ").upper() for name in texts]]
    for row in rows:
        cells = (text(row) for text in texts.values())
        lines.append(["-" if cell in (None, "") else str(cell) for cell in cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(COLUMN_SEPARATOR.join(cells).rstrip())


def field(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """A column that prints a field as it is."""
    return lambda row: row[name]
