"""An event of each kind by a real change: in a tenant made for trying out, or written to files.

For those who write a receiver of webhooks or a reader of the feed (spec: Events, D15).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crm.config import Config
from crm.demo.history import FOLDER
from crm.embedding.resources import Resource, resources_of
from crm.outbox import events, sender
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.storage.session import current_session, transaction
from crm.wsgi import create_app

Resources = Mapping[str, Resource]

LABEL = "acme"  # of the tenant whose events are written to files
RECORDS: dict[str, dict[str, Any]] = {
    "leads": {"name": "Марія Коваль", "phone": "+380671234567", "source": "site-form"},
    "clients": {"name": "ТОВ Ромашка", "type": "company", "email": "office@romashka.example"},
    "deals": {"title": "Крісла для офісу", "amount": 12500.5},
    "products": {"name": "Крісло офісне", "price": 1250.5, "unit": "шт"},
    "tasks": {"title": "Зателефонувати", "type": "call"},
}
ITEM = {"name": "Доставка", "price": 350.5, "quantity": 2}


def _add(of: Resources, plural: str) -> str:
    return of[plural].create(**RECORDS[plural])["id"]


def _change(of: Resources, plural: str, **changes: Any) -> None:
    of[plural].update(_add(of, plural), **changes)


def _move_deal(of: Resources) -> None:
    deal = of["deals"].create(**RECORDS["deals"])
    stages = of["pipelines"].stages.list(deal["pipeline_id"]).records
    of["deals"].update(deal["id"], stage_id=stages[1]["id"])


# What happens for each kind, each time with records of its own.
CHANGES: dict[str, Callable[[Resources], Any]] = {
    events.LEAD_CREATED: lambda of: _add(of, "leads"),
    events.LEAD_CONVERTED: lambda of: of["leads"].convert(_add(of, "leads")),
    events.DEAL_CREATED: lambda of: _add(of, "deals"),
    events.DEAL_STAGE_CHANGED: _move_deal,
    events.DEAL_WON: lambda of: _change(of, "deals", status="won"),
    events.DEAL_LOST: lambda of: _change(of, "deals", status="lost", lost_reason="Дорого"),
    events.DEAL_ITEMS_CHANGED: lambda of: of["deals"].items.create(_add(of, "deals"), **ITEM),
    events.PRODUCT_CREATED: lambda of: _add(of, "products"),
    events.PRODUCT_UPDATED: lambda of: _change(of, "products", price=1300),
    events.PRODUCT_IMPORTED: lambda of: of["products"].import_csv(
        file=(FOLDER / "acme-new-prices.csv").read_bytes()
    ),
    events.CLIENT_CREATED: lambda of: _add(of, "clients"),
    events.CLIENT_UPDATED: lambda of: _change(of, "clients", phone="+380441234567"),
    events.TASK_CREATED: lambda of: _add(of, "tasks"),
    events.TASK_COMPLETED: lambda of: of["tasks"].complete(_add(of, "tasks")),
}


def make_event(kind: str, resources: Resources) -> int:
    """Make a change with an event of the kind, as the tenant's owner; return its sequence.

    Other events may come before it: the lead of `lead.converted` is created first.
    """
    current_session().user_id = users.owner_id()
    with transaction():
        CHANGES[kind](resources)
        return events.find_latest_sequence(kind)


def write_samples(folder: Path, secrets: Sequence[str], moment: float) -> list[Path]:
    """Write a delivery of each kind into a folder: `<kind>.json` is the body, byte for byte, and
    `<kind>.headers` the headers with its signature. Return the paths of the bodies.

    The events happen at `moment`, in Unix time, in a tenant that is deleted afterwards. With the
    same moment and secrets the files are the same. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with TemporaryDirectory() as data:
        app = create_app(Config(data=Path(data)), lambda: moment, sends=False)
        open_tenant(app.tenants, LABEL, owner={"name": "Олена"})
        resources = resources_of(app)
        with app.tenants.session(LABEL):
            sequences = {kind: make_event(kind, resources) for kind in events.KINDS}
            events.derive_ids()
            for kind, sequence in sequences.items():
                id, body = events.load_event_body(sequence)
                headers = sender.headers_of_delivery(secrets, id, int(moment), body)
                paths.append(folder / f"{kind}.json")
                paths[-1].write_bytes(body)
                lines = [f"{name}: {value}\n" for name, value in headers.items()]
                paths[-1].with_suffix(".headers").write_text("".join(lines), "utf-8")
        app.tenants.forget_idle()
    return paths
