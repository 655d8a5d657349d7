"""Short explanations of the columns of an import file, in groups."""

from crm.cabinet import labels
from crm.cabinet.languages import N_, TEXTS, gettext
from crm.cabinet.spreadsheets.resource_pages import column_label, labels_of
from crm.records import fields
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource

# What resources without a key of their own share; these come first.
SHARED_COLUMNS = ("external_id", "id", "created_at", "extra", SOURCE_TENANT)

PART_HEADINGS = {"contact": N_("Contacts, a row for each"), "item": N_("Items, a row for each")}

Group = tuple[str, list[tuple[str, str, str]]]


def column_groups(resource: ImportableResource) -> list[Group]:
    """Return [(heading, [(column, its label, explanation)])] of all columns of a resource."""
    columns = {column.name: column for column in resource.all_columns}
    shared = [name for name in SHARED_COLUMNS if name in columns]
    parts = [column.name for column in resource.part_columns]
    own_columns = [name for name in columns if name not in shared and name not in parts]
    groups = [
        (gettext("Keys, and what every record has"), shared),
        (labels_of(resource.plural).list if shared else "", own_columns),
        (gettext(PART_HEADINGS[resource.part]) if parts else "", parts),
    ]
    return [
        (
            heading,
            [
                (name, column_label(resource, name), _describe(resource, columns[name]))
                for name in names
            ],
        )
        for heading, names in groups
        if names
    ]


def _describe(resource: ImportableResource, column: FileColumn) -> str:
    """Explain a column, with its allowed words if they are few."""
    own, shared = TEXTS["column_help"][resource.plural], TEXTS["column_help"]["all"]
    name = "utm" if column.name.startswith("utm_") else column.name
    text = own.get(name) or shared.get(name)
    if not text and resource.part:
        text = shared.get(name.removeprefix(f"{resource.part}_"))
    about = gettext(text) if text else f"{gettext(column.label)}." if column.label else ""
    if isinstance(column.field, fields.Choice):
        words = [
            labels.choice_label(resource.singular, column.name, value)
            for value in column.field.choices
        ]
        choices = gettext("One of: %(words)s.", words=", ".join(words))
        return f"{about} {choices}".strip()
    return about
