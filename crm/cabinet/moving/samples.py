"""A small file of each noun that an import takes: the header, and one row to put one's own for.

Imported in the order in which the nouns move in, the samples name each other.
"""

from crm import sheets
from crm.cabinet.languages import gettext
from crm.cabinet.moving import nouns
from crm.cabinet.rendering import me
from crm.resources.moving.references import References
from crm.resources.pipelines.record import Pipeline
from crm.tenancy.database import now, time_before
from crm.tenancy.sweeps import DAY_SECONDS


def sample(noun: str) -> bytes:
    """A file for a spreadsheet with the columns that people fill in by hand."""
    cells = {
        "products": _product,
        "clients": _client,
        "deals": _deal,
        "leads": _lead,
        "tasks": _task,
    }[noun]()
    header = [name for name in nouns.columns(noun) if name in cells]
    row = [cells[name] for name in header]
    return sheets.write(header, [row], excel=True, text_columns=nouns.text_columns(noun))


def _product() -> dict[str, str]:
    return {
        "sku": "T-1",
        "name": gettext("Oak table"),
        "price": "12500,00",
        "unit": gettext("pcs"),
        "category": gettext("Tables"),
        "description": "",
        "active": gettext("yes"),
    }


def _client() -> dict[str, str]:
    return {
        **_shared("C-1"),
        "type": "company",
        "name": gettext("Romashka Ltd"),
        "phone": "044 123 45 67",
        "email": "office@example.com",
        "website": "",
        "address": gettext("Kyiv, Sadova street 5"),
        "tax_number": "",
        "contact_name": gettext("Maria Koval"),
        "contact_position": gettext("director"),
        "contact_phone": "067 123 45 67",
        "contact_email": "maria@example.com",
        "contact_is_primary": gettext("yes"),
        "contact_comment": "",
    }


def _deal() -> dict[str, str]:
    pipeline = Pipeline.default()
    here = References()
    return {
        **_shared("D-1"),
        "title": gettext("Furniture for the office"),
        "client": gettext("Romashka Ltd"),
        "contact": gettext("Maria Koval"),
        "pipeline": here.text_of_pipeline(pipeline.id),
        "stage": here.text_of_stage(pipeline.list_stages()[0].id),
        "status": "open",
        "amount": "",
        "expected_close_date": "",
        "lost_reason": "",
        "closed_at": "",
        "item_sku": "",
        "item_name": gettext("Oak table"),
        "item_unit": gettext("pcs"),
        "item_quantity": "2",
        "item_price": "12500,00",
        "item_discount": "5",
        "item_discount_type": "percent",
        "item_comment": "",
    }


def _lead() -> dict[str, str]:
    return {
        **_shared("L-1"),
        "name": gettext("Maria Koval"),
        "phone": "067 123 45 67",
        "email": "maria@example.com",
        "company": "",
        "position": "",
        "status": "new",
        "amount": "12500,00",
        "lost_reason": "",
    }


def _task() -> dict[str, str]:
    found = {
        **_shared("T-1"),
        "title": gettext("Call Maria back"),
        "type": "call",
        "status": "open",
        "priority": "normal",
        "due_at": time_before(-DAY_SECONDS)[:10],
        "client_external_id": "C-1",
        "deal_external_id": "",
        "description": "",
        "result": "",
    }
    return {name: cell for name, cell in found.items() if name not in ("source", "tags", "comment")}


def _shared(external_id: str) -> dict[str, str]:
    """What most have. The responsible one is who asks: a file names people as an export does."""
    return {
        "external_id": external_id,
        "assigned_to": References().text_of_user(me().user_id),
        "source": "",
        "tags": "",
        "comment": "",
        "created_at": now()[:10],
    }
