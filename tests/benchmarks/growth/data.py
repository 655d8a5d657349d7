"""Two tenants with the same kinds of data, written by statements: `small` and `large`.

Both begin as copies of the tenant of tests/full_tenant.py, which has each kind of row once. To it
come two years of leads, clients, deals with items, tasks and notes, for an owner and two sellers,
with all that is derived from them. The newest are of now.
"""

import random
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from crm import CRMApp, create_app
from crm.access import api_keys, sessions
from crm.config import PLANS, Config
from crm.json import dumps
from crm.records import words
from crm.records.columns import declared
from crm.records.record import (
    SoftDeletedRecord,
    index_new,
    insert_statement,
    searched_columns,
    storable,
)
from crm.resources import tenant, users
from crm.resources.clients.record import Client, Contact
from crm.resources.custom_fields.values import index_pending
from crm.resources.deals.items import DealItem
from crm.resources.deals.record import Deal
from crm.resources.leads.record import LEAD, Lead
from crm.resources.notes import Note
from crm.resources.pipelines.record import Pipeline
from crm.resources.products.record import Product
from crm.resources.tasks import Task
from crm.storage.dialect import filling
from crm.storage.session import execute, execute_many, one_row, rows, time_text, transaction
from crm.values import folding
from tests.benchmarks.hot_path import FIRST, LAST, WORDS
from tests.conftest import Clock
from tests.full_tenant import LABEL, fill_tenant

DAY, YEARS = 86_400, 2 * 365 * 86_400
HUNDREDTHS = 10_000  # of money as it is stored
FIRST_RECORDS_DAYS = 29  # how long ago the copied tenant was filled, so that nothing is swept
SOURCES = ("site", "phone", "instagram", "exhibition", "referral", None)
CURRENCIES = ("UAH",) * 8 + ("USD", "EUR")
REASONS = ("Too expensive", "Chose a competitor", "No budget", None)
TAGS = ("vip", "опт", "роздріб", "постійний", "партнер", "нове")
TITLES = ("Меблі для офісу", "Кухня", "Шафа-купе", "Ремонт", "Поставка стільців")
RECORDS = (Product, Client, Lead, Deal, Task)


class Size(NamedTuple):
    """How many records a tenant gets; `others`: of clients, deals and tasks each."""

    leads: int
    others: int
    notes: int
    products: int


SIZES = {
    "small": Size(2_000, 286, 1_714, 200),
    "large": Size(350_000, 50_000, 300_000, 5_000),
}
Values = dict[str, Any]


class Writer:
    """Makes the records of one tenant; each table's are the same in each run."""

    def __init__(self, size: Size, now: float):
        self.size, self.now = size, int(now)
        self.sellers = [one_row("SELECT id FROM \"user\" WHERE role = 'seller'")[0]]
        self.sellers.append(users.create({"name": "Друга продавчиня", "role": "seller"}).id)
        # The owner, two sellers, and nobody.
        self.people = [1] * 3 + [self.sellers[0]] * 8 + [self.sellers[1]] * 5 + [None] * 4
        pipeline = Pipeline.default()
        assert pipeline
        self.pipeline, stages = pipeline.id, pipeline.list_stages()
        self.stages = {
            kind: [s for s in stages if s.type == kind] for kind in ("open", "won", "lost")
        }
        self.first = {
            record: one_row(f"SELECT coalesce(max(id), 0) FROM {record._meta.table_name}")[0] + 1
            for record in RECORDS
        }

    def write(self) -> None:
        for made in (
            {Product: self.products()},
            {Client: self.clients(), Contact: self.contacts()},
            {Lead: self.leads(), Deal: self.deals(), DealItem: self.items()},
            {Task: self.tasks(), Note: self.notes()},
        ):
            with transaction(), filling(Lead.noun):
                execute("PRAGMA defer_foreign_keys = ON")  # leads and deals refer to each other
                for record, many in made.items():
                    add_rows(record, many)
        with transaction(), filling(Lead.noun):
            self.write_moves()
            for statement in DERIVED:
                execute(statement)
            for record in RECORDS:
                index_new(record._meta.table_name)
                learn_words(record)

    def moments(self, count: int) -> Iterator[tuple[int, float, random.Random]]:
        """(number, epoch seconds, dice) of so many records over two years, the last of now."""
        dice = random.Random(7)
        for number in range(count):
            yield number, self.now - YEARS + YEARS * (number + 1) / count, dice

    def stamps(self, at: float, dice: random.Random, deleted: bool = False) -> Values:
        """When a record was made and changed; one in a hundred is in the trash."""
        changed = min(self.now, at + dice.randrange(30 * DAY))
        stamps = {
            "created_at": time_text(int(at)),
            "updated_at": time_text(int(changed)),
            "version": dice.randint(1, 3),
        }
        if deleted:
            is_deleted = dice.random() < 0.01
            gone = time_text(self.now - dice.randrange(FIRST_RECORDS_DAYS * DAY))
            stamps["deleted_at"] = gone if is_deleted else None
        return stamps

    def owners(self, dice: random.Random) -> Values:
        return {"assigned_to": dice.choice(self.people), "created_by": dice.choice(self.people)}

    def products(self) -> Iterator[Values]:
        for number, at, dice in self.moments(self.size.products):
            yield {
                "sku": f"ART-{number:05}",
                "name": f"{dice.choice(('Стіл', 'Диван', 'Шафа', 'Стілець'))} {number}",
                "price": price_of(number),
                "currency": "UAH",
                "unit": "шт",
                "category": f"Категорія {number % 40}",
                "description": " ".join(dice.choices(WORDS, k=8)),
                "active": int(dice.random() < 0.9),
                **self.stamps(at, dice, deleted=True),
            }

    def clients(self) -> Iterator[Values]:
        for number, at, dice in self.moments(self.size.others):
            is_company = dice.random() < 0.6
            person = f"{dice.choice(FIRST)} {dice.choice(LAST)}"
            yield {
                "type": "company" if is_company else "person",
                "name": f"ТОВ {dice.choice(LAST)}-{number}" if is_company else person,
                "phone": phone(dice),
                "email": f"client{number}@example.com",
                "address": f"Київ, вул. Садова, {number % 300}",
                "tax_number": f"{10**7 + number}",
                "tags": tags(dice),
                "source": dice.choice(SOURCES),
                "comment": " ".join(dice.choices(WORDS, k=6)),
                "external_id": f"1C-{number:06}",
                **self.owners(dice),
                **self.stamps(at, dice, deleted=True),
            }

    def contacts(self) -> Iterator[Values]:
        for number, at, dice in self.moments(self.size.others):
            yield {
                "client_id": self.first[Client] + number,
                "name": f"{dice.choice(FIRST)} {dice.choice(LAST)}",
                "position": "директорка",
                "phone": phone(dice),
                "email": f"contact{number}@example.com",
                "is_primary": 1,
                **self.stamps(at, dice),
            }

    def leads(self) -> Iterator[Values]:
        every = self.size.leads // self.size.others  # of so many leads one became a client
        for number, at, dice in self.moments(self.size.leads):
            nth = number // every
            is_converted = not number % every and nth < self.size.others
            is_new = dice.random() < (0.6 if number > self.size.leads * 0.9 else 0.05)
            status = dice.choice(("new", "in_progress", "qualified")) if is_new else "unqualified"
            converted = {"client_id": None, "deal_id": None, "converted_at": None}
            if is_converted:
                status, converted = (
                    "converted",
                    {
                        "client_id": self.first[Client] + nth,
                        "deal_id": self.first[Deal] + nth,
                        "converted_at": time_text(int(at)),
                    },
                )
            stamps = self.stamps(at, dice, deleted=not is_converted)
            yield {
                "name": f"{dice.choice(FIRST)} {dice.choice(LAST)}",
                # A few are of older releases, with a digit too few.
                "phone": phone(dice)[: 12 if not number % 5000 else 13],
                "email": f"lead{number % (self.size.leads * 49 // 50)}@example.com",
                "company": f"ТОВ {dice.choice(LAST)}-{number % 977}",
                "source": dice.choice(SOURCES),
                "status": status,
                "comment": " ".join(dice.choices(WORDS, k=6)),
                "amount": dice.randrange(10**5) * HUNDREDTHS if dice.random() < 0.7 else None,
                "currency": dice.choice(CURRENCIES),
                "tags": tags(dice),
                "utm_source": dice.choice(("google", "facebook", None)),
                "lost_reason": dice.choice(REASONS) if status == "unqualified" else None,
                **converted,
                **self.owners(dice),
                "deleted_at": None,
                "custom": dumps(custom_values(at, dice)).decode() if number % 10 < 7 else None,
                **stamps,
            }

    def deals(self) -> Iterator[Values]:
        every = self.size.leads // self.size.others
        for number, at, dice in self.moments(self.size.others):
            is_open = dice.random() < (0.8 if number > self.size.others * 0.9 else 0.1)
            status = "open" if is_open else dice.choices(("won", "lost"), (3, 5))[0]
            closed = min(self.now, at + dice.randrange(90 * DAY))
            yield {
                "title": f"{dice.choice(TITLES)} {number}",
                "client_id": self.first[Client] + number,
                "contact_id": None,
                "lead_id": self.first[Lead] + number * every,
                "pipeline_id": self.pipeline,
                "stage_id": dice.choice(self.stages[status]).id,
                "status": status,
                "amount": sum(price_of(product) * count for product, count in self.lines(number)),
                "amount_mode": "items",
                "currency": dice.choice(CURRENCIES),
                "expected_close_date": time_text(int(at) + 60 * DAY)[:10],
                "source": dice.choice(SOURCES),
                "tags": tags(dice),
                "comment": " ".join(dice.choices(WORDS, k=6)),
                "lost_reason": dice.choice(REASONS) if status == "lost" else None,
                "stage_changed_at": time_text(int(closed)),
                "closed_at": None if is_open else time_text(int(closed)),
                "external_id": f"Z-{number:06}",
                **self.owners(dice),
                **self.stamps(at, dice, deleted=True),
            }

    def lines(self, number: int) -> list[tuple[int, int]]:
        """(product, count) of a deal's items."""
        return [(number * 31 + n * 7, 1 + n) for n in range(1 + number % 4)]

    def items(self) -> Iterator[Values]:
        for number, at, dice in self.moments(self.size.others):
            for place, (product, count) in enumerate(self.lines(number), 1):
                total = price_of(product) * count
                yield {
                    "deal_id": self.first[Deal] + number,
                    "product_id": self.first[Product] + product % self.size.products,
                    "name": f"Стіл {product}",
                    "unit": "шт",
                    "quantity": 1000 * count,
                    "price": price_of(product),
                    "discount_type": "percent",
                    "subtotal": total,
                    "discount_amount": 0,
                    "total": total,
                    "position": place,
                    **self.stamps(at, dice),
                }

    def tasks(self) -> Iterator[Values]:
        for number, at, dice in self.moments(self.size.others):
            is_open = dice.random() < (0.7 if number > self.size.others * 0.9 else 0.02)
            status = dice.choice(("open", "in_progress")) if is_open else "done"
            done = min(self.now, at + dice.randrange(20 * DAY))
            yield {
                "title": f"Зателефонувати щодо замовлення {number}",
                "type": dice.choice(("call", "call", "meeting", "email", None)),
                "status": status,
                "priority": dice.choice(("low", "normal", "normal", "high")),
                "due_at": time_text(int(at) + dice.randrange(60 * DAY)),
                "lead_id": None if number % 2 else self.first[Lead] + number,
                "client_id": None,
                "deal_id": self.first[Deal] + number if number % 2 else None,
                "description": " ".join(dice.choices(WORDS, k=6)),
                "completed_at": None if is_open else time_text(int(done)),
                "duration_seconds": None if is_open else dice.randrange(3600),
                **self.owners(dice),
                **self.stamps(at, dice, deleted=True),
            }

    def notes(self) -> Iterator[Values]:
        counts = {Lead: self.size.leads, Client: self.size.others, Deal: self.size.others}
        for number, at, dice in self.moments(self.size.notes):
            record = dice.choices([*counts], (6, 2, 2))[0]
            before = counts[record] * (number + 1) // self.size.notes  # made until then
            yield {
                "noun": record.noun,
                "record_id": self.first[record] + dice.randrange(max(1, before)),
                "text": " ".join(dice.choices(WORDS, k=10)),
                "user_id": dice.choice(self.people),
                **self.stamps(at, dice),
            }

    def write_moves(self) -> None:
        """The stages that each deal went through, one every week."""
        names = {stage.id: stage.name for stages in self.stages.values() for stage in stages}
        moves = []
        of_deals = "SELECT id, stage_id, unixepoch(created_at) FROM deal WHERE id >= ?"
        for id, last, at in rows(of_deals, (self.first[Deal],)):
            before = None
            path = [stage.id for stage in self.stages["open"][: id % 4] if stage.id != last]
            for stage in (*path, last):
                stayed = before and 7 * DAY
                moved = time_text(min(self.now, at))
                moves.append((id, before, stage, names.get(before), names[stage], moved, stayed))
                before, at = stage, at + 7 * DAY
        execute_many(ADD_MOVE, moves)


ADD_MOVE = (
    "INSERT INTO stage_move (deal_id, from_stage_id, to_stage_id, from_name, to_name, moved_at,"
    " stayed_seconds) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
TAGGED = [record for record in RECORDS if record.is_tagged]
KINDS = {"lead": 3, "client": 1, "deal": 1, "task": 1}  # of so many records one has an event
RECENT = f"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-' || (id % {29 * 1440}) || ' minutes')"
SHOWN = {"lead": LEAD.json.replace("AS BLOB", "AS TEXT")}
for record in (Client, Deal, Task):
    names = [name for name in record._meta.sorted_field_names if name not in ("id", "search_text")]
    pairs = ", ".join(f"'{name}', {name}" for name in names)
    SHOWN[record.noun] = f"json_object('id', CAST(id AS TEXT), {pairs})"
IS_PAID = "copied.kind = 'invoice' AND deal.status = 'won' AND deal.id % 50 > 0"
DERIVED = [
    *(
        f"INSERT INTO {record.noun}_tag (tag, {record.noun}_id)"
        f" SELECT DISTINCT value, {record.noun}.id FROM {record.noun}, json_each(tags)"
        f" WHERE TRUE ON CONFLICT DO NOTHING"
        for record in TAGGED
    ),
    *(
        "INSERT INTO audit_entry (noun, record_id, at, user_id, before, after)"
        f" SELECT '{noun}', id, updated_at, coalesce(assigned_to, 1),"
        # What was written first: of one in five another phone.
        " CASE id % 5 WHEN 0 THEN json_object('phone', '+38067' || (id % 9000000 + 1000000))"
        " ELSE json_object('assigned_to', NULL) END,"
        " json_object('assigned_to', assigned_to)"
        f" FROM {noun} WHERE version > 1 ORDER BY updated_at"
        for noun in KINDS
    ),
    *(
        "INSERT INTO event (id, type, at, noun, record_id, data, previous)"
        f" SELECT 'evt_' || lower(hex(randomblob(12))), '{noun}.created', {RECENT}, '{noun}', id,"
        f" json_object('{noun}', json({SHOWN[noun]})), '{{}}' FROM {noun}"
        f" WHERE id % {every} = 0 ORDER BY id"
        for noun, every in KINDS.items()
    ),
    *(
        f"INSERT INTO {table} (field_id, record_id, value)"
        f" SELECT custom_field.id, lead.id, json_extract(custom, '$.{key}'){unit}"
        f" FROM lead CROSS JOIN custom_field WHERE resource = 'leads' AND key = '{key}'"
        f" AND json_extract(custom, '$.{key}') IS NOT NULL ON CONFLICT DO NOTHING"
        for key, table, unit in (
            ("number", "custom_number", f" * {HUNDREDTHS}"),
            ("flag", "custom_number", ""),
            ("choice", "custom_text", ""),
            ("date", "custom_text", ""),
        )
    ),
    # An invoice of each deal and an offer of every fourth, with the lines of those copied.
    "INSERT INTO paper (deal_id, client_id, kind, language, date, year, sequence, number,"
    " client_name, amount, currency, user_id, voided_at, paid_at, paid_amount, created_at,"
    " updated_at, version, snapshot) SELECT deal.id, client.id, copied.kind, 'uk',"
    " substr(deal.created_at, 1, 10), substr(deal.created_at, 1, 4), deal.id + 1000,"
    " (deal.id + 1000) || '/' || substr(deal.created_at, 1, 4), client.name, deal.amount,"
    " deal.currency, deal.created_by, iif(deal.id % 50 = 0, deal.created_at, NULL),"
    f" iif({IS_PAID}, substr(closed_at, 1, 10), NULL), iif({IS_PAID}, deal.amount, NULL),"
    " deal.created_at, deal.created_at, 1, copied.snapshot"
    " FROM deal JOIN client ON client.id = deal.client_id JOIN paper AS copied"
    " WHERE deal.amount IS NOT NULL AND copied.id IN (SELECT max(id) FROM paper GROUP BY kind)"
    " AND (copied.kind = 'invoice' OR copied.kind = 'offer' AND deal.id % 4 = 0) ORDER BY deal.id",
    *(
        "INSERT INTO file (noun, record_id, name, content_type, size, sha256, user_id, search_text,"
        f" created_at, updated_at, version) SELECT '{noun}', {noun}.id, copied.name, content_type,"
        f" size, sha256, user_id, copied.search_text, {noun}.created_at, {noun}.created_at, 1"
        f" FROM {noun} JOIN file AS copied WHERE {noun}.id % {every} = 0 AND copied.id ="
        f" (SELECT min(id) FROM file WHERE noun = '{noun}') ORDER BY {noun}.id"
        for noun, every in {"lead": 10, "client": 2, "deal": 2}.items()
    ),
    "INSERT INTO alert (user_id, kind, noun, record_id, due_at, seen_at, channels)"
    " SELECT assigned_to, 'assigned', 'lead', id, created_at, updated_at, 'bell'"
    " FROM lead WHERE id % 20 = 0 AND assigned_to IS NOT NULL",
    "INSERT INTO delivery (webhook_id, sequence, noun, record_id, status, tries, cause, created_at,"
    " delivered_at) SELECT 1, sequence, noun, record_id, 'delivered', 1, 'event', at, at"
    " FROM event WHERE sequence % 5 = 0 AND sequence > (SELECT max(sequence) FROM delivery)",
    "INSERT INTO attempt (delivery_id, at, duration_ms, status_code, cause)"
    " SELECT id, created_at, 30, 200, 'event' FROM delivery"
    " WHERE id NOT IN (SELECT delivery_id FROM attempt) AND status = 'delivered'",
]


def add_rows(record: Any, made: Iterator[Values]) -> None:
    """Insert rows of the same columns, with what is derived from them."""
    columns = searched_columns(record) if issubclass(record, SoftDeletedRecord) else ()

    def stored(row: Values) -> Values:
        row = storable(record, row)
        if columns:
            text = folding.fold(*(row.get(name) for name in columns))
            row["search_text"] = None if row["deleted_at"] else text
        return row

    first = stored(next(made))
    everything = chain([first], map(stored, made))
    statement = insert_statement(record, tuple(first))
    execute_many(statement, (tuple(row.values()) for row in everything))


def learn_words(record: Any) -> None:
    for name, column in declared(record).items():
        if isinstance(column, words.Word):
            for (text,) in rows(f"SELECT DISTINCT {name} FROM {record.noun} WHERE {name} <> ''"):
                column.wire.learned(text)


def custom_values(at: float, dice: random.Random) -> Values:
    """Values of fields that tests/full_tenant.py adds to leads."""
    return {
        "number": dice.randrange(10**5),
        "flag": dice.random() < 0.02,
        "choice": dice.choice(("oak", "oak", "oak", "ash")),
        "date": time_text(int(at) + dice.randrange(90 * DAY))[:10],
    }


def price_of(number: int) -> int:
    return (100 + number * 37 % 9000) * HUNDREDTHS


def phone(dice: random.Random) -> str:
    return f"+380{dice.choice((50, 63, 66, 67, 93, 97))}{dice.randrange(10**7):07}"


def tags(dice: random.Random) -> str | None:
    if dice.random() < 0.7:
        return None
    return dumps(sorted(set(dice.choices(TAGS, k=2)))).decode()


def make_tenants(folder: Path, sizes: dict[str, Size] = SIZES) -> CRMApp:
    """Make the tenants in a new data folder."""
    now = time.time()
    clock = Clock(now - FIRST_RECORDS_DAYS * DAY)
    fill_tenant(open_folder(folder, clock), clock)
    crm = open_folder(folder)
    with crm.tenants.session(LABEL, sweeps_expired=False):
        index_pending()  # else a sweep of one of the requests would
    for label, size in sizes.items():
        tenant.clone(crm.tenants, LABEL, label)
        with crm.tenants.session(label, sweeps_expired=False):
            Writer(size, now).write()
    return crm


def open_folder(folder: Path, clock: Any = time.time) -> CRMApp:
    unlimited = dict.fromkeys(PLANS, 0)
    return create_app(Config(data=folder, plans=unlimited, storage=unlimited), clock, sends=False)


def give_access(crm: CRMApp, label: str) -> dict[str, dict[str, str]]:
    """Cookies of the cabinet and API keys of a tenant's owner and first seller."""
    with crm.tenants.session(label):
        (seller,) = one_row("SELECT min(id) FROM \"user\" WHERE role = 'seller'")
        return {
            role: {
                "cookie": sessions.open(id, "benchmark"),
                "key": api_keys.create(role, "*", id)[1],
            }
            for role, id in (("owner", 1), ("seller", seller))
        }
