"""Short explanations of the columns of an import file, in groups."""

from crm.cabinet.languages import N_, gettext, language
from crm.cabinet.spreadsheets.resource_pages import labels_of
from crm.records import fields
from crm.spreadsheets import labels
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource

# What resources without a key of their own share; these come first.
SHARED_COLUMNS = ("external_id", "id", "created_at", "extra", SOURCE_TENANT)

PART_HEADINGS = {"contact": N_("Contacts, a row for each"), "item": N_("Items, a row for each")}
UTM_COLUMNS = [f"utm_{name}" for name in ("source", "medium", "campaign", "content", "term")]
# What the columns of each resource are for; under "" what several resources, or parts, share.
# A column without a text of its own has its label.
ABOUT: dict[str, dict[str, str]] = {
    "": {
        "external_id": N_(
            "The number in your former system. A new one makes a record, a known one changes it."
        ),
        "id": N_("The number here: changes the record that has it."),
        "created_at": N_("When it came, such as 2024-03-01; only for a new record."),
        "extra": N_('Any other data, as a JSON object such as {"size": "XL"}.'),
        SOURCE_TENANT: N_("Whose numbers these are: an export has it, leave it as it is."),
        "assigned_to": N_("Who is responsible: a colleague's name, e-mail or phone."),
        "phone": N_("Phone, in any spelling."),
        "source": N_("Where it came from, such as Instagram."),
        "tags": N_("Tags with commas between."),
        "comment": N_("Comment, also of several lines."),
        "amount": N_("Amount, such as 1250.00 or 1 250,00."),
        "currency": N_("Currency, such as UAH; by default that of the company."),
        **dict.fromkeys(UTM_COLUMNS, N_("Mark of the advertisement in the link.")),
        "unit": N_("Unit, such as pcs or kg."),
        "description": N_("Description, also of several lines."),
        "lead_id": N_("The number of the lead here."),
        "lead_external_id": N_("The number of the lead in your former system."),
        "client_id": N_("The number of the client here."),
        "client_external_id": N_("The number of the client in your former system."),
        "deal_id": N_("The number of the deal here."),
        "deal_external_id": N_("The number of the deal in your former system."),
        "contact_id": N_("The number of the contact here; else the name finds it."),
        "contact_name": N_("Full name; a new contact needs it."),
        "contact_is_primary": N_("Whether this is the main contact: yes or no."),
        "item_id": N_("The number of the item here; else SKU or name finds it."),
        "item_sku": N_("SKU of the price list: name and price come from there."),
        "item_name": N_("Name; needed without a SKU."),
        "item_quantity": N_("Quantity."),
        "item_price": N_("Price of one; needed without a SKU."),
        "item_discount": N_("Discount."),
        "item_discount_type": N_("How the discount is meant."),
    },
    "products": {
        "sku": N_("SKU: the key. A new one makes a product, a known one changes it."),
        "name": N_("Name; a new product needs it."),
        "price": N_("Price, such as 1250.00 or 1 250,00; a new product needs it."),
        "active": N_("Whether it is for sale: yes or no."),
    },
    "clients": {
        "type": N_("A company or a person."),
        "name": N_("Name or full name; a new client needs it."),
    },
    "deals": {
        "title": N_("Title; by default the name of the client."),
        "client": N_("The name of the client, if no other has the same."),
        "contact_id": N_("The number of the client's contact here."),
        "contact": N_("The name of the client's contact."),
        "pipeline": N_("The name of the pipeline; by default the main one."),
        "stage": N_("The name of the stage; by default the first one."),
        "status": N_("Whether it is under way."),
        "amount": N_("Amount; with items it is their total."),
        "amount_mode": N_("Whether the amount is set by hand or the total of the items."),
        "manager": N_("The same as the responsible: one of the two is enough."),
        "expected_close_date": N_("When it should be closed, such as 2024-04-15."),
        "stage_changed_at": N_("When it came to its stage; only for a new record."),
        "closed_at": N_("When it was won or lost, such as 2024-04-15."),
    },
    "leads": {
        "name": N_("Full name; a new lead needs it."),
        "phone": N_("Phone, in any spelling; a new lead needs it or an e-mail."),
        "email": N_("E-mail; a new lead needs it or a phone."),
        "status": N_("Status; converted only together with a deal."),
        "page_url": N_("The page of the site with the form."),
        "referrer": N_("The page from where they came."),
        "converted_at": N_("When it became a deal; only for a new record."),
    },
    "tasks": {
        "title": N_("Title; required for a new task."),
        "type": N_("What kind of task."),
        "priority": N_("How urgent it is."),
        "due_at": N_("By when, such as 2024-03-01 or 2024-03-01T14:00:00+02:00."),
        "completed_at": N_("When it was done; only for a new record."),
    },
}

Group = tuple[str, list[tuple[str, str, str]]]


def column_groups(resource: ImportableResource) -> list[Group]:
    """Return [(heading, [(name, header, explanation)])] of all columns of a resource.

    A column is found by both its name and its header, which is what people call it.
    """
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
        (heading, [_describe(resource, columns[name]) for name in names])
        for heading, names in groups
        if names
    ]


def _describe(resource: ImportableResource, column: FileColumn) -> tuple[str, str, str]:
    """The name and the header of a column, and what it is for, with its words if they are few."""
    own, shared = ABOUT[resource.plural], ABOUT[""]
    text = own.get(column.name) or shared.get(column.name)
    if not text and resource.part:
        text = shared.get(column.name.removeprefix(f"{resource.part}_"))
    about = gettext(text) if text else f"{gettext(column.label)}." if column.label else ""
    if isinstance(column.field, fields.Choice):
        name = column.name.removeprefix(f"{resource.singular}_")
        words = [
            labels.choice(resource.singular, name, word, language())
            for word in column.field.choices
        ]
        one_of = gettext("One of: %(words)s.", words=", ".join(words))
        about = f"{about} {one_of}".strip()
    return column.name, labels.header(column.name, column.label, language()), about
