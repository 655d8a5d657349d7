"""The step "Columns" of an import: a person says what each column of a foreign file is.

The columns come with a guess, or with what was chosen for the last file with the same header. What
else only a person knows is asked there too, as far as the file needs it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me, see_other
from crm.cabinet.spreadsheets import fault_texts, waiting_files
from crm.cabinet.spreadsheets.resource_pages import (
    choices_of,
    column_label,
    render_page,
    resource_page,
)
from crm.errors import Invalid
from crm.records.custom.fields import PREFIX
from crm.records.custom.types import TYPES
from crm.resources import users
from crm.resources.pipelines.record import Pipeline, Stage
from crm.spreadsheets import ParsedFile, find_resource, saved_mappings
from crm.spreadsheets.conversion import WORKBOOKS
from crm.spreadsheets.foreign.aliases import COMBINED, SEVERAL, fields_of
from crm.spreadsheets.foreign.headers import MAX_SAMPLED_ROWS
from crm.spreadsheets.foreign.mapping import EXTRA
from crm.spreadsheets.foreign.new_fields import NEW, cells_of, guess_type
from crm.spreadsheets.foreign.proposals import FileProposal, propose, unanswered
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource
from crm.storage import uploads
from crm.storage.heavy_work import heavy_work

NOT_OFFERED = {"id", SOURCE_TENANT, "manager", "extra"}
CREATED = ("assigned_to", "stage", "client", "contact")
MAX_ASKED = 20  # texts that are asked about one by one

pages = Pages("import_columns")


@resource_page(pages, "GET", "import/<name>/columns", role=MANAGER)
@waiting_files.redirects_when_expired
def choose_columns(plural: str, name: str, form: Form | None = None) -> Response:
    resource, waiting = find_resource(plural), waiting_files.read(plural, name)
    saved = saved_mappings.every(resource)
    try:
        proposal = propose_columns(waiting, _sent_options(resource, form))
    except Invalid as invalid:  # there is no such sheet
        text = fault_texts.of_file(invalid.faults[0])
        return see_other(f"/{plural}/import/{name}/columns", text, "danger")
    chosen_before = saved.get(request.args.get("saved", 0, type=int))
    if chosen_before and not form:
        options, own = _permitted(chosen_before[1]), dict[str, str | None]()
        for guess in proposal.guesses:
            own[guess.file] = (options.mapping or {}).get(guess.file, guess.field)
        proposal = propose_columns(waiting, replace(options, mapping=own))
    columns = [
        (guess, NEW if isinstance(guess.field, dict) else guess.field or "")
        for guess in proposal.guesses
    ]
    chosen, known = {field for _, field in columns if field}, fields_of(resource)
    return render_page(
        "spreadsheets/columns.html",
        plural,
        name=name,
        form=form or Form(),
        file=waiting,
        options=proposal.options,
        columns=[column for column in columns if column[0].samples or column[1]],
        empty_columns=[column for column in columns if not (column[0].samples or column[1])],
        header_line=proposal.table.header_line,
        is_workbook=proposal.table.encoding in WORKBOOKS,
        saved=[(id, title) for id, (title, _) in saved.items()],
        fields=[(name, column_label(resource, name)) for name in known if is_offered(name)],
        new_types=_new_types(proposal) if me().role == OWNER else {},
        gone=[
            guess.file
            for guess, field in columns
            if field.startswith(PREFIX) and field not in known
        ],
        has_extra="extra" in resource.column_names,
        missing=_missing(resource, chosen),
        asks_known="phone" in resource.column_names and "external_id" not in chosen,
        proposes_update=not form and has_known_phone(resource, waiting, proposal),
        asks_date_order=proposal.asks_date_order or proposal.options.date_order,
        asks_decimal_mark=proposal.asks_decimal_mark or proposal.options.decimal_mark,
        unknown=_unknown_choices(resource, proposal.file),
    )


@resource_page(pages, "POST", "import/<name>/columns", role=MANAGER, page=choose_columns)
@waiting_files.redirects_when_expired
def save_columns(plural: str, name: str) -> Response:
    resource, waiting = find_resource(plural), waiting_files.read(plural, name)
    proposal = propose_columns(waiting, _sent_options(resource, Form(), refuses=True))
    if proposal.asks_date_order:
        raise Invalid.field("date_order", "unanswered", gettext("Which is first, day or month?"))
    if proposal.asks_decimal_mark:
        text = gettext("Are these decimals or thousands?")
        raise Invalid.field("decimal_mark", "unanswered", text)
    if proposal.file is None:
        raise Invalid.field("columns", "missing_column", gettext("Choose a column for the SKU."))
    if unanswered(resource, proposal.file):
        raise Invalid.field("unknown", "unanswered", gettext("Say what to do with these names."))
    title = request.form.get("title", "").strip()[:255] or waiting.name
    saved = replace(proposal.options, mapping={**proposal.file.mapping} or None)
    saved_mappings.save(resource, proposal.table.columns, title, saved)
    uploads.delete(me().id, name)
    return see_other(f"/{plural}/import/{waiting._replace(options=proposal.options).save()}")


@resource_page(pages, "POST", "import/<name>/columns/forget", role=MANAGER)
def forget_columns(plural: str, name: str) -> Response:
    saved_mappings.delete(find_resource(plural), request.form.get("saved", ""))
    return see_other(f"/{plural}/import/{name}/columns", gettext("The choice is forgotten."))


def propose_columns(
    waiting: waiting_files.WaitingFile, options: ImportOptions | None = None
) -> FileProposal:
    """How a file may be read: by these options, those it has, those saved, or a guess."""
    resource = find_resource(waiting.plural)
    with heavy_work():
        proposal = propose(waiting.data, resource, options or waiting.options)
        saved = saved_mappings.find(resource, proposal.table.columns)
        if options is None and waiting.options.mapping is None and saved:
            proposal = propose(waiting.data, resource, _permitted(saved[1]))
    return proposal


def _permitted(options: ImportOptions) -> ImportOptions:
    """Options chosen before, without what only an owner may create, if this is none."""
    if any(_is_owners(column) and options.creates(column) for column in CREATED):
        return replace(options, unknown_values={})
    return options


def is_own(resource: ImportableResource, proposal: FileProposal) -> bool:
    """Whether a file has our columns, and nothing in its cells has to be asked."""
    file, is_mapped = proposal.file, proposal.options.mapping is not None
    if file is None or is_mapped or proposal.asks_decimal_mark:
        return False
    return file.is_exact or not unanswered(resource, file)


def has_known_phone(
    resource: ImportableResource, waiting: waiting_files.WaitingFile, proposal: FileProposal
) -> bool:
    """Whether a file without keys has the phone of a record, and nobody has said what then."""
    values: dict[str, list[Any]] = proposal.file.values if proposal.file else {}
    if "phone" not in values or {"id", "external_id"} & values.keys() or waiting.options.mapping:
        return False
    is_new = saved_mappings.find(resource, proposal.table.columns) is None
    return is_new and bool(resource.find_known("phone", "phone", values["phone"]))


def needs_no_person(resource: ImportableResource, proposal: FileProposal) -> bool:
    """Whether a mapping was chosen before, or nothing about it is in doubt."""
    fields = set(filter(None, (proposal.options.mapping or {}).values()))
    is_sure = proposal.is_sure and not _missing(resource, fields)
    return is_sure and proposal.file is not None and not unanswered(resource, proposal.file)


def _sent_options(
    resource: ImportableResource, form: Form | None, refuses: bool = False
) -> ImportOptions | None:
    """The options of the form that was sent; raises Invalid for a field twice, if `refuses`.

    Without a form: those of the header's line and the sheet that the address names, if any.
    """
    sent = request.values
    place = ImportOptions(
        header_line=sent.get("header_line", type=int), sheet=sent.get("sheet", "").strip() or None
    )
    if form is None:
        return None if place == PLAIN else place
    mapping = dict[str, Any]()
    for number, column in enumerate(sent.getlist("column")):
        field = sent.get(f"field-{number}", "")
        if refuses and field in mapping.values() and field not in ("", *SEVERAL):
            other = next(name for name, known in mapping.items() if known == field)
            text = gettext("“%(first)s” is the same field: choose one.", first=other)
            raise Invalid.field(f"field-{number}", "duplicate_column", text)
        mapping[column] = f"{EXTRA}{column}" if field == EXTRA else field or None
        if field == NEW:
            mapping[column] = {NEW: {}} if me().role == OWNER else None
    known = sent.get("known", "")
    keys = [key for key in ("phone", "email") if key in mapping.values()]
    unknown: dict[str, dict[str, str]] = {}
    for name, choice in sent.items():
        kind, _, rest = name.partition("|")
        column, _, text = rest.partition("|")
        if kind == "unknown" and choice and not (choice == "create" and _is_owners(column)):
            unknown.setdefault(column, {})[text] = choice
    return replace(
        place,
        mapping=mapping,
        key=keys[0] if known and keys else None,
        known=known or "update",
        on_empty="clear" if sent.get("on_empty") else "keep",
        date_order=sent.get("date_order") or None,
        decimal_mark=sent.get("decimal_mark") or None,
        unknown_values=unknown,
    )


def _new_types(proposal: FileProposal) -> dict[str, str]:
    """{column: what its type is called} of columns that may become a new field."""
    table = proposal.table._replace(rows=proposal.table.rows[:MAX_SAMPLED_ROWS])
    return {
        guess.file: gettext(TYPES[guess_type(guess.file, cells)].label)
        for guess in proposal.guesses
        if (guess.field is None or isinstance(guess.field, dict))
        and (cells := cells_of(table, guess.file))
    }


def _is_owners(column: str) -> bool:
    """Whether creating what a column names is for an owner, and this is none."""
    return column not in ("client", "contact") and me().role != OWNER


def is_offered(name: str) -> bool:
    """Whether people choose this field for a column of a file of their own."""
    is_own = name.startswith(PREFIX)
    return is_own or name == "external_id" or not (name in NOT_OFFERED or name.endswith("_id"))


def _missing(resource: ImportableResource, chosen: set[str]) -> list[str]:
    """What every new record needs and no column is, as people call it."""
    stand_ins = COMBINED.get(resource.plural, {})
    have = chosen | {stand_ins[name] for name in chosen & stand_ins.keys()}
    if {"company", "email"} & chosen:
        have.add("name")
    names = [name for name, field in resource.body.fields.items() if field.required]
    names = list(dict.fromkeys([*resource.required_columns, *names]))
    missing = [column_label(resource, name) for name in names if name not in have]
    if resource.plural == "leads" and have.isdisjoint(("phone", "email")):
        missing.append(gettext("Phone or e-mail"))
    return missing


def _unknown_choices(
    resource: ImportableResource, file: ParsedFile | None
) -> Iterator[tuple[str, str, list[str], list[tuple[str, str]]]]:
    """(column, label, texts, choices) of texts that name nothing."""
    for column, texts in (unanswered(resource, file) if file else {}).items():
        choices = []
        if column in CREATED and not _is_owners(column):
            choices.append(("create", gettext("Create it")))
        choices.append(("skip", gettext("Leave it empty")))
        if resource.column(column).shows == "users":
            choices += [(f"={id}", name) for id, name in users.names().items()]
        elif column in ("pipeline", "stage"):
            kind = Pipeline if column == "pipeline" else Stage
            choices += [(f"={record.id}", record.name) for record in kind.every("TRUE ORDER BY id")]
        else:
            words = choices_of(resource, column)
            choices += [(f"={value}", label) for value, label in words.items()]
        texts = texts if len(texts) <= MAX_ASKED else ["*"]
        yield column, column_label(resource, column), texts, choices
