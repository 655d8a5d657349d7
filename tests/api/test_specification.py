"""The specification, row by row, in its order and words: each row is exercised over HTTP.

The tables come first, as data, to be laid beside the specification; a proof of each row follows.
What it leaves open has its tests elsewhere, by decision; the cabinet is not part of the API.
"""

import io
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from crm.outbox.events import KINDS
from crm.resources import tenant
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.raw_wsgi import send_request

ENDPOINTS = {
    "Leads": {
        "POST /leads": "Body JSON: name (required), phone or email (at least one), source and "
        "other lead fields. Response status 201 with JSON {status, lead_id}; status is the text "
        "ok, lead_id is a string.",
        "GET /leads": "Query filters: source, status, assigned_to, q (search text). Returns a list "
        "of leads.",
        "GET /leads/{id}": "Returns one lead.",
        "PATCH /leads/{id}": "Partial update: only the sent fields change.",
        "DELETE /leads/{id}": "Deletes the lead.",
    },
    "Clients": {
        "GET /clients": "Query filters: type (company or person), tag, q. Returns a list.",
        "GET /clients/{id}": "Client card with contacts and tags.",
        "POST /clients": "Creates a client.",
        "PATCH /clients/{id}": "Updates a client.",
        "DELETE /clients/{id}": "Deletes a client.",
    },
    "Deals and deal items": {
        "GET /deals": "Query filters: pipeline_id, stage_id, assigned_to, status. Returns a list.",
        "POST /deals": "Creates a deal.",
        "PATCH /deals/{id}": "Updates a deal: stage, amount, manager and similar fields.",
        "GET /deals/{id}/items": "Lists the items (composition) of the deal.",
        "POST /deals/{id}/items": "Adds an item to the deal.",
        "PATCH /deals/{id}/items/{itemId}": "Updates quantity, discount or price of the item.",
        "DELETE /deals/{id}/items/{itemId}": "Removes the item from the deal.",
    },
    "Products": {
        "GET /products": "Query filters: category, active (boolean, for example true), q (search "
        "text). Returns a list.",
        "GET /products/{id}": "One catalog entry.",
        "POST /products": "Body JSON: sku, name (required), price (required), unit, category, "
        "description, active.",
        "PATCH /products/{id}": "Updates an entry.",
        "DELETE /products/{id}": "Deletes the entry; when the product is used in deals the "
        "deletion is a soft delete.",
        "POST /products/import": "Request is multipart/form-data with a file part named file "
        "holding CSV. The CSV header row has columns "
        "sku,name,price,unit,category,description,active. The sku is the key: rows with a new sku "
        "create products, rows with an existing sku update them. Response JSON: {status, created, "
        "updated, skipped} with status the text ok and the other three integer counts. When the "
        "import completes, the event product.imported is sent.",
        "GET /products/export": "Returns the price list as CSV. Accepts the same filters as GET "
        "/products.",
    },
    "Tasks": {
        "GET /tasks": "Query filters: assigned_to, status, type (call, meeting, email). Returns a "
        "list.",
        "POST /tasks": "Creates a task.",
        "PATCH /tasks/{id}": "Updates a task.",
        "POST /tasks/{id}/complete": "Marks the task as done.",
    },
    "Pipelines and users": {
        "GET /pipelines": "Lists pipelines with their stages.",
        "GET /pipelines/{id}/stages": "Lists the stages of one pipeline.",
        "GET /users": "Lists the users of the tenant.",
        "GET /users/me": "Returns the currently authorised user.",
    },
}
OPERATIONS = [name for section in ENDPOINTS.values() for name in section]

# Operation: {filter: what is asked, what a record has that matches, what another has}. The first
# pipeline, which every tenant has, is 1 with the stages 1 to 6; a second one is 2.
FILTERS: dict[str, dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "GET /leads": {
        "source": ("site-form", {"source": "site-form"}, {"source": "expo"}),
        "status": ("qualified", {"status": "qualified"}, {"status": "new"}),
        "assigned_to": (str(TARAS), {"assigned_to": TARAS}, {"assigned_to": OLENA}),
        "q": ("ромашк", {"company": "ТОВ «РОМАШКА»"}, {"company": "ТОВ «Волошка»"}),
    },
    "GET /clients": {
        "type": ("company", {"type": "company"}, {"type": "person"}),
        "tag": ("опт", {"tags": ["vip", "Опт"]}, {"tags": ["vip"]}),
        "q": ("ромашк", {"name": "ТОВ «РОМАШКА»"}, {"name": "ТОВ «Волошка»"}),
    },
    "GET /deals": {
        "pipeline_id": ("2", {"pipeline_id": "2"}, {"pipeline_id": "1"}),
        "stage_id": ("3", {"stage_id": "3"}, {"stage_id": "2"}),
        "assigned_to": (str(TARAS), {"assigned_to": TARAS}, {"assigned_to": OLENA}),
        "status": ("won", {"status": "won"}, {"status": "open"}),
    },
    "GET /products": {
        "category": ("Крісла", {"category": "Крісла"}, {"category": "Столи"}),
        "active": ("true", {"active": True}, {"active": False}),
        "q": ("сітчаст", {"description": "СІТЧАСТА спинка"}, {"description": "Дерево"}),
    },
    "GET /tasks": {
        "assigned_to": (str(TARAS), {"assigned_to": TARAS}, {"assigned_to": OLENA}),
        "status": ("in_progress", {"status": "in_progress"}, {"status": "open"}),
        "type": ("meeting", {"type": "meeting"}, {"type": "call"}),
    },
}
FILTERS["GET /products/export"] = FILTERS["GET /products"]  # "Accepts the same filters"
LEAST = {  # that a new record must have
    "leads": {"name": "Марія", "phone": "+380671234567"},
    "clients": {"name": "ТОВ «Ромашка»"},
    "deals": {},
    "products": {"name": "Крісло", "price": 1250.5},
    "tasks": {"title": "Зателефонувати"},
}

# Resource: {field that is named: what is written and read back}.
FIELDS: dict[str, dict[str, Any]] = {
    "Lead": {
        "name": "Олена Петренко",
        "phone": "+380501234567",
        "email": "olena@example.com",
        "source": "site-form",
        "status": "in_progress",
        "assigned_to": "2",
    },
    "Client": {"type": "company", "tags": ["опт", "vip"]},
    "Deal": {
        "pipeline_id": "2",
        "stage_id": "3",
        "assigned_to": "2",
        "status": "won",
        "amount": 12500.5,
    },
    "Deal item": {"quantity": 2.5, "discount": 10, "price": 99.9999},
    "Product": {
        "sku": "CH-0012",
        "name": "Крісло офісне",
        "price": 990.1234,
        "unit": "шт",
        "category": "Крісла",
        "description": "Сітчаста спинка,\nгазліфт",
        "active": False,
    },
    "Task": {"assigned_to": "2", "status": "in_progress", "type": "call"},
}
ALLOWED = {"Client.type": ("company", "person"), "Task.type": ("call", "meeting", "email")}
PARTS = [
    "Client.contacts are returned with the client card",
    "Deal.manager",
    "Deal: a deal has line items",
    "Deal item.itemId is a path identifier",
    "Pipeline: a funnel; listed with its stages",
    "Stage: belongs to one pipeline",
    "User: a user of the tenant; the current authorised user is available separately",
]

RULES = [
    "Lead.name is required on create",
    "Lead.phone or Lead.email is required on create",
    "Lead.phone is in international format",
    "Product.name is required on create",
    "Product.price is required on create",
    "Product.sku is the key during CSV import",
    "Identifiers appear in paths as {id} and {itemId}",
    "The create-lead response returns the lead identifier as a string in lead_id",
]

EVENTS = {
    "lead.created": "A new lead.",
    "lead.converted": "A lead is converted into a deal.",
    "deal.created": "A new deal.",
    "deal.stage_changed": "The stage of a deal changed.",
    "deal.won": "A deal is won.",
    "deal.lost": "A deal is lost.",
    "deal.items_changed": "The composition of a deal's items changed.",
    "product.created": "A catalog product is created.",
    "product.updated": "A catalog product is updated.",
    "product.imported": "A bulk CSV import has finished.",
    "client.created": "A client is created.",
    "client.updated": "A client is updated.",
    "task.created": "A task is created.",
    "task.completed": "A task is completed.",
}

PLANS = {"Start (free)": 60, "Base": 300, "Pro": 1000, "Business": 5000}

GENERAL = [
    "The service is multi-tenant: each tenant has its own host",
    "The tenant label consists of Latin letters, digits and hyphen only",
    "The host is followed by the path prefix /api/v1",
    "Creating leads from a website form in one request",
    "Bodies are JSON, except product import and product export",
    "Every request carries the header Authorization with the value Bearer <API_KEY>",
    "Any number of keys may be created",
    "Keys carry access rights",
    "A key is displayed once, at the moment of creation",
    "Keys are tenant-bound through the tenant host",
    "Success of a create call is 201 and a JSON body whose status is the text ok",
    "Responses carry X-RateLimit-Remaining and X-RateLimit-Reset",
    "The version is part of the path",
]

PROOFS: dict[str, Callable[[Api], None]] = {}


def proof(*rows: str) -> Callable:
    """The function that follows proves these rows."""

    def note(prove: Callable[[Api], None]) -> Callable[[Api], None]:
        for row in rows:
            assert row not in PROOFS, row
            PROOFS[row] = prove
        return prove

    return note


@pytest.fixture
def acme(api: Api) -> Api:
    """Olena's key at a tenant with a second pipeline."""
    assert api.create("/pipelines", name="Опт") == "2"
    return api


def made(api: Api, plural: str, **fields: Any) -> str:
    """The id of a new record with at least these fields."""
    return api.create(f"/{plural}", **LEAST[plural] | fields)


def imported(api: Api, text: str) -> Any:
    file = (io.BytesIO(text.encode()), "price-list.csv")
    return api.call("POST", "/products/import", data={"file": file})


def line_of_one(api: Api) -> str:
    """The path of the one item of a new deal: two of 100."""
    deal = made(api, "deals")
    item = api.create(f"/deals/{deal}/items", name="Доставка", price=100, quantity=2)
    return f"/deals/{deal}/items/{item}"


# Nothing is left out


def test_the_tables_have_every_row_of_the_specification():
    assert [len(section) for section in ENDPOINTS.values()] == [5, 5, 7, 7, 4, 4]
    assert len(OPERATIONS) == 32
    assert [len(filters) for filters in FILTERS.values()] == [4, 3, 4, 3, 3, 3]
    assert [len(fields) for fields in FIELDS.values()] == [6, 2, 5, 3, 7, 3]
    assert (len(PARTS), len(RULES), len(EVENTS), len(PLANS), len(GENERAL)) == (7, 8, 14, 4, 13)


def test_every_filter_that_an_operation_names_is_in_the_table():
    words = {name: text for section in ENDPOINTS.values() for name, text in section.items()}
    named = {
        name: re.findall(r"\w+", re.sub(r"\(.*?\)", "", match[1]))
        for name, text in words.items()
        if (match := re.search(r"Query filters: (.*?)\. ", text))
    }
    named["GET /products/export"] = named["GET /products"]  # "Accepts the same filters"
    assert {name: list(filters) for name, filters in FILTERS.items()} == named


def test_every_row_has_its_proof_and_every_proof_its_row():
    assert PROOFS.keys() == {*OPERATIONS, *PARTS, *RULES, *EVENTS, *GENERAL}


def test_every_operation_is_in_the_map_under_its_own_name(crm):
    known = {
        f"{method} {rule.rule}".replace("<", "{").replace(">", "}")
        for rule in crm.url_map.iter_rules()
        for method in rule.methods
    }
    assert {name.replace(" ", " /api/v1", 1) for name in OPERATIONS} <= known


# The proofs, row by row


def rows(names: Any) -> Any:
    return pytest.mark.parametrize("row", names)


@rows(OPERATIONS)
def test_operation(acme, row):
    PROOFS[row](acme)


@rows([f"{name}?{filter}" for name, filters in FILTERS.items() for filter in filters])
def test_filter(acme, row):
    operation, _, name = row.partition("?")
    path = operation.removeprefix("GET /")
    plural = path.partition("/")[0]
    text, fitting, other = FILTERS[operation][name]
    keys = [{"sku": sku} if plural == "products" else {} for sku in ("CH-1", "CH-2")]
    wanted = made(acme, plural, **keys[0] | fitting)
    left_out = made(acme, plural, **keys[1] | other)
    answer = acme.get(f"/{path}", query_string={name: text})
    assert answer.status_code == 200, answer.text
    if path == "products/export":
        assert [line.partition(",")[0] for line in answer.text.splitlines()] == ["sku", "CH-1"]
    else:
        assert [record["id"] for record in answer.json["data"]] == [wanted]
        assert {record["id"] for record in acme.read(f"/{path}")} == {wanted, left_out}


@rows([f"{resource}.{name}" for resource, fields in FIELDS.items() for name in fields])
def test_field(acme, row):
    resource, _, name = row.partition(".")
    value = FIELDS[resource][name]
    if resource == "Deal item":
        lines = f"/deals/{made(acme, 'deals')}/items"
        least = {"name": "Доставка", "price": 1}
    else:
        lines = f"/{resource.lower()}s"
        least = LEAST[lines[1:]]
    written = f"{lines}/{acme.create(lines, **least | {name: value})}"
    assert acme.read(written)[name] == value
    acme.delete(written)
    changed = f"{lines}/{acme.create(lines, **least)}"
    answer = acme.patch(changed, {name: value})
    assert answer.status_code == 200, answer.text
    assert acme.read(changed)[name] == answer.json[name] == value


@rows([f"{name}: {value}" for name, values in ALLOWED.items() for value in values])
def test_allowed_value(acme, row):
    resource, name, value = re.split(r"\.|: ", row)
    plural = f"{resource.lower()}s"
    id = made(acme, plural, **{name: value})
    assert acme.read(f"/{plural}/{id}")[name] == value
    answer = acme.post(f"/{plural}", LEAST[plural] | {name: "another"})
    assert answer.status_code == 422


@rows(PARTS)
def test_part(acme, row):
    PROOFS[row](acme)


@rows(RULES)
def test_rule(acme, row):
    PROOFS[row](acme)


@rows(EVENTS)
def test_event(sending, hook, acme, row):
    """The proof makes it happen and gives the paths that show the records as the event has them;
    it is sent as an HTTP POST request to the URL that the tenant set."""
    acme.create("/webhooks", url=hook.url, events=[row])
    before = acme.read("/events")
    paths = PROOFS[row](acme)
    events = [event for event in acme.read("/events") if event not in before]
    (event,) = (event for event in events if event["type"] == row)
    for noun, path in paths.items():
        assert event["data"][noun] == acme.read(path)
    assert event in [received.event for received in hook.wait_for(1)]
    assert {received.event["type"] for received in hook.received} == {row}
    assert EVENTS[row] == KINDS[row]


@rows([f"{name} {number}" for name, number in PLANS.items()])
def test_plan(acme, row):
    """The last request allowed in a minute, and the first refused."""
    name, _, number = row.rpartition(" ")
    limit = int(number)
    with acme.crm.tenants.session("acme"):
        tenant.change_plan(name.partition(" ")[0].lower())
    acme.crm.tenants.clock.tick(60)
    headers = {"Authorization": f"Bearer {acme.key}"}
    moment = acme.crm.tenants.steady_clock.uptime()
    for _ in range(limit - 3):  # as by requests, in less time
        acme.crm.limiter.count_request("acme", limit, moment)
    for left in (2, 1, 0):
        answer = send_request(acme.crm, path="/api/v1/users/me", headers=headers)
        assert answer.status == 200
        assert answer.headers["X-RateLimit-Limit"] == str(limit)
        assert answer.headers["X-RateLimit-Remaining"] == str(left)
    answer = send_request(acme.crm, path="/api/v1/users/me", headers=headers)
    assert answer.status == 429
    assert answer.headers["X-RateLimit-Remaining"] == "0"
    acme.crm.tenants.clock.tick(60)
    assert send_request(acme.crm, path="/api/v1/users/me", headers=headers).status == 200


@rows(GENERAL)
def test_general(acme, row):
    PROOFS[row](acme)


# What resources have in common


def resource_proof(template: str, *plurals: str) -> Callable:
    """The function that follows proves the row of each resource; it gets the plural as well."""

    def note(prove: Callable[[Api, str], Any]) -> Callable:
        for plural in plurals:
            row = template.format(plural=plural, noun=plural[:-1])
            proof(row)(partial(prove, plural=plural))
        return prove

    return note


@resource_proof("GET /{plural}", *LEAST)
def _(api, plural):
    ids = [made(api, plural), made(api, plural)]
    assert sorted(record["id"] for record in api.read(f"/{plural}")) == ids


@resource_proof("GET /{plural}/{{id}}", "leads", "products")
def _(api, plural):
    id = made(api, plural)
    assert api.read(f"/{plural}/{id}")["id"] == id


CHANGED = {  # by a partial update
    "leads": {"comment": "VIP"},
    "clients": {"name": "ТОВ «Волошка»", "tags": ["опт"]},
    "products": {"price": 990, "active": False},
    "tasks": {"type": "email", "status": "in_progress"},
}


@resource_proof("PATCH /{plural}/{{id}}", *CHANGED)
def _(api, plural):
    changes_only_what_is_sent(api, f"/{plural}/{made(api, plural)}", CHANGED[plural])


@resource_proof("DELETE /{plural}/{{id}}", "leads", "clients")
def _(api, plural):
    is_deleted(api, f"/{plural}", made(api, plural))


@resource_proof("{noun}.created", *LEAST)
def _(api, plural):
    return {plural[:-1]: f"/{plural}/{made(api, plural)}"}


# Leads


@proof("POST /leads", "The create-lead response returns the lead identifier as a string in lead_id")
def _(api):
    answer = api.post(
        "/leads", {"name": "Марія", "phone": "+380671234567", "source": "site", "comment": "!"}
    )
    assert answer.status_code == 201
    assert answer.json == {"status": "ok", "lead_id": "1"}
    lead = api.read("/leads/1")
    assert (lead["name"], lead["source"], lead["comment"]) == ("Марія", "site", "!")


def changes_only_what_is_sent(api: Api, path: str, change: dict[str, Any]) -> None:
    before = api.read(path)
    assert all(before[name] != value for name, value in change.items())
    api.crm.tenants.clock.tick(5)
    answer = api.patch(path, change)
    assert answer.status_code == 200, answer.text
    after = api.read(path)
    assert answer.json == after
    differing = {name for name in before if before[name] != after[name]}
    assert differing - {"updated_at", "version"} == set(change)
    assert {name: after[name] for name in change} == change


def is_deleted(api: Api, path: str, id: str) -> None:
    other = api.create(path, **LEAST.get(path[1:], {"name": "Доставка", "price": 1}))
    answer = api.delete(f"{path}/{id}")
    assert (answer.status_code, answer.data) == (204, b"")
    assert api.get(f"{path}/{id}").status_code == 404
    assert [record["id"] for record in api.read(path)] == [other]


# Clients


@proof("GET /clients/{id}", "Client.contacts are returned with the client card")
def _(api):
    id = made(api, "clients", tags=["опт"], contacts=[{"name": "Олена"}])
    card = api.read(f"/clients/{id}")
    assert card["tags"] == ["опт"]
    assert [contact["name"] for contact in card["contacts"]] == ["Олена"]


@proof("POST /clients")
def _(api):
    answer = api.post("/clients", {"name": "ТОВ «Ромашка»", "type": "company"})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "client_id": "1"})
    assert api.read("/clients/1")["type"] == "company"


# Deals and deal items


@proof("POST /deals")
def _(api):
    answer = api.post("/deals", {"title": "Крісла для офісу"})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "deal_id": "1"})
    assert api.read("/deals/1")["title"] == "Крісла для офісу"


@proof("PATCH /deals/{id}")
def _(api):
    path = f"/deals/{made(api, 'deals')}"
    changes_only_what_is_sent(api, path, {"amount": 12500.5, "title": "Столи"})
    assert api.patch(path, {"stage_id": "3"}).json["stage_id"] == "3"
    moved = api.patch(path, {"manager": str(TARAS)}).json
    assert (moved["manager"]["id"], moved["assigned_to"]) == (str(TARAS), str(TARAS))


@proof("GET /deals/{id}/items", "Deal: a deal has line items")
def _(api):
    path, _, id = line_of_one(api).rpartition("/")
    assert [(item["id"], item["name"]) for item in api.read(path)] == [(id, "Доставка")]
    assert api.read(path.removesuffix("/items"))["amount"] == 200


@proof("POST /deals/{id}/items")
def _(api):
    deal = made(api, "deals")
    product = made(api, "products")
    answer = api.post(f"/deals/{deal}/items", {"product_id": product, "quantity": 2})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "item_id": "1"})
    (item,) = api.read(f"/deals/{deal}/items")
    assert (item["name"], item["price"], item["total"]) == ("Крісло", 1250.5, 2501)
    assert api.read(f"/deals/{deal}")["amount"] == 2501


@proof("PATCH /deals/{id}/items/{itemId}")
def _(api):
    path = line_of_one(api)
    totals = [
        api.patch(path, change).json["total"]
        for change in ({"quantity": 3}, {"discount": 10}, {"price": 50})
    ]
    assert totals == [300, 270, 135]


@proof("DELETE /deals/{id}/items/{itemId}")
def _(api):
    path, _, id = line_of_one(api).rpartition("/")
    is_deleted(api, path, id)


# Products


@proof("POST /products")
def _(api):
    answer = api.post("/products", FIELDS["Product"])
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "product_id": "1"})
    product = api.read("/products/1")
    assert {name: product[name] for name in FIELDS["Product"]} == FIELDS["Product"]


@proof("DELETE /products/{id}")
def _(api):
    is_deleted(api, "/products", made(api, "products"))
    used = made(api, "products", sku="CH-1")
    deal = made(api, "deals")
    api.create(f"/deals/{deal}/items", product_id=used)
    assert api.delete(f"/products/{used}").status_code == 204
    assert api.get(f"/products/{used}").status_code == 404
    (item,) = api.read(f"/deals/{deal}/items")
    assert (item["product_id"], item["sku"], item["name"]) == (used, "CH-1", "Крісло")


@proof("POST /products/import", "Product.sku is the key during CSV import")
def _(api):
    known = made(api, "products", sku="CH-1")
    answer = imported(
        api,
        "sku,name,price,unit,category,description,active\n"
        "CH-1,Крісло,1300.00,шт,Крісла,Нове,false\n"
        "CH-2,Стіл,2500,шт,Столи,,true\n"
        "CH-3,,1,,,,\n",
    )
    assert answer.status_code == 200
    assert answer.json == {"status": "ok", "created": 1, "updated": 1, "skipped": 1}
    product = api.read(f"/products/{known}")
    assert (product["price"], product["unit"], product["active"]) == (1300, "шт", False)
    (product,) = api.read("/products?sku=CH-2")
    assert (product["name"], product["price"], product["category"]) == ("Стіл", 2500, "Столи")
    assert [event["type"] for event in api.read("/events")][-1] == "product.imported"


@proof("GET /products/export")
def _(api):
    made(api, "products", sku="CH-1", category="Крісла, м'які")
    answer = api.get("/products/export")
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    assert answer.data.decode() == (
        "sku,name,price,unit,category,description,active\r\n"
        'CH-1,Крісло,1250.50,,"Крісла, м\'які",,true\r\n'
    )


# Tasks


@proof("POST /tasks")
def _(api):
    answer = api.post("/tasks", {"title": "Зателефонувати", "type": "call"})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "task_id": "1"})
    assert api.read("/tasks/1")["type"] == "call"


@proof("POST /tasks/{id}/complete")
def _(api):
    id = made(api, "tasks")
    answer = api.post(f"/tasks/{id}/complete")
    assert (answer.status_code, answer.json["status"]) == (200, "done")
    assert api.read(f"/tasks/{id}")["status"] == "done"


# Pipelines and users


@proof("GET /pipelines", "Pipeline: a funnel; listed with its stages")
def _(api):
    pipelines = api.read("/pipelines")
    assert [pipeline["name"] for pipeline in pipelines] == ["Sales", "Опт"]
    assert [stage["name"] for stage in pipelines[0]["stages"]][:2] == ["New", "Qualified"]
    for pipeline in pipelines:
        assert pipeline["stages"] == api.read(f"/pipelines/{pipeline['id']}/stages")


@proof("GET /pipelines/{id}/stages", "Stage: belongs to one pipeline")
def _(api):
    stages = api.read("/pipelines/1/stages")
    assert [stage["id"] for stage in stages] == ["1", "2", "3", "4", "5", "6"]
    others = api.read("/pipelines/2/stages")
    assert {stage["pipeline_id"] for stage in others} == {"2"}
    assert not {stage["id"] for stage in others} & {stage["id"] for stage in stages}


@proof("GET /users")
def _(api):
    assert [user["name"] for user in api.read("/users")] == ["Olena", "Taras"]


@proof(
    "GET /users/me",
    "User: a user of the tenant; the current authorised user is available separately",
)
def _(api):
    me = api.read("/users/me")
    assert me["name"] == "Olena"
    (user,) = (user for user in api.read("/users") if user["id"] == me["id"])
    assert {name: me[name] for name in user} == user


# Resources and their fields


@proof("Deal.manager")
def _(api):
    deal = api.read(f"/deals/{made(api, 'deals', manager=str(TARAS))}")
    assert deal["manager"] == {"id": str(TARAS), "name": "Taras"}


@proof("Deal item.itemId is a path identifier")
def _(api):
    path = line_of_one(api)
    another = made(api, "deals")
    assert api.patch(path, {"quantity": 1}).status_code == 200
    elsewhere = f"/deals/{another}/items/{path.rpartition('/')[2]}"
    assert api.patch(elsewhere, {"quantity": 1}).status_code == 404


# Rules


@proof("Lead.name is required on create")
def _(api):
    is_required(api, "/leads", {"phone": "+380671234567"}, "name")


def is_required(api: Api, path: str, body: dict[str, Any], *missing: str) -> None:
    answer = api.post(path, body)
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json["errors"]} == {f"/{x}" for x in missing}
    assert api.read(path) == []


@proof("Product.name is required on create", "Product.price is required on create")
def _(api):
    is_required(api, "/products", {"price": 1}, "name")
    is_required(api, "/products", {"name": "Крісло"}, "price")


@proof("Lead.phone or Lead.email is required on create")
def _(api):
    is_required(api, "/leads", {"name": "Марія"}, "phone", "email")
    api.create("/leads", name="Марія", phone="+380671234567")
    api.create("/leads", name="Марія", email="maria@example.com")


@proof("Lead.phone is in international format")
def _(api):
    for sent in ("+380 67 123-45-67", "067 123 45 67", "+380671234567"):
        id = api.create("/leads", name="Марія", phone=sent)
        assert api.read(f"/leads/{id}")["phone"] == "+380671234567"


@proof("Identifiers appear in paths as {id} and {itemId}")
def _(api):
    paths = api.get("/openapi.json").json["paths"]
    assert {name.partition(" ")[2] for name in OPERATIONS} <= set(paths)


# Events


EVENT_OF_CHANGE = {
    "deal.won": {"status": "won"},
    "deal.lost": {"status": "lost"},
    "product.updated": {"price": 990},
    "client.updated": {"tags": ["опт"]},
}


def change_a_record(api: Api, row: str) -> dict[str, str]:
    noun = row.partition(".")[0]
    path = f"/{noun}s/{made(api, f'{noun}s')}"
    api.patch(path, EVENT_OF_CHANGE[row])
    return {noun: path}


for row in EVENT_OF_CHANGE:
    proof(row)(partial(change_a_record, row=row))


@proof("lead.converted")
def _(api):
    answer = api.post(f"/leads/{made(api, 'leads')}/convert")
    assert answer.status_code == 201
    return {noun: f"/{noun}s/{answer.json[f'{noun}_id']}" for noun in ("lead", "deal", "client")}


@proof("deal.stage_changed")
def _(api):
    path = f"/deals/{made(api, 'deals')}"
    api.patch(path, {"stage_id": "3"})
    stages = "/pipelines/1/stages"
    return {"deal": path, "from_stage": f"{stages}/1", "to_stage": f"{stages}/3"}


@proof("deal.items_changed")
def _(api):
    deal = line_of_one(api).rpartition("/items/")[0]
    return {"deal": deal, "items": f"{deal}/items"}


@proof("product.imported")
def _(api):
    path = imported(api, "sku,name,price\nCH-1,Крісло,1\n").headers["Location"]
    data = api.read(path.partition("/api/v1")[2])
    response = api.read("/events")[-1]["data"]["import"]
    assert {name: data[name] for name in response} == response
    assert set(response) == {"id", "created", "updated", "skipped"}
    return {}


@proof("task.completed")
def _(api):
    path = f"/tasks/{made(api, 'tasks')}"
    api.post(f"{path}/complete")
    return {"task": path}


# What the service does; authentication, errors, limits, versioning


@proof(
    "The service is multi-tenant: each tenant has its own host",
    "Keys are tenant-bound through the tenant host",
)
def _(api):
    made(api, "leads")
    globex = Api(api.crm, "globex", key_for(api.crm, "globex", "*"))
    assert (len(api.read("/leads")), globex.read("/leads")) == (1, [])
    assert Api(api.crm, "globex", api.key).get("/leads").status_code == 401


@proof("The tenant label consists of Latin letters, digits and hyphen only")
def _(api):
    good, bad = ["acme", "ACME", "a-1"], ["аcme", "ac_me", "ac me", "-acme", "a.b"]
    api.crm.tenants.create("a-1")
    for label in good + bad:
        answer = send_request(api.crm, host=f"{label}.localhost")
        assert answer.status == (401 if label in good else 404), label


@proof("The host is followed by the path prefix /api/v1", "The version is part of the path")
def _(api):
    headers = {"Authorization": f"Bearer {api.key}"}
    assert send_request(api.crm, path="/api/v1/leads", headers=headers).status == 200
    assert send_request(api.crm, path="/api/v2/leads", headers=headers).status == 404
    assert api.get("/openapi.json").json["servers"] == [{"url": "/api/v1"}]
    # Without the prefix it is the cabinet's page, for people who have logged in.
    assert send_request(api.crm, path="/leads", headers=headers).status == 302


@proof("Creating leads from a website form in one request")
def _(api):
    form = Api(api.crm, "acme", key_for(api.crm, "acme", "leads:create"))
    id = form.create("/leads", name="Марія", phone="067 123 45 67", source="site-form")
    assert api.read(f"/leads/{id}")["source"] == "site-form"


@proof("Bodies are JSON, except product import and product export")
def _(api):
    answer = api.call("POST", "/leads", data="name=Марія", content_type="text/plain")
    assert answer.status_code == 415
    assert api.post("/leads", LEAST["leads"]).mimetype == "application/json"
    assert api.get("/leads").mimetype == "application/json"
    assert api.post("/products/import", {}).status_code == 415
    assert imported(api, "sku,name,price\n").status_code == 200
    assert api.get("/products/export").mimetype == "text/csv"


@proof("Every request carries the header Authorization with the value Bearer <API_KEY>")
def _(api):
    for authorization, status in ((f"Bearer {api.key}", 200), (api.key, 401), ("", 401)):
        answer = api.get("/leads", headers={"Authorization": authorization})
        assert answer.status_code == status


@proof("Any number of keys may be created")
def _(api):
    keys = [key_for(api.crm, "acme", "*") for _ in range(50)]
    assert len(set(keys)) == 50
    for key in keys:
        assert Api(api.crm, "acme", key).get("/users/me").status_code == 200


@proof("Keys carry access rights")
def _(api):
    reader = Api(api.crm, "acme", key_for(api.crm, "acme", "leads:read"))
    assert reader.get("/leads").status_code == 200
    assert reader.post("/leads", LEAST["leads"]).status_code == 403
    assert reader.get("/deals").status_code == 403


@proof("A key is displayed once, at the moment of creation")
def _(api):
    key = key_for(api.crm, "acme", "*")
    Api(api.crm, "acme", key).get("/users/me")
    assert key not in api.get("/users/me").text
    files = [path for path in api.crm.tenants.config.data.rglob("*") if path.is_file()]
    assert files
    assert not any(key.encode() in path.read_bytes() for path in files)


@proof("Success of a create call is 201 and a JSON body whose status is the text ok")
def _(api):
    for plural, fields in LEAST.items():
        answer = api.post(f"/{plural}", fields)
        assert answer.status_code == 201
        assert answer.json == {"status": "ok", f"{plural[:-1]}_id": "1"}
    answer = api.post("/deals/1/items", {"name": "Доставка", "price": 1})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "item_id": "1"})


@proof("Responses carry X-RateLimit-Remaining and X-RateLimit-Reset")
def _(api):
    left = []
    for path in ("/leads", "/leads/9", "/leads?what=1"):
        headers = api.get(path).headers
        left.append(int(headers["X-RateLimit-Remaining"]))
        assert 0 < int(headers["X-RateLimit-Reset"]) - api.crm.tenants.clock() <= 60
    assert left == [left[0], left[0] - 1, left[0] - 2]
