"""The demo: two believable businesses, made once, and what its text says to try."""

import re
import shlex
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo

import phonenumbers
import pytest

from crm import CRMApp, create_app, demo
from crm.access import api_keys
from crm.config import LOOPBACK, ConfigError
from crm.copies import stores
from crm.demo.history import CLOSING_SECONDS, OPENING_SECONDS
from crm.errors import Conflict
from crm.installation.tenants import Tenants
from crm.outbox import events
from crm.resources import tenant, users
from crm.resources.leads import record as leads
from tests.conftest import Api, Clock
from tests.installations import config_for, copy_installation
from tests.page_client import Person
from tests.tables import read_records

pytestmark = pytest.mark.slow

BUSINESSES = ("acme", "globex")
KYIV = ZoneInfo("Europe/Kyiv")
RESERVED = re.compile(r"(?:[a-z0-9.-]+\.)?example(?:\.com|\.net|\.org)?")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data folder after the demo's first start, and its text."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo.prepare(Tenants(config_for(folder), Clock()))[1]


@pytest.fixture(scope="module")
def acme(started):
    yield from caller("acme", *started)


@pytest.fixture(scope="module")
def globex(started):
    with Tenants(config_for(started[0]), Clock()).session("globex"):
        key = api_keys.create("tests", "*", users.owner_id())[1]
    yield from caller("globex", started[0], key)


@pytest.fixture
def folder(started, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return copy_installation(started[0], tmp_path / "data")


def caller(label: str, folder: Path, text: str):
    app = create_app(config_for(folder), Clock(), sends=False)
    yield Api(app, label, key_in(text))
    app.tenants.forget_idle()


def key_in(text: str) -> str:
    (key,) = set(re.findall(r"crm_\w+", text))
    return key


def tables(folder: Path, label: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table but those of the search index."""
    return read_records(Tenants(config_for(folder)), label)


def counts(folder: Path, label: str) -> dict[str, int]:
    return {name: len(rows) for name, rows in tables(folder, label).items()}


def every(api: Api, path: str, **query: str) -> list[dict[str, Any]]:
    query = {"limit": "200", **query}
    return api.read(f"{path}?{urlencode(query)}")


# What is there


def test_each_business_has_an_owner_and_colleagues(acme, globex):
    for api, name in ((acme, "Меблі Затишок"), (globex, "Кавомайстер")):
        assert api.read("/users/me")["tenant"] == {"name": name, "plan": "business"}
        assert api.read("/users/me")["role"] == "owner"
        team = every(api, "/users")
        assert [user["role"] for user in team].count("owner") == 1
        assert 3 <= len(team) - 1 <= 5
    assert "seller" in [user["role"] for user in every(acme, "/users")]


def test_there_is_as_much_as_a_small_business_has(started):
    first = counts(started[0], "acme")
    assert (first["lead"], first["product"], first["task"]) == (120, 40, 50)
    assert 50 <= first["client"] <= 70
    assert 70 <= first["deal"] <= 90
    assert first["note"] > 30 and first["audit_entry"] > 300


@pytest.mark.parametrize("label", BUSINESSES)
def test_deals_stand_in_every_stage(request, label):
    api = request.getfixturevalue(label)
    deals = every(api, "/deals")
    stages = [stage["id"] for stage in api.read("/pipelines")[0]["stages"]]
    assert {deal["stage_id"] for deal in deals} == set(stages)
    assert sum(deal["items_count"] > 0 for deal in deals) > len(deals) / 2
    assert all(deal["lost_reason"] for deal in deals if deal["status"] == "lost")


def test_every_kind_of_event_is_in_the_feed(acme):
    assert set(acme.kinds()) == set(events.KINDS)


def nothing_lies_ahead(rows_of: dict[str, list[dict[str, Any]]], now: str) -> None:
    for name, rows in rows_of.items():
        for row in rows:
            for column, value in row.items():
                is_past = column.endswith("_at") and column not in ("due_at", "expires_at")
                if is_past or column == "at":
                    assert value is None or value <= now, (name, column, row["id"])


def test_history_is_made_by_its_people_at_work(started):
    rows_of = tables(started[0], "acme")
    sellers = {user["id"] for user in rows_of["user"] if user["role"] != "viewer"}
    for name, by in (("lead", "created_by"), ("audit_entry", "user_id"), ("stage_move", "user_id")):
        assert {row[by] for row in rows_of[name]} == sellers
    history_is_of_office_hours(rows_of)
    unseen = Counter(row["user_id"] for row in rows_of["alert"] if not row["seen_at"])
    assert max(unseen.values()) <= 5, unseen


def history_is_of_office_hours(rows_of: dict[str, list[dict[str, Any]]]) -> None:
    for change in rows_of["audit_entry"]:
        moment = datetime.fromisoformat(change["at"])
        assert moment.weekday() < 5
        assert OPENING_SECONDS <= moment.hour * 3600 + moment.minute * 60 <= CLOSING_SECONDS


def test_nobody_can_be_reached(started):
    """Phones are possible numbers of no network, addresses are at domains kept for examples."""
    phones, hosts = [], []
    for label in BUSINESSES:
        for rows in tables(started[0], label).values():
            for row in rows:
                phones.append(row.get("phone"))
                hosts.append((row.get("email") or "").rpartition("@")[2])
                hosts += [urlsplit(row.get(one) or "").hostname for one in ("website", "page_url")]
    numbers = [phonenumbers.parse(phone) for phone in filter(None, phones)]
    assert len(numbers) > 200
    assert all(map(phonenumbers.is_possible_number, numbers))
    assert not any(map(phonenumbers.is_valid_number, numbers))
    assert len(set(filter(None, hosts))) > 30
    assert all(RESERVED.fullmatch(host) for host in filter(None, hosts))


DAYS = (
    "2026-03-29T01:00:00Z",  # Sunday, and the clocks of Kyiv go forward
    "2026-03-02T07:00:01Z",  # Monday, a second after the office opens
    "2026-03-06T23:59:59Z",  # Friday in UTC, Saturday in Kyiv
    "2026-12-31T23:30:00Z",  # the next year in Kyiv
)


@pytest.mark.parametrize(
    "now", [DAYS[0], *(pytest.param(day, marks=pytest.mark.deep) for day in DAYS[1:])]
)
def test_the_demo_is_the_same_on_any_day(started, tmp_path, now):
    clock = Clock()
    clock.moment = datetime.fromisoformat(now).timestamp()
    demo.prepare(Tenants(config_for(tmp_path), clock))
    for label in BUSINESSES:
        rows_of = tables(tmp_path, label)
        expected = tables(started[0], label)
        for noun in ("lead", "client", "contact", "deal", "deal_item", "product", "task", "note"):
            rows = [timeless(row) for row in rows_of[noun]]
            assert rows == [timeless(row) for row in expected[noun]], noun
        nothing_lies_ahead(rows_of, now)
        history_is_of_office_hours(rows_of)
        assert min(row["at"] for row in rows_of["audit_entry"]) < days_ago(75, clock)
        due = [row["due_at"] for row in rows_of["task"] if row["status"] in ("open", "in_progress")]
        today = datetime.fromtimestamp(clock.moment, KYIV).date()
        days = [datetime.fromisoformat(text).astimezone(KYIV).date() for text in due]
        assert sum(text < now for text in due) >= 2
        assert days.count(today) >= 2
        assert sum(day > today for day in days) >= 3


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """The row without moments and dates."""
    return {name: value for name, value in row.items() if not name.endswith(("_at", "_date"))}


# Starting again


def test_a_second_start_finds_everything_as_it_was(started, folder, new_app):
    with Tenants(config_for(folder), Clock()).session("acme"):
        api_keys.create("integration", "*", 1)
    before = {label: counts(folder, label) for label in BUSINESSES}
    text = demo.prepare(Tenants(config_for(folder), Clock()))[1]
    after = {label: counts(folder, label) for label in BUSINESSES}
    for made in ("api_key", "one_time_link"):
        assert after["acme"].pop(made) == before["acme"].pop(made) + 1
    assert after == before
    app = new_app(config_for(folder), Clock(), sends=False)
    assert Api(app, "acme", key_in(text)).get("/leads").status_code == 200
    assert Api(app, "acme", key_in(started[1])).get("/leads").status_code == 401
    with app.tenants.session("acme"):
        keys = [(key.name, key.state()) for key in api_keys.list_all()]
    assert keys == [("demo", "revoked"), ("integration", "live"), ("demo", "live")]


def test_what_is_missing_is_made_and_the_rest_left_alone(folder):
    tenants = Tenants(config_for(folder), Clock())
    stores.delete(tenants, "globex")
    tenant.open_tenant(tenants, "shop", name="Крамниця")
    with tenants.session("acme"):
        lead_id = leads.create({"name": "Марія", "phone": "+380671234567"})
    before = {label: tables(folder, label) for label in ("acme", "shop")}
    demo.prepare(tenants)
    after = {label: tables(folder, label) for label in ("acme", "shop")}
    assert tenants.labels() == ["acme", "globex", "shop"]
    assert counts(folder, "globex")["lead"] == 40
    assert after["shop"] == before["shop"]
    assert after["acme"]["lead"] == before["acme"]["lead"]
    assert after["acme"]["lead"][-1]["id"] == lead_id


def test_anothers_tenant_of_the_same_label_stops_the_start(tmp_path):
    tenants, label = Tenants(config_for(tmp_path), Clock()), "globex"
    tenant.open_tenant(tenants, label, owner={"name": "Olena", "email": "olena@acme.example"})
    before = tables(tmp_path, label)
    with pytest.raises(Conflict, match=f"a tenant {label} that is not the demo's"):
        demo.prepare(tenants)
    assert tenants.labels() == [label]
    assert tables(tmp_path, label) == before


# The text


def curl_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("curl")]


def replayed(line: str, app: CRMApp) -> Any:
    """The answer to a curl line, as curl would ask for it."""
    words = iter(shlex.split(line)[1:])
    method, headers, query, body, address = "GET", {}, "", None, ""
    for word in words:
        match word:
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                method, body = "POST", next(words).encode()
            case "-G":
                method = "GET"
            case "--data-urlencode":
                name, _, value = next(words).partition("=")
                query = urlencode({name: value})
            case _:
                assert not word.startswith("-") and not address
                address = word
    url = urlsplit(address)
    return app.test_client().open(
        url.path,
        method=method,
        headers={**headers, "Host": url.netloc},
        query_string=query or url.query,
        data=body,
    )


def test_the_text_tells_how_to_enter_each_business(started, folder):
    """By the phone of its owner, and the code that the page shows."""
    text = " ".join(started[1].split())
    ways = re.findall(r"log in at (\S+) with the phone (\+\d+)", text)
    assert [url for url, _ in ways] == [f"http://{label}.localhost:8000" for label in BUSINESSES]
    app = create_app(config_for(folder), Clock(), sends=False, shows_codes=True)
    for (_, phone), label, owner in zip(
        ways, BUSINESSES, ("Олена Коваль", "Іван Дорош"), strict=True
    ):
        person = Person(app, label)
        assert person.sends("/login", {"phone": phone}) == "/login/code"
        (code,) = re.findall(r"Код для входу[^<]*?(\d{6})", person.sees("/login/code"))
        assert person.sends("/login/code", {"code": code}) == "/"
        assert owner in person.sees("/settings/users")
        stranger = Person(app, label)
        stranger.sends("/login", {"phone": "+380679998877"})
        assert "Код для входу" not in stranger.sees("/login/code")
    app.tenants.forget_idle()


def test_four_curl_lines_work_as_they_stand(started, folder, new_app):
    lines = curl_lines(started[1])
    assert len(lines) == 4
    assert all(key_in(started[1]) in line for line in lines)
    app = new_app(
        config_for(folder, webhook_allow=LOOPBACK), Clock(), sends=False
    )  # as `demo` does
    deals, lead, products, webhook = (replayed(line, app) for line in lines)
    assert lead.status_code == webhook.status_code == 201
    assert [deal["status"] for deal in deals.json["data"]] == ["open"] * 3
    assert len(products.json["data"]) > 3
    assert all("диван" in str(product).lower() for product in products.json["data"])


def test_a_bare_address_serves_one_tenant(tmp_path, new_app):
    config = config_for(tmp_path, tenant="globex")
    tenants = Tenants(config, Clock())
    text = demo.prepare(tenants)[1]
    assert tenants.labels() == ["globex"]
    assert "localhost" not in text
    assert "http://127.0.0.1:8000/api/v1/docs" in text
    app = new_app(config, Clock(), sends=False)
    deals, lead, products, _ = (replayed(line, app) for line in curl_lines(text))
    assert deals.json["data"] and lead.status_code == 201 and products.json["data"]


def test_a_bare_address_of_no_demo_tenant_is_refused(tmp_path):
    tenants = Tenants(config_for(tmp_path, tenant="shop"), Clock())
    with pytest.raises(ConfigError, match="acme or globex"):
        demo.prepare(tenants)
    assert tenants.labels() == []


def days_ago(days: int, clock: Clock | None = None) -> str:
    moment = datetime.fromtimestamp((clock or Clock()).moment, UTC) - timedelta(days=days)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
