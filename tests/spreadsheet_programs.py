"""Spreadsheet programs: each opens our exports, changes one cell, and saves them as it does."""

import subprocess
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from xlsxwriter.utility import xl_rowcol_to_cell

from crm import create_app
from crm.resources import tenant
from crm.spreadsheets import find_resource
from crm.storage.session import execute, transaction
from tests import external_programs
from tests.conftest import Api, Clock, key_for
from tests.csv_helpers import send
from tests.installations import config_for

DATA = Path(__file__).parent / "data" / "spreadsheet_programs"
# The column changed in the first row and what is typed there; what that changes in the records.
CHANGES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "products": ("price", 1300.5, {"3 price": 1300.5}),
    "clients": ("phone", "067 765 43 21", {"1 phone": "+380677654321"}),
    "leads": ("phone", "067 765 43 21", {"1 phone": "+380677654321"}),
    "deals": ("item_price", 1300.5, {"1 items 0 price": 1300.5}),
    "tasks": ("title", "New", {"1 title": "New"}),
}
DERIVED = ("updated_at", "version", "amount", "total", "subtotal", "discount_amount")
EXPORTS = {"plain.csv": "", "people.csv": "for=people", "workbook.xlsx": "format=xlsx"}
KINDS = [".csv", ".xlsx", ".ods"]  # in which a program saves
FILTERS = {
    ".csv": "Text - txt - csv (StarCalc)",
    ".xlsx": "Calc MS Excel 2007 XML",
    ".ods": "calc8",
}


class Edit(NamedTuple):
    """A file to open, the files to save, and a cell to change, if any: its column and the value."""

    source: Path
    targets: list[Path]
    column: int = -1
    value: str | float = ""

    @property
    def cell(self) -> str:
        return "" if self.column < 0 else xl_rowcol_to_cell(1, self.column)

    @property
    def delimiter(self) -> str:
        return ";" if self.source.stem.endswith("people") else ","


def new_tenant(folder: Path) -> Api:
    """A tenant with the records of records.toml, always with the same ids."""
    crm = create_app(config_for(folder), Clock(), sends=False)
    tenant.open_tenant(crm.tenants, "acme", owner={"name": "Olena"})
    api = Api(crm, "acme", key_for(crm, "acme", "*"))
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE tenant SET instance_id = 'programs'")
    for plural, records in tomllib.loads((DATA / "records.toml").read_text("utf-8")).items():
        for record in records:
            items = {"items": record.pop("items", [])}
            id = api.create(f"/{plural}", **record)
            if plural == "deals" and items["items"]:
                assert api.post(f"/deals/{id}/items", items).status_code == 201
    return api


def save_by(program: str, api: Api, folder: Path) -> list[Path]:
    """Export all resources, have a program change a cell of each, and return what it saved."""
    saved = folder / "saved"
    saved.mkdir()
    edits = []
    for plural, (name, value, _) in CHANGES.items():
        names = [column.name for column in find_resource(plural).all_columns if column.sql]
        place = names.index(name)
        for kind, query in EXPORTS.items():
            source = folder / f"{plural}-{kind}"
            source.write_bytes(api.get(f"/{plural}/export?{query}").data)
            targets = [saved / f"{source.stem}{end}" for end in KINDS]
            edits.append(Edit(source, targets, place, value))
        opened = folder / f"{plural}-open.ods"  # the workbook, as the program saves it
        targets = [saved / f"{opened.stem}{end}" for end in KINDS]
        edits += [Edit(source, [opened]), Edit(opened, targets, place, value)]
    PROGRAMS[program](folder, edits)
    return sorted(saved.iterdir())


def outcome(api: Api, path: Path) -> str:
    """Import a file and take that back: the errors, and what else is changed than ought to be."""
    plural = path.stem.partition("-")[0]
    wanted, before = CHANGES[plural][2], _values(api, plural)
    response = send(api, plural, path.read_bytes(), name=path.name)
    if response.status_code != 200:
        return response.json["errors"][0]["code"]
    report = api.get(response.headers["Location"].partition("/api/v1")[2]).json
    parts = [f"{error['column']} {error['code']}" for error in report["errors"]]
    if report["created"]:
        parts.append(f"{report['created']} created")
    after = _values(api, plural)
    changed = {name: after[name] for name, value in before.items() if after[name] != value}
    parts += [f"{name} {changed[name]!r}" for name in changed.keys() - wanted.keys()]
    if {name: changed.get(name) for name in wanted} != wanted:
        parts.append("not changed")
    if report["batch_id"]:
        assert api.post(f"/batches/{report['batch_id']}/undo").status_code == 200
        assert _values(api, plural) == before
    return "; ".join(sorted(parts))


def _values(api: Api, plural: str) -> dict[str, Any]:
    """All values of a resource's records, by the record's id and their names."""
    values: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in pairs:
            if isinstance(part, dict | list):
                add(f"{name} {key}", part)
            elif key not in DERIVED:
                values[f"{name} {key}"] = part

    for record in api.read(f"/{plural}"):
        path = f"/{plural}/{record['id']}"
        add(record["id"], api.read(path))
        if plural == "deals":
            add(f"{record['id']} items", api.read(f"{path}/items"))
    return values


def _libreoffice(locale: str, folder: Path, edits: list[Edit]) -> None:
    user, jobs = folder / "profile" / "user", folder / "jobs"
    user.mkdir(parents=True)
    settings = (DATA / "registrymodifications.xcu").read_text("utf-8").replace("uk-UA", locale)
    (user / "registrymodifications.xcu").write_text(settings)
    program = external_programs.found("libreoffice-calc", "soffice")
    command = [program, "--headless", f"-env:UserInstallation=file://{user.parent}"]
    # The first start makes the folders of the profile.
    subprocess.run([*command, "--terminate_after_init"], check=True, timeout=60)
    macros = user / "basic" / "Standard" / "Module1.xba"
    macros.write_bytes((DATA / "Module1.xba").read_bytes())
    lines = []
    for edit in edits:
        csv_options = f"{ord(edit.delimiter)},34,76,1,,0,false,"  # 76: UTF-8
        value = str(edit.value).replace(".", "," if locale == "uk-UA" else ".")
        line = [str(edit.source), FILTERS[edit.source.suffix], f"{csv_options}false"]
        line += [edit.cell, value]
        for target in edit.targets:
            line += [str(target), FILTERS[target.suffix], f"{csv_options}true"]
        lines.append("|".join(line))
    jobs.write_text("\n".join(lines))
    macro = f"macro:///Standard.Module1.Main({jobs})"
    subprocess.run([*command, macro], check=True, timeout=240)


def _gnumeric(folder: Path, edits: list[Edit]) -> None:
    program = external_programs.found("gnumeric", "ssconvert")
    for edit in edits:
        options = ["--set", f"{edit.cell}={edit.value}"] if edit.cell else []
        if edit.source.suffix == ".csv":
            options += ["-E", "UTF-8", "-I", "Gnumeric_stf:stf_csvtab"]
        for target in edit.targets:
            command = [program, *options, str(edit.source), str(target)]
            subprocess.run(command, check=True, timeout=60)


def _openpyxl(folder: Path, edits: list[Edit]) -> None:
    import openpyxl

    for edit in edits:
        if edit.source.suffix == ".xlsx" and edit.cell:
            book = openpyxl.load_workbook(edit.source)
            book.active[edit.cell] = edit.value
            book.save(edit.targets[KINDS.index(".xlsx")])


def _pandas(folder: Path, edits: list[Edit]) -> None:
    import pandas

    for edit in edits:
        if edit.source.suffix == ".ods" or not edit.cell:
            continue
        style = {"sep": edit.delimiter, "decimal": "," if edit.delimiter == ";" else "."}
        is_csv = edit.source.suffix == ".csv"
        table = (
            pandas.read_csv(edit.source, **style)
            if is_csv
            else pandas.read_excel(edit.source, engine="openpyxl")
        )
        name = table.columns[edit.column]
        table[name] = table[name].astype(object)
        table.loc[0, name] = edit.value
        table.to_csv(edit.targets[0], index=False, **style)
        table.to_excel(edit.targets[1], index=False)


PROGRAMS: dict[str, Callable[[Path, list[Edit]], None]] = {
    "libreoffice-uk": partial(_libreoffice, "uk-UA"),
    "libreoffice-en": partial(_libreoffice, "en-US"),
    "gnumeric": _gnumeric,
    "openpyxl": _openpyxl,
    "pandas": _pandas,
}
