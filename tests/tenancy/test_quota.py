"""A storage quota per plan (CRM_STORAGE): a free sign-up cannot fill the disk."""

import io
import random
import string

import pytest

from crm.config import Config, ConfigError
from crm.errors import StorageQuota
from crm.installation.tenants import Tenants
from crm.resources import leads, tenant
from crm.storage.quota import measure_storage
from crm.storage.session import execute, transaction
from tests.cabinet.test_files_pages import send
from tests.conftest import OLENA
from tests.installations import config_for
from tests.page_client import Person


@pytest.fixture
def small(crm, clock):
    """Acme is on the plan start, which may take 1 MB here; business has no limit."""
    storage = {"start": 1, "base": 20, "pro": 0, "business": 0}
    crm.tenants = Tenants(config_for(crm.tenants.config.data, storage=storage), clock)
    with crm.tenants.session("acme"):
        tenant.change_plan("start")
    return crm


def random_text(length: int) -> str:
    """Text that no engine makes smaller; PostgreSQL compresses long values."""
    return "".join(random.Random(1).choices(string.ascii_lowercase, k=length))


LONG = random_text(5_000)
PERSON = {"name": "One more", "phone": "+380501234567"}


def fill(crm) -> int:
    """Create leads in acme until its quota refuses one; how many there are."""
    for count in range(1000):
        try:
            with crm.tenants.session("acme"):
                leads.create({"name": f"Lead {count}", "phone": "+380501234567", "comment": LONG})
        except StorageQuota:
            return count
    raise AssertionError("nothing was refused")


def test_beyond_the_quota_nothing_is_added_or_changed(small, api):
    count = fill(small)
    assert 10 < count < 200
    before = api.events()
    refused = [
        api.post("/leads", PERSON),
        api.patch("/leads/1", {"extra": {"about": "y" * 16_000}}),
        api.post("/leads/1/notes", {"text": "a note"}),
        api.post("/clients", {"name": "A client"}),
        api.post("/products/import", data={"file": (io.BytesIO(b"sku,name,price\nA,B,1"), "a.csv")},
                  content_type="multipart/form-data"),
    ]  # fmt: skip
    for answer in refused:
        assert answer.status_code == 507, answer.text
        assert answer.json["code"] == "storage_quota"
        assert answer.json["quota_bytes"] == 1 << 20
        assert answer.json["used_bytes"] >= 1 << 20
        assert "1 MB" in answer.json["detail"]
    assert api.events() == before
    assert api.get("/leads?total=true").json["meta"]["total"] == count


def test_beyond_the_quota_people_log_in_and_read_and_delete_and_pages_keep_what_they_type(
    small, api
):
    fill(small)
    olena = Person(small, "acme", OLENA)  # a session is made for her
    olena.sees("/leads")
    page = olena.post("/leads", {"name": "Typed here", "phone": "0501234567"})
    assert page.status_code == 507
    assert "Typed here" in page.text
    plan = olena.sees("/settings/plan")
    assert "<meter" in plan and "Сховище" in plan
    assert api.read("/leads/1")["name"] == "Lead 0"
    assert api.delete("/leads/1").status_code == 204


def test_a_file_beyond_the_quota_is_refused_before_it_is_stored(small, api):
    id = api.create("/leads", **PERSON)
    page = send(Person(small, "acme", OLENA), f"/leads/{id}", (b"x" * (1 << 20), "a.mov"))
    assert page.status_code == 507 and "Місце за вашим тарифом вичерпано" in page.text
    assert api.read(f"/leads/{id}/files") == []


def test_space_of_deleted_rows_counts_as_free(small, api):
    fill(small)
    with small.tenants.session("acme"), transaction():
        for table in ("event", "audit_entry"):
            execute(f"DELETE FROM {table}")
    api.create("/leads", **PERSON)


def test_what_is_used_is_measured_near_the_quota_of_the_own_plan_only(small, api, monkeypatch):
    count = fill(small)
    with small.tenants.session("acme") as session:
        connection = type(session.connection)
    measure, measured = connection.used_bytes, []

    def used_bytes(self):
        measured.append(self)
        return measure(self)

    monkeypatch.setattr(connection, "used_bytes", used_bytes)
    assert api.post("/leads", PERSON).status_code == 507
    assert measured  # beyond the quota of start, which is the smallest
    for plan, quota in (("base", 20 << 20), ("business", 0)):  # they have effect at once
        with small.tenants.session("acme"):
            tenant.change_plan(plan)
            assert measure_storage().quota == quota
        measured.clear()
        api.create("/leads", **PERSON)
        api.patch("/leads/1", {"name": f"On the plan {plan}"})
        assert not measured
    assert api.get("/leads?total=true").json["meta"]["total"] == count + 2


def test_an_import_beyond_the_quota_is_undone_as_a_whole(small, api):
    texts = ["".join(chars) for chars in zip(*[iter(random_text(440_000))] * 4000, strict=True)]
    rows = "".join(f"S{number},a name,1,{text}\n" for number, text in enumerate(texts))
    sent = io.BytesIO(f"sku,name,price,description\n{rows}".encode())
    answer = api.post("/products/import", data={"file": (sent, "a.csv")},
                       content_type="multipart/form-data")  # fmt: skip
    assert (answer.status_code, answer.json["code"]) == (507, "storage_quota")
    assert api.get("/products?total=true").json["meta"]["total"] == 0
    assert api.events() == []


@pytest.mark.parametrize("text", ["gold=1", "start=x", "start", "start=-1"])
def test_a_bad_setting_stops_the_start(text):
    with pytest.raises(ConfigError, match="CRM_STORAGE.*looks like start=100,base=0"):
        Config.load({"CRM_STORAGE": text})
