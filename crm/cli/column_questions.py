"""Which field each column of a foreign file is: from a file of JSON, or asked on a terminal."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from crm.errors import Invalid
from crm.json import dumps, loads
from crm.spreadsheets.foreign.aliases import fields_of
from crm.spreadsheets.foreign.mapping import EXTRA
from crm.spreadsheets.foreign.proposals import HEADER_CODES, FileProposal, propose, unanswered
from crm.spreadsheets.options import DATE_ORDERS, UNKNOWN, ImportOptions
from crm.spreadsheets.reader import read_file
from crm.spreadsheets.resource import ImportableResource

LEAVE_OUT = "-"
MAX_NAMED = 10  # unknown texts in a question


def read_options(path: Path) -> ImportOptions:
    """The options of a file that write_options() wrote, or that has {column: field} alone."""
    try:
        values = loads(path.read_bytes())
        is_mapping = not isinstance(values.get("mapping"), dict)
        return ImportOptions(**({"mapping": values} if is_mapping else values))
    except (ValueError, TypeError, AttributeError):
        detail = f'{path} must have JSON such as {{"Артикул": "sku", "Залишок": null}}'
        raise Invalid.field("map", "invalid_json", detail) from None


def write_options(path: Path, options: ImportOptions) -> None:
    """Write the options for the next file with the same columns."""
    path.write_bytes(dumps(asdict(options)) + b"\n")


def may_ask(invalid: Invalid) -> bool:
    """Whether a person at a terminal can remedy what is wrong with a file."""
    return invalid.faults[0].code in HEADER_CODES and _is_terminal()


def ask_options(
    data: bytes, resource: ImportableResource, options: ImportOptions, reading: dict[str, Any]
) -> ImportOptions:
    """Ask at the terminal how a foreign file is to be read; `reading` is as for read_file()."""
    proposal = propose(data, resource, options, **reading)
    options = replace(proposal.options, mapping=_ask_mapping(resource, proposal))
    if propose(data, resource, options=options, **reading).asks_date_order:
        order = click.prompt("Dates such as 03/04/2026 begin with", type=click.Choice(DATE_ORDERS))
        options = replace(options, date_order=order)
    file = read_file(data, resource, options=options, **reading)
    unknown = dict(options.unknown_values)
    for column, texts in unanswered(resource, file).items():
        named = {text: text for text in texts}
        if len(texts) > MAX_NAMED:
            named = {"*": f"{', '.join(texts[:MAX_NAMED])} …"}
        for text, shown in named.items():
            question = f"{column}: there is no {shown} ({', '.join(UNKNOWN)}, reject, =NAME)"
            choice = click.prompt(question, default="reject", value_proc=_read_choice)
            if choice != "reject":
                unknown[column] = unknown.get(column, {}) | {text: choice}
    return replace(options, unknown_values=unknown)


def _read_choice(text: str) -> str:
    if text in (*UNKNOWN, "reject") or text[:1] == "=" != text:
        return text
    raise click.UsageError(f"{', '.join(UNKNOWN)}, reject, or = and the name of the one meant")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask_mapping(resource: ImportableResource, proposal: FileProposal) -> dict[str, str | None]:
    names = list(fields_of(resource))
    click.echo(f"Fields: {', '.join(names)}; {EXTRA}NAME keeps other data, {LEAVE_OUT} leaves out.")
    mapping: dict[str, str | None] = {}
    for guess in proposal.guesses:
        if not guess.samples:
            mapping[guess.file] = guess.field
            continue
        text = f"{guess.file} ({', '.join(sample[:30] for sample in guess.samples)})"
        field = ""
        while field not in (LEAVE_OUT, *names) and not field.startswith(EXTRA):
            field = click.prompt(text, default=guess.field or LEAVE_OUT)
        mapping[guess.file] = None if field == LEAVE_OUT else field
    return mapping
