"""A tenant with data of every kind that its file can hold.

`fill_tenant()` creates it through the API and the rules that people use, with a clock that it moves
and a random source with a fixed seed. `missing_values()` compares it with the schema: a migration
that adds a table, a column or a status adds to `fill_tenant()` too.
"""

import random
import re
import secrets
import sqlite3
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from unittest.mock import patch

from crm import CRMApp
from crm.access import api_keys, calendar_tokens, codes, links, oauth_grants, rights, sessions
from crm.alerts import alerts, kinds, telegram_chats
from crm.api.openapi import example
from crm.errors import StorageQuota
from crm.outbox import deliveries, events
from crm.outbox.call import Outcome
from crm.records import background, batches
from crm.records.custom import fields as custom_fields
from crm.resources import (
    AUDITED_VIEWS,
    BLUEPRINTS,
    logo,
    notes,
    proposals,
    tasks,
    tenant,
    users,
)
from crm.resources.clients import record as clients
from crm.resources.deals import record as deals
from crm.resources.files import record as files
from crm.resources.leads import record as leads
from crm.resources.papers import company
from crm.resources.papers import links as paper_links
from crm.resources.papers import record as papers
from crm.resources.products.csv_columns import PRODUCTS
from crm.spreadsheets import find_resource, import_file, import_run, read_file, saved_mappings
from crm.spreadsheets.options import ImportOptions
from crm.storage.session import current_session, execute, insert, now, transaction
from tests.company_papers import REQUISITES, pdf_without_typst
from tests.conftest import Clock
from tests.passwords import set_password
from tests.pictures import png

LABEL = "acme"
START = 1_767_171_600.0  # 2025-12-31T09:00:00Z
DAY = 86_400
LINE = "Довгий текст про меблі, ґанок, їжака й подвір'я.\n"
LONG, VERY_LONG = LINE * 6, LINE * 100  # the second one fills pages of the file
# A tenant has one row, so each of its columns is either set or not; one that is suspended would
# answer nothing.
ONE_ROW = {"tenant"}
# A tenant's archive has complete contents, which are in use.
OF_LIVING_TENANTS = {
    "file_content.sha256: a row where it is NULL",
    "file_content.unused_since: a row where it is NOT NULL",
}


class Caller:
    """A key and the tenant's host, without a network between."""

    def __init__(self, app: CRMApp, key: str, label: str = LABEL):
        self.client = app.test_client()
        self.sent = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, json: Any = None, **options: Any) -> Any:
        headers = self.sent | {"X-Request-Id": "frozen"} | options.pop("headers", {})
        path = f"/api/v1{path}"
        return self.client.open(path, method=method, headers=headers, json=json, **options)

    def do(self, method: str, path: str, json: Any = None, **options: Any) -> Any:
        """A call that must succeed; its body."""
        answer = self.ask(method, path, json, **options)
        assert 200 <= answer.status_code < 300, (method, path, answer.text)
        return answer.json

    def add(self, path: str, **fields: Any) -> str:
        """A POST that must succeed; the new id."""
        made = self.do("POST", path, fields)
        return next(value for name, value in made.items() if name.endswith("_id"))

    def add_file(self, path: str, name: str, data: bytes) -> str:
        """Add a file to the record of a path; its id."""
        sent = {"file": (BytesIO(data), name)}
        return self.do("POST", f"{path}/files", data=sent)["file_id"]


@contextmanager
def seeded_random() -> Iterator[None]:
    """Make secrets and random numbers the same in each run."""
    chance = random.Random(20260201)

    def text(count: int = 32) -> str:
        return "".join(chance.choices(string.ascii_letters, k=count))

    with (
        patch.object(secrets, "token_hex", lambda count=32: chance.randbytes(count).hex()),
        patch.object(secrets, "token_bytes", lambda count=32: chance.randbytes(count)),
        patch.object(secrets, "token_urlsafe", text),
        patch.object(secrets, "choice", chance.choice),
        patch.object(secrets, "randbelow", chance.randrange),
        patch.object(random, "random", chance.random),
    ):
        yield


def fill_tenant(app: CRMApp, clock: Clock) -> str:
    """Make the tenant; gives the key of its owner that may read everything. Ends with no visit."""
    key = _people(app)
    caller = Caller(app, key)
    with app.tenants.session(LABEL):
        taras = Caller(app, api_keys.create("ERP Тараса", "*", 2)[1])
    _pipelines(caller)
    _webhooks(caller)
    _products(app, caller, clock)
    _clients(caller)
    _leads(app, caller, taras, clock)
    _deals(app, caller, clock)
    _tasks(caller, clock)
    _notes(app, caller, taras)
    _files(app, caller)
    with pdf_without_typst():
        _papers(app, caller)
    _custom_fields(caller)
    _imports(caller)
    _new_columns(caller)
    _batches(app, caller)
    _proposals(app, caller)
    _views(caller)
    _logo(app)
    _hooks(caller)
    _deliveries(app, caller, clock)
    _alerts(app)
    _of_nobody(app)
    caller.add("/export-links", resource="deals", filters={"status": "won"})
    _last_day(app, caller, clock)
    with app.tenants.session(LABEL), transaction():  # as by a process that has ended
        execute("UPDATE custom_field SET pending_from = 0 WHERE key = 'text'")
        custom_fields.note_change()
    return key


def _new_columns(caller: Caller) -> None:
    """Give a value, its declared example, to each field that no record above has one of."""
    for blueprint in BLUEPRINTS:
        name = blueprint.name
        if name not in AUDITED_VIEWS:
            continue
        records = caller.do("GET", f"/{name}?limit=200&sort=id")["data"]
        examples = example(blueprint.operations[f"change_{AUDITED_VIEWS[name].noun}"].body)
        empty = [n for n in examples if all(record.get(n, "") in (None, {}) for record in records)]
        if empty:
            values = {name: examples[name] for name in empty}
            caller.do("PATCH", f"/{name}/{records[0]['id']}", values)


def _people(app: CRMApp) -> str:
    tenant.open_tenant(
        app.tenants,
        LABEL,
        name="Меблі «Затишок» і Ко",
        plan="business",
        owner={"name": "Олена Коваль", "email": "olena@acme.example", "phone": "+380501110001"},
    )
    with app.tenants.session(LABEL):
        for person in (
            {"name": "Тарас", "role": "manager", "phone": "+380501110002"},
            {"name": "Zoë", "role": "viewer", "email": "zoe@acme.example"},
            {"name": "Колишній", "role": "manager", "email": "former@acme.example"},
            {"name": "Друга власниця", "role": "owner"},
        ):
            users.create(person)
        for id, data in {1: {"language": "uk"}, 2: {"language": "en"}, 4: {"active": 0}}.items():
            with transaction():
                users.update(id, data)
        users.find_or_create_for_site("7", {"name": "Гнат із сайту", "role": "viewer"})
        users.create({"name": "Продавчиня", "role": "seller", "email": "seller@acme.example"})
        calendar_tokens.create(1)
        set_password(1, "зелений-стіл-2026")
        key = api_keys.create("усе", "*", 1)[1]
        reads = ",".join(f"{noun}:read" for noun in rights.RESOURCES)
        api_keys.create("reader", reads, 1)
        shop = {"origins": "https://shop.example.ua", "source": "site-form-2"}
        shop["form_fields"] = '["custom.choice"]'
        api_keys.create("site form", "leads:create", 1, **shop)
        api_keys.create("own server's form", "leads:create", 1)
        api_keys.create("асистент", "leads:read", 1, preset=rights.ASSISTANT)
        oauth_grants.create_grant("асистент у браузері", 1, "client", "https://x.example/", "!")
        api_keys.create("expired", "leads:read", 1, expires_at="2026-02-01T10:00:00Z")
        api_keys.find(api_keys.create("revoked", "deals:read,deals:write", 2)[0]).revoke()
        api_keys.create("own records", "*", 2, own=True)
    return key


def _pipelines(caller: Caller) -> None:
    stages = [
        {"name": "Замір", "type": "open", "probability": 10, "color": "#aabbcc"},
        {
            "name": "Угода",
            "type": "open",
            "task_title": "Дзвінок",
            "task_type": "call",
            "task_within_days": 3,
        },
        {
            "name": "Є",
            "type": "won",
            "probability": 100,
            "task_title": "Лист",
            "task_type": "email",
        },
        {"name": "Нема", "type": "lost", "color": "#112233", "task_type": "meeting"},
    ]
    second = caller.add("/pipelines", name="Ремонт", stages=stages)
    caller.do("PATCH", f"/pipelines/{second}", {"position": 1, "lost_reasons": ["Задорого"]})
    caller.add(f"/pipelines/{second}/stages", name="Зайва", type="open")


def _webhooks(caller: Caller) -> None:
    every = list(events.KINDS)
    caller.add("/webhooks", url="https://erp.example.com/crm", events=every, description="ERP")
    caller.add("/webhooks", url="https://down.example.com/", events=["lead.created"])
    caller.add("/webhooks", url="https://gone.example.com/", events=["client.created"])
    caller.add("/webhooks", url="https://off.example.com/", events=["task.created"])
    caller.add("/webhooks", url="https://paused.down.example.com/", events=["lead.created"])


PRICES = """\
sku;name;price;unit;category;description;active
T-1;Стіл дубовий;12 500,00;шт;Столи;Масив, 120×80;так
T-2;Стілець "Віденський";1800,5;шт;Стільці;;так
T-3;Полиця;без ціни;шт;Полиці;;так
T-1;Стіл ще раз;1;шт;;;так
T-4;Тумба;0,0001;м²;;Знята з виробництва;ні
""".encode()


def _products(app: CRMApp, caller: Caller, clock: Clock) -> None:
    old = {"file": (BytesIO(b"sku,name,price\nOLD-1,,\n"), "old.csv")}
    caller.do("POST", "/products/import", data=old)
    _send(app, lambda sent: Outcome(7, 202, None, ""))
    clock.tick(32 * DAY)  # its rejected rows are let go by the next import
    caller.add("/products", name="Доставка", price=0)
    caller.add("/products", sku="DEL", name="Монтаж", price="350.25", currency="EUR", active=False)
    full = {"external_id": "1C-77", "extra": {"вага": 12.5, "кольори": ["дуб", None, True]}}
    caller.add("/products", sku="L-1", name="Лампа", price=99.99, description=LONG, **full)
    caller.add("/products", sku="GONE", name="Ніколи не проданий", price=1)
    caller.do("DELETE", "/products/4")
    sent = {"file": (BytesIO(PRICES), "ціни.csv")}
    caller.do("POST", "/products/import", data=sent)
    clock.tick(60)
    with app.tenants.session(LABEL):
        import_file(read_file("sku,price\nT-2,1900\n".encode("utf-16"), PRODUCTS))
    caller.do("PATCH", "/products/1", {"name": "Доставка містом", "category": "Послуги"})


def _clients(caller: Caller) -> None:
    contacts = [
        {"name": "Ганна", "position": "бухгалтерка", "phone": "0671110001", "comment": LONG},
        {"name": "Богдан", "email": "bohdan@romashka.example", "is_primary": True},
    ]
    caller.add(
        "/clients",
        **{
            "type": "company",
            "name": "ТОВ Ромашка",
            "phone": "+380441110001",
            "contacts": contacts,
        },
        **{"email": "office@romashka.example", "website": "https://romashka.example"},
        **{"address": "Київ, вул. Ґонти, 1", "tax_number": "12345678", "tags": ["VIP", "опт"]},
        **{"assigned_to": "2", "source": "виставка", "comment": LONG, "external_id": "К-1"},
        extra={"рахунок": "UA00"},
    )
    caller.add("/clients", name="Марія")
    caller.add("/clients", name="Видалений клієнт", phone="0671110003", tags=["опт"])
    caller.add("/clients", name="Чорновик")
    caller.do("PATCH", "/clients/2", {"phone": "0671110002", "tags": ["опт", "Їжак"]})
    caller.do("DELETE", "/clients/3")


def _leads(app: CRMApp, caller: Caller, taras: Caller, clock: Clock) -> None:
    caller.add(
        "/leads",
        **{"name": "Їжакевич Ґалина", "phone": "067 123 45 67", "email": "Galyna@Example.com"},
        **{"company": "ФОП", "position": "директорка", "source": "site-form", "assigned_to": "2"},
        **{"comment": LONG, "amount": "12500.50", "currency": "USD", "tags": ["терміново", "дуб"]},
        **{f"utm_{part}": part for part in ("source", "medium", "campaign", "content", "term")},
        **{"page_url": "https://example.com/столи", "referrer": "https://example.com/"},
        **{"external_id": "L-1", "extra": {"колір": {"дуб": [1, 2.5, None]}}, "невідоме": "поле"},
    )
    for number, status in enumerate(("in_progress", "qualified", "unqualified"), 2):
        clock.tick(3600)
        caller.add("/leads", name=f"Лід {number}", email=f"lead{number}@example.com")
        caller.do("PATCH", f"/leads/{number}", {"status": status})
    caller.do("PATCH", "/leads/4", {"lost_reason": "задорого", "source": None})
    with app.tenants.session(LABEL):  # by nobody in particular
        leads.create(leads.LEAD_IN.parse({"name": "Без автора", "phone": "0501234567"}))
        with transaction():
            leads.Lead.find(5).update_fields({"comment": "змінено без автора"})
    taras.add("/leads", name="Олег Синиця", phone="+380931112233", company="ПП Синиця")
    taras.do("POST", "/leads/6/convert", {"title": "Кухня", "amount": 55000})
    caller.add("/leads", name="Марія", phone="0671110002")
    caller.do("PATCH", "/leads/7", {"status": "converted"})
    caller.add("/leads", name="Третя дорога", email="third@example.com")
    caller.add("/leads", name="Видалений", phone="0991112233", comment="зникне")
    caller.do("DELETE", "/leads/9")
    caller.do("POST", "/deals", {"lead_id": "8", "stage_id": "2"})
    moved = {"created_at": "2025-06-01T10:00:00+03:00"}
    caller.add("/leads", name="З минулого", phone="0991112234", **moved)


def _deals(app: CRMApp, caller: Caller, clock: Clock) -> None:
    full = {"expected_close_date": "2026-03-31", "tags": ["опт"], "comment": LONG, "source": "сайт"}
    full |= {"external_id": "Д-4", "extra": {"договір": "№ 7"}, "manager": "2"}
    caller.add("/deals", title="Офіс", client_id="1", contact_id="2", amount=1000, **full)
    lines = [
        {"product_id": "5", "quantity": "2.5", "discount": 10, "comment": "з доставкою"},
        {"name": "Робота", "price": "99.9999", "discount": 5, "discount_type": "amount"},
        {"sku": "T-2", "quantity": 4},
    ]
    caller.do("POST", "/deals/4/items", {"items": lines})
    caller.do("PATCH", "/deals/4/items/2", {"quantity": 3})
    caller.do("DELETE", "/deals/4/items/3")
    caller.do("DELETE", "/products/5")  # used, so its row stays
    clock.tick(DAY)
    caller.do("PATCH", "/deals/4", {"stage_id": "3"})
    caller.do("PATCH", "/deals/4", {"stage_id": "5"})
    caller.add("/deals", title="Нічия", pipeline_id="2")
    (extra,) = [s for s in caller.do("GET", "/pipelines/2/stages")["data"] if s["name"] == "Зайва"]
    caller.do("PATCH", "/deals/5", {"stage_id": extra["id"]})
    first = caller.do("GET", "/pipelines/2/stages")["data"][0]["id"]
    caller.do("DELETE", f"/pipelines/2/stages/{extra['id']}?move_to={first}")
    caller.do("PATCH", "/deals/5", {"status": "lost", "lost_reason": "передумали"})
    caller.add("/deals", title="Видалена", client_id="2")
    caller.do("DELETE", "/deals/6")
    with app.tenants.session(LABEL):
        deals.create(deals.DEAL_IN.parse({"title": "Без автора", "client_id": "2"}))
    past = {"created_at": "2024-01-10T08:00:00Z", "closed_at": "2024-02-10T08:00:00Z"}
    caller.add("/deals", title="Давня", client_id="1", status="won", amount="0.01", **past)


def _tasks(caller: Caller, clock: Clock) -> None:
    full = {"description": LONG, "external_id": "З-1", "extra": {"зала": 3}, "assigned_to": "2"}
    links_ = {"lead_id": "1", "client_id": "1", "deal_id": "4"}
    due = "2026-02-01T09:00:00Z"
    caller.add(
        "/tasks", title="Зустріч", type="meeting", priority="high", due_at=due, **full, **links_
    )
    caller.add("/tasks", title="Подзвонити", type="call", priority="low", assigned_to=None)
    caller.add(
        "/tasks",
        title="Лист",
        type="email",
        due_at="2026-12-31T23:59:59+02:00",
        repeat="FREQ=WEEKLY",
    )
    for title in ("Без виду", "Скасоване", "Видалене"):
        caller.add("/tasks", title=title)
    clock.tick(600)
    caller.do("PATCH", "/tasks/2", {"status": "in_progress", "description": VERY_LONG})
    caller.do("POST", "/tasks/3/complete", {"result": "Надіслано"})
    caller.do("PATCH", "/tasks/5", {"status": "cancelled"})
    caller.do("DELETE", "/tasks/6")


def _notes(app: CRMApp, caller: Caller, taras: Caller) -> None:
    for path in ("/leads/1", "/clients/1", "/deals/4"):
        caller.add(f"{path}/notes", text=f"Примітка Олени\n{VERY_LONG}")
        note = taras.add(f"{path}/notes", text="Примітка Тараса")
        caller.do("PATCH", f"{path}/notes/{note}", {"text": "Інша примітка", "pinned": True})
    gone = caller.add("/leads/2/notes", text="Зникне")
    caller.do("DELETE", f"/leads/2/notes/{gone}")
    with app.tenants.session(LABEL) as session:
        notes.create("deal", 4, {"text": "Без автора"})
        sessions.open(2, "Firefox")  # as the cabinet writes: a user, and no key
        session.user_id = 2
        with transaction():
            leads.Lead.find(2).update_fields({"comment": "змінено в кабінеті"})
            session.tool = "update"
            leads.Lead.find(2).update_fields({"comment": "змінено асистентом"})


IMPORTED_FILES = {
    "clients": 'external_id,name,contact_name,contact_phone\nM-1,ФОП Мельник,Іван,0671110077\n,,,"',
    "deals": "external_id;client;item_name;item_price\nM-1;ФОП Мельник;Шафа;8 000,5\nM-2;Нікого;;",
    "leads": "external_id,name,phone\nM-1,З таблиці,0671110078\nM-2,Без телефону,\n",
    "tasks": "external_id\ttitle\tdeal_external_id\nM-1\tЗаміряти\tM-1\nM-2\t\t\n",
}


def _files(app: CRMApp, caller: Caller) -> None:
    """One of each kind of record, the picture of a product, a deleted one, and one by nobody."""
    for plural, id in (("leads", 1), ("clients", 1), ("deals", 4), ("products", 1), ("tasks", 1)):
        caller.add_file(f"/{plural}/{id}", f"Ескіз {plural}.txt", VERY_LONG.encode() * 40)
    caller.add_file("/products/1", "Фото.png", png(64))
    gone = caller.add_file("/leads/2", "Зникне.txt", b"1")
    caller.do("DELETE", f"/leads/2/files/{gone}")
    with app.tenants.session(LABEL):
        files.add("deal", 4, BytesIO(b"1"), "Без автора.txt")


def _papers(app: CRMApp, caller: Caller) -> None:
    """One of each kind: paid, voided, with VAT and without, without a client, PDF or author."""
    with app.tenants.session(LABEL):
        company.update(requisites=REQUISITES)
        papers.create(8, {"kind": "act"})
        company.update(paper_settings={"vat_mode": "inside", "signatures": ["Директор"]})
    caller.do("PATCH", "/clients/1", {"requisites": {"edrpou": "14360570"}})
    of_nobody = caller.add("/deals", title="Без клієнта", amount=5)
    made = {
        kind: caller.add(f"/deals/{deal}/papers", kind=kind)
        for kind, deal in {"offer": 4, "invoice": 4, "delivery_note": of_nobody}.items()
    }
    caller.do("PATCH", f"/papers/{made['invoice']}", {"paid_at": "2026-03-01"})
    caller.do("POST", f"/papers/{made['delivery_note']}/void")
    links_of = f"/papers/{made['offer']}/links"
    url = caller.do("POST", links_of, {})["url"]
    caller.do("DELETE", f"{links_of}/{caller.add(links_of)}")
    with app.tenants.session(LABEL):
        paper_links.create(made["offer"], {})
        paper_links.find_paper(url.rpartition("/")[2])
        with transaction():  # its process died
            execute("UPDATE paper SET sha256 = NULL WHERE kind = 'delivery_note'")


# A value of each type of custom fields.
CUSTOM_VALUES = {
    "text": "дуб",
    "long_text": LONG,
    "number": -12.5,
    "money": 99.9,
    "date": "2026-12-01",
    "flag": True,
    "choice": "oak",
    "choices": ["ash", "oak"],
    "url": "https://example.com/a",
    "user": "2",
    "client": "1",
}


def _custom_fields(caller: Caller) -> None:
    options = [{"key": "oak", "label": "Дуб"}, {"key": "ash", "label": "Ясен", "archived": True}]
    for place, type in enumerate(CUSTOM_VALUES):
        field = {"label": f"Поле {type}", "key": type, "type": type, "in_list": place % 2 == 0}
        if type.startswith("choice"):
            field |= {"options": options, "help": "Порода.", "searched": True, "in_card": False}
        field["filtered"] = type not in ("long_text", "url")
        field |= {"in_form": place > 0, "required_in_workspace": type == "flag"}
        caller.add("/fields", resource="leads", **field)
    caller.do("PATCH", "/leads/1", {"custom": CUSTOM_VALUES})
    for plural, id in (("clients", 1), ("deals", 4), ("products", 2), ("tasks", 1)):
        caller.add("/fields", resource=plural, label="Код", key="code", type="text", filtered=True)
        caller.do("PATCH", f"/{plural}/{id}", {"custom": {"code": "ї-1"}})
    deleted, retired = (
        caller.add("/fields", resource="leads", label=key, key=key, type="text")
        for key in ("deleted", "retired")
    )
    caller.do("PATCH", "/leads/1", {"custom": {"retired": "є", "deleted": "і"}})
    for id in (retired, deleted):
        caller.do("POST", f"/fields/{id}/retire")
    caller.do("DELETE", f"/fields/{deleted}")


def _imports(caller: Caller) -> None:
    for noun, text in IMPORTED_FILES.items():
        caller.do("POST", f"/{noun}/import", data={"file": (BytesIO(text.encode()), f"{noun}.csv")})


def _batches(app: CRMApp, caller: Caller) -> None:
    """Batches of all kinds and states, large imports that wait, run and have ended."""
    twins = [caller.add("/clients", name=name, phone="0671110099") for name in ("Один", "Він же")]
    caller.do("POST", f"/clients/{twins[0]}/merge", {"from_id": twins[1]})
    task = caller.add("/tasks", title="Відновлене")
    caller.do("DELETE", f"/tasks/{task}")
    caller.do("POST", f"/tasks/{task}/restore")
    people = {"file": (BytesIO("name,phone\nНа хвилину,0671110098\n".encode()), "x.csv")}
    caller.do("POST", "/leads/import", data=people)
    caller.do("POST", f"/batches/{caller.do('GET', '/batches')['data'][0]['id']}/undo")
    with app.tenants.session(LABEL):
        resource = find_resource("leads")
        for header, user_id in ("Хто", 1), ("Ім’я", None):
            current_session().user_id = user_id
            options = ImportOptions(mapping={header: "name"})
            saved_mappings.save(resource, [header], "Своє", options)
        with transaction(), batches.batch("bulk", "lead", "зміна разом"):
            leads.Lead.find(1).update_fields({"position": "власниця"})
        with transaction():
            for state in ("failed", "cancelled", "undoing"):
                batches.finish(batches.start("import", "lead"), state)
            execute("UPDATE import_run SET batch_id = NULL WHERE id = 1")  # of an older release
        file = read_file("name,phone\nЧекає,0671110097\n".encode(), resource)
        cancelled, failed, running = (import_run.start(file, "x.csv")[0] for _ in range(3))
        with transaction():
            for run in (cancelled, failed, running):
                insert(import_run.ADD_PART, (run.id, "rejects", b"error,name\n"))
        import_run.cancel(cancelled.id)
        background.fail(failed.batch_id, StorageQuota())
        with transaction():  # nobody goes on with those that have not ended
            sql = "UPDATE batch SET lease_until = ? WHERE state IN ('running', 'undoing')"
            execute(sql, ("2099-01-01T00:00:00Z a",))


def _proposals(app: CRMApp, caller: Caller) -> None:
    """One that waits, one that was declined, one that a key has applied, and one without a key."""
    sent = {"resource": "leads", "ids": ["2", "3"], "why": LONG}
    caller.add("/proposals", **sent, set={"assigned_to": "2"})
    declined = caller.add("/proposals", **sent, action="delete")
    caller.do("POST", "/proposals", {**sent, "action": "add_tag", "tag": "дуб", "apply": True})
    with app.tenants.session(LABEL):
        proposals.create(proposals.PROPOSAL_IN.parse({**sent, "set": {"comment": None}}))
        current_session().user_id = 1
        proposals.decline(declined)


def _views(caller: Caller) -> None:
    query = {"status": ["new", "qualified"], "amount_from": "50000"}
    caller.add("/views", resource="leads", name="Гарячі", query=query, shared=True)
    caller.add("/views", resource="tasks", name="Мої", columns=["title", "due_at"])


def _logo(app: CRMApp) -> None:
    with app.tenants.session(LABEL):
        logo.save(png(64))


def _hooks(caller: Caller) -> None:
    """Inbound hooks of each target, and calls that made a record and that did not."""
    signed = {"signature_header": "X-Signature", "signature_secret": "спільний"}
    hooks = [
        {"target": "lead", "mapping": {"Ім’я": "name", "Телефон": "phone"}, "id_path": "id"},
        {"target": "lead", "takes_files": True},
        {"target": "deal", "known": "update", "defaults": {"title": "Замовлення"}},
        {"target": "note", "active": False},
        {"target": "call", **signed},
        {"target": "payment"},
    ]
    ids = [caller.add("/inbound-hooks", name=f"Вхід {hook['target']}", **hook) for hook in hooks]
    url = caller.do("GET", f"/inbound-hooks/{ids[0]}")["url"]
    for body in ({"Ім’я": "З форми", "Телефон": "0671110044", "id": 7}, {"Ім’я": "Без телефону"}):
        headers = {"Host": caller.sent["Host"]}
        answer = caller.client.post(f"/in/{url.rpartition('/')[2]}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text


def _deliveries(app: CRMApp, caller: Caller, clock: Clock) -> None:
    """To the first endpoint most arrived; the second fails and is recovered; the third is gone; the
    fourth is off; the last is paused."""
    fine, ill = Outcome(12, 200, None, "дякую"), Outcome(15_000, None, "timeout")
    broken, gone = Outcome(34, 500, None, "<h1>ні</h1>"), Outcome(5, 410)

    def outcome(sent: deliveries.ClaimedDelivery) -> Outcome | None:
        if "gone" in sent.url:
            return gone
        if "down" in sent.url:
            return ill if sent.id % 2 else broken
        return broken if b'"deal.lost"' in sent.body else fine

    _send(app, outcome)
    for number in range(2):  # after five days of failure it is paused
        clock.tick(3 * DAY)
        caller.add("/leads", name=f"Марно {number}", phone="0501110009")
        _send(app, outcome)
    caller.do("PATCH", "/webhooks/4", {"active": False})
    for day in range(12):  # ten attempts, and each day one that arrives
        clock.tick(DAY)
        caller.do("PATCH", "/products/3", {"price": 100 + day})
        _send(app, outcome)
    delivered = caller.do("GET", "/webhooks/1/deliveries?status=delivered")["data"]
    caller.do("POST", f"/deliveries/{delivered[-1]['id']}/resend")
    caller.do("POST", "/webhooks/1/test")
    _send(app, lambda sent: fine)
    with app.tenants.session(LABEL):
        deliveries.resend(int(delivered[-2]["id"]))
        deliveries.send_test(1)
        _send(app, lambda sent: fine)
    caller.do("POST", "/webhooks/2/recover", {"since": "2026-02-01T00:00:00Z"})
    _send(app, lambda sent: fine if "down" in sent.url and sent.id % 2 else None)


def _send(app: CRMApp, outcome: Callable[[deliveries.ClaimedDelivery], Outcome | None]) -> None:
    """What is due is sent, as often as something new is; None: it is still under way."""
    with app.tenants.session(LABEL):
        while claimed := deliveries.claim_due("frozen", 50, 50)[0]:
            for sent in claimed:
                if result := outcome(sent):
                    deliveries.record_outcome(sent, now(), result)


def _of_nobody(app: CRMApp) -> None:
    """Records that a program has made without a user."""
    with app.tenants.session(LABEL):
        clients.create({"name": "Ніхто"})
        tasks.create({"title": "Нічиє"})


def _alerts(app: CRMApp) -> None:
    """One that is seen, one that was sent, one under way, one that was under way twice."""
    with app.tenants.session(LABEL), transaction():
        alerts.choose_channels(1, {kinds.LEAD_NEW: [kinds.EMAIL]})
        users.update(2, {"quiet_from": "22:00", "quiet_until": "08:00"})
        leads.choose_users_in_turn([2])
        alerts.add(kinds.NO_NEXT_STEP, to=1)
        telegram_chats.connect(links.create(links.TELEGRAM, 1), "1001")
        alerts.mark_seen(1)
        sent = "UPDATE alert SET send_at = NULL, sent_at = ? WHERE id = 1"
        execute(sent, (now(),))
        leased = "lease = 'frozen', leased_until = '2026-01-01T00:00:00Z'"
        execute(f"UPDATE alert SET send_at = due_at, {leased}, is_repeated = 1 WHERE id = 2")


def _last_day(app: CRMApp, caller: Caller, clock: Clock) -> None:
    """What is kept for a day only, or must be fresh."""
    with app.tenants.session(LABEL):
        for phone, browser in (("+380501110001", "b1"), ("+380501110002", "b2")):
            for purpose in (codes.LOGIN, codes.SIGNUP, codes.PHONE):
                asked = codes.create(purpose, phone, browser)
                if browser == "b1":
                    codes.check(purpose, phone, browser, asked.code)
        sessions.open(1, "Mozilla/5.0 (X11; Linux x86_64)")
        sessions.end(sessions.list_live(2)[0].id, 2)
        for purpose in links.LIFETIME_SECONDS:
            links.create(purpose, 2, "new@acme.example" if purpose == links.EMAIL else None)
        links.use(links.LOGIN, links.create(links.LOGIN, 1))
        assert current_session().user_id is None
    caller.do("POST", "/webhooks/1/rotate")
    once = {"Idempotency-Key": "замовлення-77".encode().hex()}
    caller.do("POST", "/leads", {"name": "Двічі", "phone": "0501110010"}, headers=once)
    for noun, fields in {
        "clients": {"name": "Останній клієнт"},
        "products": {"name": "Останній товар", "price": 5},
        "tasks": {"title": "Останнє завдання"},
        "deals": {"title": "Остання угода"},
    }.items():  # of which the webhooks have heard nothing yet
        caller.add(f"/{noun}", **fields)
    clock.tick(60)


def missing_values(file: sqlite3.Connection) -> list[str]:
    """What the schema allows and no row has: tables, set and unset columns, values of a choice."""
    results = []
    tables = file.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT GLOB '*_search_*' ORDER BY name"
    ).fetchall()
    for table, sql in tables:
        if file.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,):
            results.append(f"{table}: a row")
            continue
        if table in ONE_ROW:
            continue
        for _, column, _, not_null, _, is_key in file.execute(f"PRAGMA table_info({table})"):
            if not not_null and not is_key:
                for state in ("NULL", "NOT NULL"):
                    some = f"SELECT 1 FROM {table} WHERE {column} IS {state}"
                    if not file.execute(some).fetchone():
                        results.append(f"{table}.{column}: a row where it is {state}")
        for column, choices in re.findall(r"CHECK \((\w+) IN \(([^)]*)\)\)", sql):
            for choice in choices.split(","):
                some = f"SELECT 1 FROM {table} WHERE {column} = {choice}"
                if not file.execute(some).fetchone():
                    results.append(f"{table}.{column}: a row where it is {choice.strip()}")
    seen = {kind for (kind,) in file.execute("SELECT DISTINCT type FROM event")}
    results += [f"event: {kind}" for kind in sorted(set(events.KINDS) - seen)]
    return [fault for fault in results if fault not in OF_LIVING_TENANTS]
