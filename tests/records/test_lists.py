"""Reading lists (D3), shown over leads: pages, cursors, orders, filters, search, the deleted."""

import base64
import re

import pytest

from crm.resources.leads.record import create
from crm.storage.session import time_text, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Api

each = pytest.mark.parametrize
COUNT = 57
ORDERS = ("id", "name", "created_at", "updated_at")
SORTS = [sign + name for name in ORDERS for sign in ("", "-")]


@pytest.fixture(scope="module")
def crm(unlimited_app):
    """57 leads at acme, several with the same name and at the same moment."""
    app = unlimited_app
    with app.tenants.session("acme"), transaction():
        for number in range(1, COUNT + 1):
            create(
                {
                    "name": f"Lead {number % 7}",
                    "phone": f"+38067000{number:04}",
                    "email": f"User{number % 5}@Example.com",
                    "company": "ТОВ «Їжак»" if number % 2 else "100% Rozmarin_2",
                    "source": ("site", "shop", "api")[number % 3],
                    "status": ("new", "qualified")[number % 2],
                    "assigned_to": (None, OLENA, TARAS)[number % 3],
                    "external_id": f"1C-{number}" if number <= 10 else None,
                    "comment": f"дзвонити о {number}:00",
                    "tags": (None, '["опт"]', None, None, None, '["Опт","їжак"]')[number % 8 % 6],
                    "amount": number * 100_000 if number % 4 else None,
                }
            )
            if number % 4 == 0:
                app.tenants.clock.tick(1)
    return app


@pytest.fixture(scope="module")
def api(crm, furnished):
    return Api(crm, "acme", furnished[1]["olena"])


def ids(answer) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [int(record["id"]) for record in answer.json["data"]]


def walk(api, query: str, limit: int) -> list[dict]:
    """All records of a list, page by page, by the cursor or by the link in turn."""
    result, path = [], f"/leads?limit={limit}&{query}"
    for turn in range(COUNT + 2):
        answer = api.get(path)
        assert answer.status_code == 200, answer.text
        assert set(answer.json) == {"data", "meta"}
        assert len(answer.json["data"]) <= limit
        result += answer.json["data"]
        cursor, link = answer.json["meta"]["next_cursor"], answer.headers.get("Link")
        if cursor is None:
            assert link is None
            return result
        assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
        assert len(answer.json["data"]) == limit
        address = r"http://acme\.localhost:8000/api/v1"
        (linked,) = re.fullmatch(rf'<{address}(/leads\?[!-~]+)>; rel="next"', link).groups()
        path = linked if turn % 2 else f"/leads?limit={limit}&{query}&cursor={cursor}"
    raise AssertionError("the pages do not end")


# Pages


def test_a_page_has_50_records_unless_told_otherwise(api):
    answer = api.get("/leads")
    assert ids(answer) == list(range(COUNT, COUNT - 50, -1))  # the newest first
    assert answer.json["meta"]["next_cursor"]
    assert set(answer.json["meta"]) == {"next_cursor"}


@loop_over("sort", SORTS)
@loop_over("limit", [4, 57])
def test_pages_lose_and_repeat_nothing(crm, api, sort, limit):
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    result = walk(api, f"sort={sort}", limit)
    assert len({record["id"] for record in result}) == len(result) == COUNT
    keys = [
        (int(record["id"]) if name == "id" else record[name], int(record["id"]))
        for record in result
    ]
    assert keys == sorted(keys, reverse=descending)


def test_pages_lose_nothing_while_leads_come_and_go(crm, furnished):
    ivan = Api(crm, "globex", furnished[1]["ivan"])
    made = [int(ivan.create("/leads", name="L", phone="+380671234567")) for _ in range(9)]
    seen, cursor = [], ""
    for _ in range(3):
        answer = ivan.get(f"/leads?limit=3{cursor}")
        seen += ids(answer)
        cursor = f"&cursor={answer.json['meta']['next_cursor']}"
        ivan.delete(f"/leads/{seen[-1]}")  # the row that the cursor stands at
        ivan.create("/leads", name="Late", phone="+380671234567")
    assert seen == made[::-1]


def test_the_last_page_may_be_full(api):
    answer = api.get("/leads?ids=1,2,3&limit=3")
    assert ids(answer) == [3, 2, 1]
    assert answer.json["meta"]["next_cursor"] is None and "Link" not in answer.headers


@loop_over(
    "limit",
    ["0", "201", "-1", "1.0", "1e2", "", "+5", " 5", "٣", "0x10", "5 ", "abc", "9" * 400, "true"],
)
def test_any_other_limit_is_refused(api, limit):
    answer = api.get("/leads", query_string={"limit": limit})
    assert answer.status_code == 422
    assert answer.json["errors"] == [
        {"parameter": "limit", "code": "out_of_range", "detail": "must be from 1 to 200"}
    ]


def test_the_total_is_told_when_asked_for(api):
    assert api.get("/leads?total=true&limit=2").json["meta"]["total"] == COUNT
    assert api.get("/leads?total=true&limit=2&source=site").json["meta"]["total"] == COUNT // 3
    assert "total" not in api.get("/leads?total=false").json["meta"]
    assert api.get("/leads?total=yes").status_code == 422
    first = api.get("/leads?limit=20")
    cursor = first.json["meta"]["next_cursor"]
    assert api.get(f"/leads?total=true&cursor={cursor}").json["meta"]["total"] == COUNT


# Cursors


def test_a_cursor_belongs_to_its_list(api):
    cursor = api.get("/leads?limit=5").json["meta"]["next_cursor"]
    assert api.get(f"/leads?cursor={cursor}&limit=7&total=true").status_code == 200
    for path in (
        "/leads?status=new&", "/leads?sort=name&", "/leads?q=lead&", "/leads?ids=1&", "/clients?",
        "/users?", "/leads?assigned_to=me&",
    ):  # fmt: skip
        answer = api.get(f"{path}cursor={cursor}")
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor"), path
    filtered = api.get("/leads?limit=5&status=new&source=site").json["meta"]["next_cursor"]
    assert api.get(f"/leads?limit=5&source=site&status=new&cursor={filtered}").status_code == 200
    assert api.get(f"/leads?limit=5&status=new&cursor={filtered}").status_code == 400


def test_a_strange_cursor_is_refused(api):
    whole = api.get("/leads?limit=5").json["meta"]["next_cursor"]
    text = base64.urlsafe_b64decode(whole + "=" * (-len(whole) % 4))
    made = []
    for other in (
        b"null", b"[]", b"{}", b"1", b'"x"', b"[1,2,3]", b"[null,null,null]", text[:-1],
        text + b"]", text.replace(b",", b",9" * 30 + b","), text.replace(b"]", b".5]"),
        text.replace(b"]", b",1]"),
        re.sub(rb",\d+]", b',"1"]', text), re.sub(rb",\d+]", b",true]", text),
        re.sub(rb",\d+]", b",null]", text), re.sub(rb",\d+]", b"," + b"9" * 30 + b"]", text),
        re.sub(rb",\d+,", b",[1],", text), re.sub(rb",\d+,", b",{},", text), b"\xff\xfe",
        b"[" * 9999,
    ):  # fmt: skip
        made.append(base64.urlsafe_b64encode(other).rstrip(b"=").decode())
    for cursor in [*made, "x", "=", "====", "a" * 5000, "%", "\x00", "é", "..", whole + "!", " "]:
        answer = api.get("/leads", query_string={"cursor": cursor})
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor"), cursor[:60]


# Orders


def test_an_unknown_order_is_refused_and_the_known_are_named(api):
    for sort in ("phone", "--id", "+id", "id,name", "ID", "", "id;DROP TABLE lead", "-", "1"):
        answer = api.get("/leads", query_string={"sort": sort})
        assert answer.status_code == 422, sort
        (fault,) = answer.json["errors"]
        assert (fault["parameter"], fault["code"]) == ("sort", "invalid_choice")
        assert "created_at" in fault["detail"]


def test_leads_without_an_amount_are_the_smallest(api):
    amounts = [lead["amount"] or -1 for lead in walk(api, "sort=-amount", 9)]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-1] == -1


# Filters


@loop_over(
    ("query", "expected"),
    [
        ("source=site&source=shop", lambda n: n % 3 in (0, 1)),
        ("assigned_to=me", lambda n: n % 3 == 1),
        ("assigned_to=none", lambda n: n % 3 == 0),
        ("assigned_to=77", lambda n: False),
        (f"assigned_to={2**63}", lambda n: False),
        (f"assigned_to={2**64}&assigned_to=2", lambda n: n % 3 == 2),
        ("phone=067 000 00 12", lambda n: n == 12),
        ("phone=8(067)0000012&phone=0670000013", lambda n: n in (12, 13)),
        ("email=USER3@example.COM", lambda n: n % 5 == 3),
        ("external_id=1C-4", lambda n: n == 4),
        ("ids=3&ids=5", lambda n: n in (3, 5)),
        ("ids=x,-1,0,3", lambda n: n == 3),
        (f"ids={2**70}", lambda n: False),
        ("created_since=2026-03-02T11:00:10+02:00", lambda n: n > 40),
        ("created_until=2026-03-02T09:00:10Z", lambda n: n <= 40),
        ("created_since=2026-03-02T09:00:10Z&created_until=2026-03-02T09:00:10Z", lambda n: False),
        (
            "created_since=2026-03-02T09:00:10Z&created_until=2026-03-02T09:00:11Z",
            lambda n: 40 < n <= 44,
        ),
        ("source_not=api&source_not=none-such", lambda n: n % 3 != 2),
        ("has_source=true&source_not=api", lambda n: n % 3 != 2),
        ("has_source=false", lambda n: False),
        ("tag=опт&tag=Їжак", lambda n: n % 8 == 5),
        ("tag=їжак&status=qualified", lambda n: n % 8 == 5),
        ("amount_from=100", lambda n: n % 4 != 0 and n >= 10),
        ("amount_from=100.5&amount_to=210", lambda n: n % 4 != 0 and 11 <= n <= 21),
        ("updated_since=2026-03-02T09:00:14Z", lambda n: n > 56),
        ("phone=067 000 000", lambda n: False),
        ("phone=067 000 000&phone=067 000 0003", lambda n: n == 3),
    ],
)
def test_filters(api, query, expected):
    result = ids(api.get(f"/leads?limit=200&{query}"))
    assert result == [number for number in range(COUNT, 0, -1) if expected(number)]


@loop_over(
    ("query", "parameter", "code"),
    [
        ("status=lost", "status", "invalid_choice"),
        ("phone=" + "0" * 33, "phone", "too_long"),
        ("email=abc", "email", "invalid_email"),
        ("created_since=2026-03-02", "created_since", "invalid_time"),
        ("updated_since=2026-03-02T09:00:00", "updated_since", "invalid_time"),
        ("amount_to=1&amount_to=2", "amount_to", "repeated"),
        ("created_since=2026-01-01T00:00:00Z&created_since=2026-01-02T00:00:00Z", "created_since",
         "repeated"),
        ("source=a%00b", "source", "invalid_text"),
        ("Status=new", "Status", "unknown_parameter"),
        ("filter[status]=new", "filter[status]", "unknown_parameter"),
        ("=", "", "unknown_parameter"),
        ("include_deleted=true", "include_deleted", "needs_updated_since"),
        ("include_deleted=yes&updated_since=2026-01-01T00:00:00Z", "include_deleted",
         "invalid_choice"),
    ],
)  # fmt: skip
def test_a_mistyped_filter_never_returns_the_table(api, query, parameter, code):
    answer = api.get(f"/leads?{query}")
    assert answer.status_code == 422
    assert answer.json["code"] == "validation_failed"
    (fault,) = answer.json["errors"]
    assert (fault["parameter"], fault["code"]) == (parameter, code)
    assert fault["detail"]


@loop_over(
    ("query", "plain"),
    [
        ("status[]=new&status[]=qualified", "status=new&status=qualified"),
        ("status[0]=new&status[1]=qualified", "status=new&status=qualified"),
        ("has_source=1", "has_source=true"),
        ("has_source=0", "has_source=false"),
    ],
)
def test_lists_and_booleans_may_be_as_other_programs_send_them(api, query, plain):
    page = api.get(f"/leads?limit=5&{query}").json
    assert page["data"] == api.get(f"/leads?limit=5&{plain}").json["data"]
    if cursor := page["meta"]["next_cursor"]:
        assert api.get(f"/leads?{query}&limit=5&cursor={cursor}").status_code == 200


def test_reading_one_takes_no_parameters(api):
    assert api.get("/leads/1?limit=1").status_code == 422
    assert api.get("/users/me?x=1").status_code == 422
    assert api.post("/leads?x=1", {"name": "a", "phone": "+380671234567"}).status_code == 422


# Search


def test_search_goes_together_with_filters_pages_and_total(api):
    result = walk(api, "q=їжак&status=qualified&source=site&total=true", 2)
    assert [int(record["id"]) for record in result] == [
        number for number in range(COUNT, 0, -1) if number % 2 and number % 3 == 0
    ]


@each("q", ["", " ", "\t", "a" * 201, " " * 500, "\x00", "a\x00b", "\x1f", "\x7f"])
def test_a_search_for_nothing_is_refused(api, q):
    answer = api.get("/leads", query_string={"q": q})
    assert answer.status_code == 422
    assert answer.json["errors"][0]["parameter"] == "q"


# The deleted


def test_followers_hear_of_the_deleted_in_order(crm, furnished):
    ivan, clock = Api(crm, "globex", furnished[1]["ivan"]), crm.tenants.clock
    clock.tick(60)
    first, second, third = (
        ivan.create("/leads", name=f"L{n}", phone="+380671234567") for n in range(3)
    )
    began = ivan.read(f"/leads/{first}")["updated_at"]
    clock.tick(10)
    assert ivan.delete(f"/leads/{second}").status_code == 204
    deleted_at = time_text(int(clock()))
    query = f"/leads?updated_since={began}&sort=updated_at"
    assert [lead["id"] for lead in ivan.read(query)] == [first, third]
    followed = ivan.read(f"{query}&include_deleted=true")
    assert [lead["id"] for lead in followed] == [first, third, second]
    assert followed[-1] == {"id": second, "deleted_at": deleted_at, "updated_at": deleted_at}
    assert ivan.walk(f"{query}&include_deleted=true&limit=1") == followed
    assert ivan.get(f"{query}&include_deleted=true&total=true").json["meta"]["total"] == 3
    assert ivan.read(f"/leads?updated_since={deleted_at}&include_deleted=true&q=L1") == []


def test_every_list_refuses_what_it_does_not_know(crm, api):
    """Whatever lists are registered."""
    seen = 0
    for rule in crm.url_map.iter_rules():
        view = crm.view_functions[rule.endpoint]
        operations = getattr(crm.api, "operations", {})
        operation = operations.get(rule.endpoint)
        if operation is None or operation.kind != "page" or rule.arguments or not view:
            continue
        path = rule.rule.removeprefix("/api/v1")
        assert api.get(path).status_code == 200, path
        assert api.get(f"{path}?surely_unknown=1").status_code == 422, path
        if "limit" in operation.query.fields:
            assert api.get(f"{path}?limit=201").status_code == 422, path
            assert api.get(f"{path}?limit=0").status_code == 422, path
            assert api.get(f"{path}?limit=1&limit=1").status_code == 422, path
        if "sort" in operation.query.fields:
            assert api.get(f"{path}?sort=nonsense").status_code == 422, path
            assert api.get(f"{path}?cursor=nonsense").status_code == 400, path
        seen += 1
    assert seen >= 2
