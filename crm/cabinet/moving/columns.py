"""What the columns of files mean, for who makes one: a few words for each, in groups."""

from crm.cabinet.languages import gettext
from crm.cabinet.moving import nouns
from crm.records import fields
from crm.resources import moving
from crm.resources.deals.items import DISCOUNT_TYPES
from crm.resources.moving import PRODUCTS

# What every noun but products has beside its own: the keys first.
SHARED = ("external_id", "id", "created_at", "extra", "ids_of")

Group = tuple[str, list[tuple[str, str]]]


def groups(noun: str) -> list[Group]:
    """[(heading, [(column, what stands there)])] of all columns of a noun."""
    names = nouns.columns(noun)
    if noun == PRODUCTS:
        about = _of_products()
        return [("", [(name, about[name]) for name in names])]
    part = moving.MOVING[noun].part
    parts = {each.name for each in moving.MOVING[noun].part_columns}
    own_words = {
        "clients": _of_clients,
        "deals": _of_deals,
        "leads": _of_leads,
        "tasks": _of_tasks,
    }[noun]
    about = _of_all() | _of_parts() | own_words()
    own = [name for name in names if name not in parts and name not in SHARED]
    found = [
        (gettext("Keys, and what every record has"), SHARED),
        (nouns.words(noun).list, own),
    ]
    if part:
        heading = {
            "contact": gettext("Contacts, a row for each"),
            "item": gettext("Items, a row for each"),
        }[part]
        found.append((heading, [name for name in names if name in parts]))
    return [
        (heading, [(name, f"{about[name]} {_choices(noun, name)}".strip()) for name in chosen])
        for heading, chosen in found
    ]


def _choices(noun: str, name: str) -> str:
    """The words that there may be, of a column with few."""
    field = moving.MOVING[noun].body.fields.get(name)
    words = field.choices if isinstance(field, fields.Choice) else ()
    if name == "item_discount_type":
        words = DISCOUNT_TYPES
    return gettext("One of: %(words)s.", words=", ".join(words)) if words else ""


def _of_products() -> dict[str, str]:
    return {
        "sku": gettext("SKU: the key. A new one makes a product, a known one changes it."),
        "name": gettext("Name; a new product needs it."),
        "price": gettext("Price, such as 1250.00 or 1 250,00; a new product needs it."),
        "unit": gettext("Unit, such as pcs or kg."),
        "category": gettext("Category."),
        "description": gettext("Description, also of several lines."),
        "active": gettext("Whether it is for sale: yes or no."),
    }


def _of_all() -> dict[str, str]:
    link = gettext("Mark of the advertisement in the link.")
    return {
        "external_id": gettext(
            "The number in your former system. A new one makes a record, a known one changes it."
        ),
        "id": gettext("The number here: changes the record that has it."),
        "created_at": gettext("When it came, such as 2024-03-01; only for a new record."),
        "extra": gettext('Any other data, as a JSON object such as {"size": "XL"}.'),
        "ids_of": gettext("Whose numbers these are: an export has it, leave it as it is."),
        "assigned_to": gettext("Who is responsible: a colleague's name, e-mail or phone."),
        "phone": gettext("Phone, in any spelling."),
        "email": gettext("E-mail."),
        "source": gettext("Where it came from, such as Instagram."),
        "tags": gettext("Tags with commas between."),
        "comment": gettext("Comment, also of several lines."),
        "amount": gettext("Amount, such as 1250.00 or 1 250,00."),
        "currency": gettext("Currency, such as UAH; by default that of the company."),
        "lost_reason": gettext("Lost reason."),
        **{f"utm_{each}": link for each in ("source", "medium", "campaign", "content", "term")},
        "lead_id": gettext("The number of the lead here."),
        "lead_external_id": gettext("The external_id of the lead."),
        "client_id": gettext("The number of the client here."),
        "client_external_id": gettext("The external_id of the client."),
        "deal_id": gettext("The number of the deal here."),
        "deal_external_id": gettext("The external_id of the deal."),
    }


def _of_parts() -> dict[str, str]:
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


def _of_clients() -> dict[str, str]:
    return {
        "type": gettext("A company or a person."),
        "name": gettext("Name or full name; a new client needs it."),
        "website": gettext("Website."),
        "address": gettext("Address."),
        "tax_number": gettext("Tax number."),
    }


def _of_deals() -> dict[str, str]:
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


def _of_leads() -> dict[str, str]:
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


def _of_tasks() -> dict[str, str]:
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
