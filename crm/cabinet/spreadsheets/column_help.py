"""Short explanations of the columns of an import file, in groups."""

from crm.cabinet.languages import gettext
from crm.cabinet.spreadsheets.labels import labels_of
from crm.records import fields
from crm.spreadsheets.csv_columns import Column
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource

# What resources without a key of their own share; these come first.
SHARED_COLUMNS = ("external_id", "id", "created_at", "extra", SOURCE_TENANT)

Group = tuple[str, list[tuple[str, str]]]


def column_groups(resource: ImportableResource) -> list[Group]:
    """Return [(heading, [(column, explanation)])] of all columns of a resource."""
    columns = {column.name: column for column in resource.all_columns}
    shared = [name for name in SHARED_COLUMNS if name in columns]
    parts = [column.name for column in resource.part_columns]
    own_columns = [name for name in columns if name not in shared and name not in parts]
    groups = [
        (gettext("Keys, and what every record has"), shared),
        (labels_of(resource.plural).list if shared else "", own_columns),
        (_part_heading(resource.part), parts),
    ]
    about = _about_shared() | _about_parts() | _about_own(resource.plural)
    return [
        (heading, [(name, _describe(columns[name], about.get(name, ""))) for name in names])
        for heading, names in groups
        if names
    ]


def _part_heading(part: str) -> str:
    headings = {
        "contact": gettext("Contacts, a row for each"),
        "item": gettext("Items, a row for each"),
    }
    return headings.get(part, "")


def _describe(column: Column, about: str) -> str:
    """Explain a column, with its allowed words if they are few."""
    if not about and column.label:
        about = gettext(column.label)
    if isinstance(column.field, fields.Choice):
        choices = gettext("One of: %(words)s.", words=", ".join(column.field.choices))
        return f"{about} {choices}".strip()
    return about


def _about_own(plural: str) -> dict[str, str]:
    about = {
        "products": _about_products,
        "clients": _about_clients,
        "deals": _about_deals,
        "leads": _about_leads,
        "tasks": _about_tasks,
    }
    return about[plural]()


def _about_products() -> dict[str, str]:
    return {
        "sku": gettext("SKU: the key. A new one makes a product, a known one changes it."),
        "name": gettext("Name; a new product needs it."),
        "price": gettext("Price, such as 1250.00 or 1 250,00; a new product needs it."),
        "unit": gettext("Unit, such as pcs or kg."),
        "category": gettext("Category."),
        "description": gettext("Description, also of several lines."),
        "active": gettext("Whether it is for sale: yes or no."),
    }


def _about_shared() -> dict[str, str]:
    link = gettext("Mark of the advertisement in the link.")
    return {
        "external_id": gettext(
            "The number in your former system. A new one makes a record, a known one changes it."
        ),
        "id": gettext("The number here: changes the record that has it."),
        "created_at": gettext("When it came, such as 2024-03-01; only for a new record."),
        "extra": gettext('Any other data, as a JSON object such as {"size": "XL"}.'),
        SOURCE_TENANT: gettext("Whose numbers these are: an export has it, leave it as it is."),
        "assigned_to": gettext("Who is responsible: a colleague's name, e-mail or phone."),
        "phone": gettext("Phone, in any spelling."),
        "email": gettext("E-mail."),
        "source": gettext("Where it came from, such as Instagram."),
        "tags": gettext("Tags with commas between."),
        "comment": gettext("Comment, also of several lines."),
        "amount": gettext("Amount, such as 1250.00 or 1 250,00."),
        "currency": gettext("Currency, such as UAH; by default that of the company."),
        "lost_reason": gettext("Lost reason."),
        **{f"utm_{name}": link for name in ("source", "medium", "campaign", "content", "term")},
        "lead_id": gettext("The number of the lead here."),
        "lead_external_id": gettext("The external_id of the lead."),
        "client_id": gettext("The number of the client here."),
        "client_external_id": gettext("The external_id of the client."),
        "deal_id": gettext("The number of the deal here."),
        "deal_external_id": gettext("The external_id of the deal."),
    }


def _about_parts() -> dict[str, str]:
    return {
        "contact_id": gettext("The number of the contact here; else the name finds it."),
        "contact_name": gettext("Full name; a new contact needs it."),
        "contact_position": gettext("Position."),
        "contact_phone": gettext("Phone, in any spelling."),
        "contact_email": gettext("E-mail."),
        "contact_is_primary": gettext("Whether this is the main contact: yes or no."),
        "contact_comment": gettext("Comment, also of several lines."),
        "item_id": gettext("The number of the item here; else SKU or name finds it."),
        "item_sku": gettext("SKU of the price list: name and price come from there."),
        "item_name": gettext("Name; needed without a SKU."),
        "item_unit": gettext("Unit, such as pcs or kg."),
        "item_quantity": gettext("Quantity."),
        "item_price": gettext("Price of one; needed without a SKU."),
        "item_discount": gettext("Discount."),
        "item_discount_type": gettext("How the discount is meant."),
        "item_comment": gettext("Comment, also of several lines."),
    }


def _about_clients() -> dict[str, str]:
    return {
        "type": gettext("A company or a person."),
        "name": gettext("Name or full name; a new client needs it."),
        "website": gettext("Website."),
        "address": gettext("Address."),
        "tax_number": gettext("Tax number."),
    }


def _about_deals() -> dict[str, str]:
    return {
        "title": gettext("Title; by default the name of the client."),
        "client": gettext("The name of the client, if no other has the same."),
        "contact_id": gettext("The number of the client's contact here."),
        "contact": gettext("The name of the client's contact."),
        "pipeline": gettext("The name of the pipeline; by default the main one."),
        "stage": gettext("The name of the stage; by default the first one."),
        "status": gettext("Whether it is under way."),
        "amount": gettext("Amount; with items it is their total."),
        "amount_mode": gettext("Whether the amount is set by hand or the total of the items."),
        "manager": gettext("The same as assigned_to: one of the two is enough."),
        "expected_close_date": gettext("When it should be closed, such as 2024-04-15."),
        "stage_changed_at": gettext("When it came to its stage; only for a new record."),
        "closed_at": gettext("When it was won or lost, such as 2024-04-15."),
    }


def _about_leads() -> dict[str, str]:
    return {
        "name": gettext("Full name; a new lead needs it."),
        "phone": gettext("Phone, in any spelling; a new lead needs it or an e-mail."),
        "email": gettext("E-mail; a new lead needs it or a phone."),
        "company": gettext("Company."),
        "position": gettext("Position."),
        "status": gettext("Status; converted only together with a deal."),
        "page_url": gettext("The page of the site with the form."),
        "referrer": gettext("The page from where they came."),
        "converted_at": gettext("When it became a deal; only for a new record."),
    }


def _about_tasks() -> dict[str, str]:
    return {
        "title": gettext("Title; required for a new task."),
        "type": gettext("What kind of task."),
        "status": gettext("Status."),
        "priority": gettext("How urgent it is."),
        "due_at": gettext("By when, such as 2024-03-01 or 2024-03-01T14:00:00+02:00."),
        "description": gettext("Description, also of several lines."),
        "result": gettext("Result."),
        "completed_at": gettext("When it was done; only for a new record."),
    }
