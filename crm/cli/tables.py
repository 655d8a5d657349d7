"""Lists of the command line: aligned columns with headings for people, JSON for programs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from crm.json import dumps

SPACE = "  "  # between two columns

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON array of objects, for programs."
)


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    as_json: bool,
    **texts: Callable[[Mapping[str, Any]], Any],
) -> None:
    """Print a list.

    `texts` names the columns in their order, each with the function that makes a cell's text of a
    row; nothing is shown as `-`. JSON has the rows with all their fields and no headings.
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
        click.echo(SPACE.join(cells).rstrip())


def field(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """A column that shows a field as it is."""
    return lambda row: row[name]
