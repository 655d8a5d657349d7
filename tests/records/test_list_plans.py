"""How lists are read (D3): for every filter and order that a list declares, the plan of its SQL.

Lists, filters and orders are found in the declarations, so a new one is covered by itself. A filter
of a new kind fails until VALUES has what to send for it. The indexes of the orders have the columns
of all filters but those that are declared to find few records or to be a range.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import pytest
from werkzeug.datastructures import MultiDict

from crm import CRMApp
from crm.api.operations import Operation
from crm.installation.tenants import Tenants
from crm.records import fields, list_plans, pagination, parameters, queries
from crm.records.tags import Tag
from crm.records.words import WordField
from crm.resources import AUDITED_VIEWS
from crm.resources.files import record as files
from crm.resources.inbound.calls import InboundCall
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD
from crm.resources.papers import company
from crm.resources.papers import record as papers
from crm.resources.papers.links import PaperLink
from crm.storage.dialect import quoted
from crm.storage.reading import BoundedRows
from crm.storage.session import current_session, execute, rows, transaction
from tests.conftest import Api, Clock, serve_installation
from tests.installations import config_for, copy_installation
from tests.other_resources import bodies_of_others

pytestmark = [pytest.mark.files, pytest.mark.slow]

OLD, LATER = "2020-01-01T00:00:00Z", "2036-01-01T00:00:00Z"
MOMENT = "2026-03-02T09:00:03Z"  # some records are older, some newer
PHONES, EMAILS = ("+380671234567", "+380501112233"), ("olena@example.com", "taras@example.com")
COUNT = 6  # records of each noun
SUBQUERIES = r"\(|few\b|listed\b|newest\b"  # as plans name them
PLANS = {"few": (1000, 5000), "many": (-1, -1)}

# What to send, by the kind of the filter, or one that it is made of, and of what is inside.
VALUES: dict[tuple[type, type | None], tuple[str, ...]] = {
    (parameters.Equals, fields.Choice): (),  # its own
    (parameters.Equals, fields.Text): ("any", "other"),
    (parameters.Equals, WordField): ("any", "other"),
    (parameters.Equals, fields.Phone): PHONES,
    (parameters.Equals, fields.Email): EMAILS,
    (parameters.Equals, fields.Currency): ("UAH", "USD"),
    (parameters.Reference, fields.Id): ("1", "2"),
    (parameters.Ids, fields.Id): ("1,2,3,5",),
    (parameters.UserReference, fields.Id): ("1", "none", "me"),
    (Tag, fields.Text): ("any", "other"),
    (parameters.BooleanFilter, fields.Boolean): ("true", "false"),
    (parameters.Since, fields.DateTime): (MOMENT, OLD),
    (parameters.Before, fields.DateTime): (MOMENT, LATER),
    (parameters.Since, fields.Amount): ("1",),
    (parameters.UpTo, fields.Amount): ("1",),
    (parameters.Since, fields.Date): ("2026-03-02",),
    (parameters.UpTo, fields.Date): ("2026-03-02",),
    (parameters.HasRelated, fields.Boolean): ("true", "false"),
    (parameters.NotEquals, fields.Text): ("any", "other"),
    (parameters.HasValue, fields.Boolean): ("true", "false"),
    (queries.Search, None): ("олена", "ол"),
}
NOT_FILTERS = (
    parameters.PageLimit,
    parameters.PageCursor,
    parameters.Sort,
    parameters.Switch,
    parameters.Expand,
)

# Lists that are short by nature may be sorted. Of these, PARTS are found by what they belong to.
SHORT = {
    "user": "people of one company",
    "pipeline": "pipelines of one company",
    "webhook": "at most as many as the plan allows",
    "stage": "stages of one pipeline",
    "contact": "contacts of one client",
    "deal_item": "items of one deal",
    "note": "notes to one record",
    "file": "files of one record",
    "paper_link": "links to one paper",
    "paper": "those of one deal or client; test_papers.py is about those of a kind",
    "saved_view": "views of people of one company",
    "inbound_hook": "at most 50 of a tenant",
    "batch": "one for each import, merge and restore",
    "custom_field": "at most 50 of a resource",
    "proposal": "those of 30 days, of which at most a hundred wait",
}
PARTS = {
    "stage",
    "contact",
    "deal_item",
    "note",
    "file",
    "paper_link",
    "stage_move",
    "audit_entry",
    "delivery",
    "inbound_call",
}


class Listed(NamedTuple):
    """A list of the API."""

    path: str
    operation: Operation

    @property
    def sort(self) -> parameters.Sort:
        return self.operation.query.fields["sort"]

    @property
    def sorts(self) -> list[str]:
        return [sign + name for name in self.sort.orders for sign in ("", "-")]

    @property
    def filters(self) -> list[parameters.Parameter]:
        return [field for field in self.operation.query.fields.values() if _narrows(field)]

    @property
    def is_kept(self) -> bool:
        return isinstance(self.operation.query, queries.ResourceFilter)

    def page(self, *sent: tuple[str, str]) -> pagination.Page:
        query = self.operation.query.read(MultiDict(sent))
        return self.operation.run(["1"] if "<id>" in self.path else [], [query])

    def ids(self, *sent: tuple[str, str]) -> list[str]:
        """The ids of all pages, which have the same total."""
        results: list[str] = []
        page = self.page(*sent)
        while True:
            results += [record["id"] for record in page.records]
            if page.next_cursor is None:
                assert page.meta.get("total", len(results)) == len(results)
                return results
            page = self.page(*sent, ("cursor", page.next_cursor))


class Asked(NamedTuple):
    """A statement of a list and the steps of its plan."""

    sql: str
    steps: list[str]


Sent = list[tuple[str, str]]


def _narrows(parameter: parameters.Parameter) -> bool:
    return not isinstance(parameter, NOT_FILTERS)


def lists_of(crm: CRMApp) -> list[Listed]:
    results = {}
    for rule in crm.url_map.iter_rules():
        operation = getattr(crm.view_functions[rule.endpoint], "operation", None)
        is_page = operation and operation.kind == "page" and "GET" in rule.methods
        if is_page and "sort" in operation.query.fields:  # the trash and duplicates have one order
            results[rule.rule.removeprefix("/api/v1")] = operation
    return [Listed(*item) for item in sorted(results.items())]


def sendings(parameter: parameters.Parameter) -> list[Sent]:
    """The ways to send a filter: each value, and several if it may be repeated."""
    inner = getattr(parameter, "inner", None)
    kinds = [(kind, type(inner) if inner else None) for kind in type(parameter).__mro__]
    result = next(VALUES[kind] for kind in kinds if kind in VALUES)
    result = result or tuple(parameter.schema_type()["enum"])[:2]
    alone: list[Sent] = [[(parameter.name, value)] for value in result]
    several: list[Sent] = [[(parameter.name, value) for value in result]]
    return alone + several if parameter.repeated and len(result) > 1 else alone


def is_in_orders(parameter: parameters.Parameter) -> bool:
    """Whether an index of an order is to have the column of a filter, to pass what it refuses."""
    if isinstance(parameter, queries.Search):
        return False  # search.py chooses by how common the words are
    sent = [value for _, value in sendings(parameter)[0]]
    condition = parameter.condition(sent, parameter.column or parameter.name)
    # Those of few records are read by their ids, and a range begins in its own order.
    return not (condition.reads_row or condition.names_ids or condition.span)


@pytest.fixture(scope="module")
def crm(wired: CRMApp, furnished, tmp_path_factory) -> Iterator[CRMApp]:
    """Records of each kind at acme, about half of which pass each filter."""
    folder = tmp_path_factory.mktemp("plans") / "data"
    copy_installation(furnished[0], folder)
    clock = Clock()
    serve_installation(wired, config_for(folder), clock)
    fill(Api(wired, "acme", furnished[1]["olena"]), clock)
    yield wired
    wired.tenants.forget_idle()


FILLED = ("leads", "clients", "products", "deals", "tasks", "pipelines", "webhooks", "views")
FILLED += ("inbound-hooks", "fields")


def fill(api: Api, clock: Clock) -> None:
    for n in range(COUNT):
        clock.tick(n % 3)
        word, half = ("any", "other")[n % 2], n // 2 % 2
        name, own = ("Олена", "Тарас")[half], {"external_id": ("any", "other")[n]} if n < 2 else {}
        due = {"due_at": (OLD, MOMENT)[half]} if n % 3 else {}
        whose = {"assigned_to": ("1", "2", None)[n % 3], **own}
        reached = {"phone": PHONES[n % 2], "email": EMAILS[half]}
        status = ("new", "in_progress")[half]
        tags, type = ["any", "other"][: n % 3], ("company", "person")[half]
        told = {"source": word, "status": status, "tags": tags, "amount": n % 3 or None}
        api.create("/leads", name=name, **told, **reached, **whose)
        api.create("/clients", name=name, tags=tags, type=type, **reached, **whose)
        api.create("/clients/1/contacts", name=name, phone=PHONES[half])
        sku = {"sku": word} if n < 2 else {}
        api.create("/products", name=name, price=1, category=word, active=bool(half), **sku, **own)
        closes = {"tags": tags, "expected_close_date": (None, "2026-03-02", "2026-03-05")[n % 3]}
        of = {"client_id": f"{1 + half}", "amount": n % 3}
        api.create("/deals", title=name, **of, **closes, **whose)
        task = {"status": ("open", "in_progress")[half], "type": ("call", "meeting")[n % 2]}
        of = {"lead_id": f"{1 + half}", "client_id": "1", "deal_id": f"{1 + n % 2}"}
        api.create("/tasks", title=name, **task, **due, **whose, **(of if n else {}))
        api.create("/pipelines", name="Опт")
        api.create("/webhooks", url="https://erp.example.com/crm")
        resource = ("leads", "clients")[half]
        api.create("/views", resource=resource, name=f"{name} {n}", shared=bool(n % 2))
        change = {"ids": ["1"], "action": "delete", "why": name}
        sent = {"action": "add_tag", "tag": word, "apply": True} if resource == "leads" else {}
        assert api.post("/proposals", {"resource": resource, **change, **sent}).status_code == 201
        api.create("/fields", resource=resource, label=f"{word} {n}", type="text")
        api.post("/webhooks/1/test")
        api.create("/pipelines/1/stages", name="Договір")
        api.create("/deals/1/items", name="Доставка", price=5)
        api.patch("/deals/1", {"stage_id": str(1 + (n + 1) % 3)})
        for noun in ("lead", "client", "deal"):
            api.create(f"/{noun}s/1/notes", text=name)
            api.patch(f"/{noun}s/{1 + half}", {"comment": f"{n}"})
        if n % 2:
            api.patch(f"/deals/{n + 1}", {"status": ("won", "lost")[half]})
        for noun in ("product", "task"):
            api.patch(f"/{noun}s/{1 + half}", {"description": f"{n}"})
        if n < 2:
            api.create("/inbound-hooks", name=name, target="lead")
        api.patch("/deals/1", {"amount_mode": "items"})
        with api.crm.tenants.session("acme"), transaction():
            InboundCall.add({"hook_id": 1, "state": ("done", "failed")[half], "body": "{}"})
            for noun in files.NOUNS:
                stored = {"name": f"{n}", "size": 1, "sha256": "0" * 64, "content_type": "a/a"}
                files.attach(noun, 1, stored)
            company.update(requisites={"legal_name": "A", "iban": "UA213223130000026007233566001"})
            paper = papers.add(1, {"kind": ("offer", "invoice")[half]})
            PaperLink.add({"paper_id": 1, "hash": b"%d" % n, "expires_at": MOMENT, "seen_count": 0})
        if half and n % 3:
            api.patch(f"/papers/{paper.id}", {"paid_amount": 1})
        elif n % 3:
            api.post(f"/papers/{paper.id}/void")
        for plural, body in bodies_of_others(api.crm, FILLED, name).items():
            api.create(f"/{plural}", **body, **own)
            api.patch(f"/{plural}/1", {"extra": {"n": n}})
        restored = f"/{('leads', 'tasks')[half]}/{n + 1}"
        api.delete(restored)
        api.post(f"{restored}/restore")  # which is a batch
    for noun in AUDITED_VIEWS:
        api.delete(f"/{noun}/4")


@pytest.fixture
def asked(crm, monkeypatch) -> Iterator[list[Asked]]:
    """The statements that lists run in this visit of acme, with their plans."""
    found: list[Asked] = []

    def noting(run: Callable) -> Callable:
        def ask(sql: str, params: Sequence[Any] = ()) -> Any:
            found.append(Asked(sql, steps_of(sql, params)))
            return run(sql, params)

        return ask

    with crm.tenants.session("acme"):
        current_session().user_id = 1
        read = BoundedRows.read

        def note_page(found: BoundedRows, sql: str, params: Sequence[Any]) -> None:
            noting(lambda *_: read(found, sql, params))(sql, params)

        monkeypatch.setattr(BoundedRows, "read", note_page)
        monkeypatch.setattr(list_plans, "value_of_all", noting(list_plans.value_of_all))
        yield found


def steps_of(sql: str, params: Sequence[Any]) -> list[str]:
    """The steps of a plan, but those that show the parts of a record already found."""
    parts: set[int] = set()
    results = []
    session = current_session()
    sql, params = session.limited(sql, params)
    for id, parent, _, step in session.connection.execute(f"EXPLAIN QUERY PLAN {sql}", params):
        if parent in parts or step.startswith("CORRELATED"):
            parts.add(id)
        else:
            results.append(step)
    return results


def faults(asked: Asked, sort: str) -> list[str]:
    """What is wrong with the plan of one statement."""
    is_sample = f"LIMIT {list_plans.SAMPLE_ROWS}" in asked.sql  # the first records of a walk
    is_count = re.match(r"SELECT \(?(SELECT )?count\(", asked.sql) and not is_sample
    # Records that are read by their ids are few, and may be sorted.
    by_ids = "id IN (" in asked.sql and any("rowid=?" in step for step in asked.steps)
    is_short = any(f" FROM {quoted(name)} " in asked.sql for name in SHORT)
    results = []
    for step in asked.steps:
        if step.startswith("USE TEMP B-TREE") and not (by_ids or is_short):
            results.append(step)
        scanned = re.fullmatch(rf"SCAN (?!CONSTANT|json_each|{SUBQUERIES})(\w+)(.*)", step)
        if scanned and not is_count:
            results += _unbounded(scanned[1], scanned[2].replace(" COVERING", ""), asked, sort)
        elif scanned and "COVERING INDEX" not in step and scanned[1] not in SHORT:
            # Only a search counts by reading all rows.
            results += [] if scanned[2] == "" and "instr(" in asked.sql else [step]
    return results


def unsought(asked: Asked) -> list[str]:
    """The steps of a further page that don't begin at the cursor."""
    if asked.sql.startswith("SELECT count(") or any(
        f" FROM {quoted(name)} " in asked.sql for name in SHORT
    ):
        return []
    # Without an index it is the look-up of the highest id.
    sought = r"SEARCH \w+( USING .*(=\? AND (id|rowid)[<>]\?|[<>]\?|rowid=\?)\))?|(?!SCAN|SEARCH).*"
    inner = [step for step in asked.steps if not re.match(rf"SCAN (json_each|{SUBQUERIES})", step)]
    at = next((n for n, step in enumerate(inner) if step.startswith("LIST")), len(inner))
    return [step for step in inner[:at] if not re.fullmatch(sought, step)]


def _unbounded(table: str, how: str, asked: Asked, sort: str) -> list[str]:
    """A first page may walk the order's index, or the table itself in order of id."""
    order = sort.removeprefix("-")
    allowed = "" if order == "id" else f" USING INDEX {table}_{order}"
    if table in SHORT and table not in PARTS:
        return []
    return [] if how == allowed else [f"SCAN {table}{how}"]


def test_each_list_has_several_pages_here(crm, asked):
    lists = lists_of(crm)
    assert len(lists) > 20
    for listed in lists:
        assert listed.page(("limit", "1")).next_cursor, listed.path


def test_lists_of_a_seller_walk_over_no_records_of_others(crm, asked):
    current_session().own_user_id = 2
    for listed in lists_of(crm):
        if listed.path not in ("/leads", "/clients", "/deals", "/tasks"):
            continue
        for sent in (*([("sort", sort)] for sort in listed.sorts), [("total", "true")]):
            asked.clear()
            records = listed.page(*sent).records
            assert records and {record["assigned_to"] for record in records} <= {"2"}, sent
            steps = [step for statement in asked for step in statement.steps]
            assert any("assigned_to=?" in step for step in steps), (sent, steps)
            walked = [
                step for step in steps if re.match(r"SCAN (main\.)?(lead|client|deal|task)", step)
            ]
            assert not walked, (listed.path, sent)


@pytest.mark.parametrize("plan", PLANS)
def test_every_filter_in_every_order_reads_by_an_index(crm, asked, monkeypatch, plan):
    """`few`: by the filter's own index. `many`: along the order's. With the cursor of the first
    page and without, alone and with what was deleted."""
    monkeypatch.setattr(list_plans, "MAX_SORTED", PLANS[plan][0])
    monkeypatch.setattr(list_plans, "MAX_SORTED_BY_ID", PLANS[plan][1])
    wrong = []
    for listed in lists_of(crm):
        ways: list[Sent] = [[], *(sent for item in listed.filters for sent in sendings(item))]
        if listed.is_kept:
            deleted = [("updated_since", OLD), ("include_deleted", "true")]
            ways += [deleted + sent for sent in ways if sent and sent[0][0] != "updated_since"]
        for sort in listed.sorts if plan == "many" else listed.sorts[::2]:
            for sent in ways:
                asked.clear()
                paged = [*sent, ("sort", sort), ("limit", "1")]
                page = listed.page(*paged, ("total", "true"))
                results = [(item, fault) for item in asked for fault in faults(item, sort)]
                if page.next_cursor:
                    asked.clear()
                    listed.page(*paged, ("cursor", page.next_cursor))
                    results += [(item, fault) for item in asked for fault in faults(item, sort)]
                    results += [(item, step) for item in asked for step in unsought(item)]
                wrong += [
                    f"{listed.path} {sent} {sort}: {fault}: {item.sql}" for item, fault in results
                ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.deep
def test_two_filters_read_by_an_index_and_both_plans_find_the_same(crm, asked, monkeypatch):
    wrong = []
    for listed in lists_of(crm):
        for number, pair in enumerate(combinations(listed.filters, 2)):
            sent = [sendings(item)[number % 2 and -1][0] for item in pair]
            for sort in (listed.sorts * 2)[number % 2 : len(listed.sorts) : 2]:
                results = {}
                for name, plan in PLANS.items():
                    monkeypatch.setattr(list_plans, "MAX_SORTED", plan[0])
                    monkeypatch.setattr(list_plans, "MAX_SORTED_BY_ID", plan[1])
                    asked.clear()
                    paged = [*sent, ("sort", sort), ("limit", "2"), ("total", "true")]
                    results[name] = listed.ids(*paged)
                    wrong += [
                        f"{listed.path} {sent} {sort}: {fault}: {item.sql}"
                        for item in asked
                        for fault in faults(item, sort)
                    ]
                assert results["few"] == results["many"], (listed.path, sent, sort)
    assert not wrong, "\n".join(wrong)


def plan_of(asked: list[Asked], *sent: tuple[str, str]) -> str:
    """The steps of the page of leads itself."""
    asked.clear()
    query = LEAD_FILTER.read(MultiDict(sent))
    pagination.page(LEAD, query, LEAD_FILTER.fields["sort"])
    return "\n".join(asked[-1].steps)


def test_few_records_are_found_by_the_index_of_their_filter(asked, monkeypatch):
    sent = [("status", "new"), ("source", "any"), ("sort", "name")]
    assert "INDEX lead_s" in plan_of(asked, *sent)  # of status or source, which has fewer
    monkeypatch.setattr(list_plans, "MAX_SORTED", 2)  # three are new
    assert plan_of(asked, *sent) == "SCAN lead USING INDEX lead_name"


def test_the_oldest_of_the_newest_are_not_looked_for_among_all_before_them(asked, monkeypatch):
    monkeypatch.setattr(list_plans, "MAX_SORTED", -1)
    monkeypatch.setattr(list_plans, "MAX_SORTED_BY_ID", -1)
    monkeypatch.setattr(list_plans, "SAMPLE_ROWS", 0)
    by_ids, begun = "PRIMARY KEY (rowid=?)", "SEARCH lead USING INTEGER PRIMARY KEY (rowid{}?)"
    for name, sort in (("created", "id"), ("updated", "id"), ("updated", "created_at")):
        assert by_ids in plan_of(asked, (f"{name}_since", MOMENT), ("sort", sort))
        looked_up = f"SEARCH lead USING COVERING INDEX lead_{name}_at ({name}_at>?)"
        assert looked_up in asked[-2].steps
    assert begun.format("<") in plan_of(asked, ("created_until", MOMENT))
    # Of the tag rows are read.
    sent = [("updated_since", MOMENT), ("tag", "any")]
    by_time = plan_of(asked, *sent, ("sort", "created_at"))
    assert "SEARCH lead USING INDEX lead_created_at (created_at>?)" in by_time
    assert begun.format(">") in plan_of(asked, *sent, ("sort", "id"))
    monkeypatch.setattr(list_plans, "MAX_WALKED", 0)  # one is far from the others
    assert by_ids in plan_of(asked, *sent, ("sort", "id"))


def test_the_index_of_an_order_has_the_columns_of_all_filters(crm):
    """So that records which a filter refuses are passed without being read."""
    for listed in lists_of(crm):
        if not listed.is_kept:
            continue
        table = listed.path[1:-1]
        with crm.tenants.session("acme"):
            equal = {item.column or item.name for item in listed.filters if is_in_orders(item)}
        for order in listed.sort.orders.keys() - {"id"}:
            with crm.tenants.session("acme"):
                index = {name for _, _, name in rows(f"PRAGMA index_info({table}_{order})")}
            assert equal | {"id", "deleted_at"} <= index, (table, order)


MANY = 3000  # leads, of three names and entered at three moments, and so changed
INSERT_MANY = f"""
    INSERT INTO lead (name, phone, status, source, assigned_to, currency, created_at, updated_at)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY})
    SELECT 'Lead ' || (n * 7 % 3), '+380671234567', 'new', 'api', n % 2 + 1, 'UAH',
        '2026-03-0' || (n / 1000 + 1) || 'T09:00:00Z', '2026-04-0' || (n % 3 + 1) || 'T09:00:00Z'
    FROM n
"""


@pytest.fixture
def many(wired, furnished, tmp_path) -> Iterator[Listed]:
    """The list of leads, many of them at acme, in a visit."""
    copy_installation(furnished[0], tmp_path / "data")
    tenants = Tenants(config_for(tmp_path / "data"), Clock())
    with tenants.session("acme"):
        with transaction():
            execute(INSERT_MANY)
        yield next(item for item in lists_of(wired) if item.path == "/leads")
    tenants.forget_idle()


@pytest.fixture
def asked_sql(monkeypatch) -> list[tuple[str, Sequence[Any]]]:
    """The statements by which plans are chosen, with their parameters."""
    asked: list[tuple[str, Sequence[Any]]] = []
    read = list_plans.value_of_all

    def note(sql: str, params: Sequence[Any]) -> Any:
        asked.append((sql, params))
        return read(sql, params)

    monkeypatch.setattr(list_plans, "value_of_all", note)
    return asked


def effort(listed: Listed, sent: Sent) -> tuple[int, pagination.Page]:
    """How many instructions SQLite carries out for a page."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    current_session().connection.set_progress_handler(tick, 1)
    page = listed.page(*sent)
    current_session().connection.set_progress_handler(None, 0)
    return count, page


@pytest.mark.parametrize("narrowed", ["", "status=new", "created_since", "updated_since"])
def test_a_deep_page_costs_what_the_first_one_does(many, narrowed):
    """Also within records of one value, of which there are a thousand."""
    name, _, value = narrowed.partition("=")
    sent = [(name, value or OLD)] if name else []
    for sort in many.sorts:
        asked = [*sent, ("sort", sort)]
        first, page = effort(many, asked)
        for _ in range(MANY // 200 - 2):
            page = many.page(*asked, ("limit", "200"), ("cursor", page.next_cursor))
        deep, page = effort(many, [*asked, ("cursor", page.next_cursor)])
        assert len(page.records) == 50
        assert deep <= 1.25 * first, sort


def test_a_walk_that_meets_matches_soon_is_chosen_before_records_are_counted(many, asked_sql):
    counts = "SELECT count(*) FROM (SELECT id"
    for sent, walks in (
        ([("assigned_to", "1"), ("status", "new")], True),
        ([("created_since", "2026-03-02T00:00:00Z")], True),
        ([("created_since", "2026-03-03T00:00:00Z"), ("sort", "id")], False),
        ([("updated_since", "2026-04-03T00:00:00Z"), ("sort", "-updated_at")], True),
    ):
        asked_sql.clear()
        assert many.page(*sent).records
        limits = {params[-1] for sql, params in asked_sql if sql.startswith(counts)}
        assert (limits == {list_plans.MAX_READ_BY_ID + 1} or not limits) == walks, sent


@pytest.mark.parametrize("own", [None, 2])
def test_each_plan_finds_the_same_records(many, monkeypatch, own):
    current_session().own_user_id = own
    changed = [("updated_since", "2026-04-02T00:00:00Z")]
    for sent in (
        [("status", "new"), ("assigned_to", "2")],
        [("created_until", "2026-03-03T00:00:00Z")],
        [("created_since", "2026-03-02T00:00:00Z"), ("sort", "id")],
        [*changed, ("sort", "id"), ("assigned_to", "2")],
        [*changed, ("sort", "id"), ("assigned_to", "2"), ("phone", PHONES[0])],
        [*changed, ("sort", "created_at")],
        [*changed, ("sort", "-name")],
    ):
        results = []
        for matches, walked in ((1, 20_000), (10_000, 20_000), (10_000, -1)):
            monkeypatch.setattr(list_plans, "MIN_SAMPLE_MATCHES", matches)
            monkeypatch.setattr(list_plans, "MAX_WALKED", walked)
            monkeypatch.setattr(list_plans, "MAX_SORTED_BY_ID", 500)
            results.append(many.ids(*sent, ("limit", "200"), ("total", "true")))
        assert len(results[0]) > 900 and results[0] == results[1] == results[2], sent
