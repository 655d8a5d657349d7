"""From the Host header to a tenant's file (spec: What the service does; D18)."""

import contextlib
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import psycopg
import pytest

from crm import create_app
from crm.access import api_keys
from crm.config import Config
from crm.copies import backup, stores
from crm.errors import Busy, Conflict, Invalid, UnknownTenant
from crm.installation.tenants import RESERVED, Tenants
from crm.resources import tenant
from crm.resources.leads.record import LEAD, create
from crm.storage.commit_groups import WriterLock
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.session import execute, rows, transaction
from tests.concurrency import is_inside, run_in_threads
from tests.conftest import key_for
from tests.copies import create_copy
from tests.installations import config_for, environ_for, on_postgres
from tests.raw_wsgi import make_api_caller, send_request
from tests.waiting import wait_for

each = pytest.mark.parametrize


def tenants(tmp_path, domain: str = "localhost", **more) -> Tenants:
    return Tenants(config_for(tmp_path, base_domain=domain, **more))


def files(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# Hosts


@each(
    ("host", "label"),
    [
        ("acme.localhost", "acme"),
        ("ACME.LocalHost", "acme"),
        ("acme.localhost:8000", "acme"),
        ("7-eleven.localhost:1", "7-eleven"),
        ("a" * 63 + ".localhost", "a" * 63),
    ],
)
def test_one_label_before_the_base_domain_names_a_tenant(tmp_path, host, label):
    assert tenants(tmp_path).label_of(host) == label


NOT_A_TENANTS_HOST = [
    "",
    "localhost",
    "acme..localhost",
    "shop.acme.localhost",
    "acme.localhost.example.com",
    "ac--me.localhost",
    "xn--80ak6aa92e.localhost",
    "a" * 64 + ".localhost",
    "a." * 3000 + "localhost",
    "user@acme.localhost",
    "127.0.0.1",
    "acme.localhost/../globex",
    "acme.localhost, globex.localhost",
    "acme.localhost\n",
    "acme.localhost\x00",
    "\u043e\u043b\u0435\u043d\u0430.localhost",
    "\u212aacme.localhost",  # the sign of Kelvin, whose lower() is "k"
    "acme\u3002localhost",
    "*.localhost",
]


def test_the_base_domain_may_have_several_labels(tmp_path):
    here = tenants(tmp_path, "crm.example.ua")
    assert here.label_of("acme.crm.example.ua:443") == "acme"
    assert here.label_of("acme.example.ua") is None
    assert here.label_of("crm.example.ua") == BASE_HOST_FILE
    assert here.label_of("acmeXcrm.example.ua") is None
    assert here.label_of("acme.crm.example.ua.evil.example") is None


def test_every_host_without_a_tenant_gets_the_same_404(crm):
    hosts = [*NOT_A_TENANTS_HOST, "nobody.localhost", "www.localhost", "tenants.localhost", None]
    seen = set()
    for host in hosts:
        host = host and host.encode("utf-8").decode("latin-1")  # as a server hands it over
        for method, path in (("GET", "/api/v1/leads"), ("POST", "/api/v1/leads")):
            answer = send_request(crm, method, path, {"X-Request-Id": "same"}, host=host)
            assert answer.status == 404, host
            names = tuple(sorted(answer.headers.keys()))
            seen.add((answer.body, names, answer.headers["Content-Type"]))
    ((body, _, kind),) = seen
    assert kind == "application/problem+json"
    assert b'"code":"not_found"' in body and b"tenant" not in body and b"host" not in body


def test_a_host_is_not_taken_from_other_headers(crm, furnished):
    headers = {
        "Authorization": f"Bearer {furnished[1]['ivan']}",
        "X-Forwarded-Host": "globex.localhost",
        "X-Host": "globex.localhost",
        "Forwarded": "host=globex.localhost",
        "X-Original-Host": "globex.localhost",
    }
    assert send_request(crm, headers=headers, host="acme.localhost").status == 401
    assert send_request(crm, headers=headers, host="nobody.localhost").status == 404
    assert send_request(crm, headers=headers, host="globex.localhost").status == 200


def test_behind_a_trusted_proxy_its_host_counts(crm, furnished, clock):
    app = create_app(config_for(crm.tenants.config.data, trusted_proxies=1), clock, sends=False)
    headers = {"Authorization": f"Bearer {furnished[1]['olena']}"}
    forwarded = headers | {"X-Forwarded-Host": "acme.localhost"}
    assert send_request(app, headers=forwarded, host="10.0.0.7:8000").status == 200
    assert send_request(app, headers=headers, host="10.0.0.7:8000").status == 404
    for host in ("evil.example,acme.localhost", "evil.example, acme.localhost"):
        passed_on = headers | {"X-Forwarded-Host": host}
        assert send_request(app, headers=passed_on, host=host).status == 404
    app.tenants.forget_idle()


def test_one_tenant_may_be_served_on_every_host(crm, furnished, clock):
    app = create_app(config_for(crm.tenants.config.data, tenant="acme"), clock, sends=False)
    for host in [*NOT_A_TENANTS_HOST[::4], "globex.localhost", "acme.localhost", None]:
        host = host and host.encode("utf-8").decode("latin-1")
        call = make_api_caller(app, furnished[1]["olena"])
        assert call(host=host).status == 200, host
        assert call(path="/docs", host=host).status == 200, host
    assert make_api_caller(app, furnished[1]["ivan"])(host="globex.localhost").status == 401
    app.tenants.forget_idle()


def test_links_are_never_made_from_the_request(tmp_path):
    assert config_for(tmp_path).url_of("acme") == "http://acme.localhost:8000"
    assert Config(base_domain="crm.ua", port=80).url_of("acme") == "http://acme.crm.ua:80"
    assert Config(public_url="https://{label}.crm.ua").url_of("acme") == "https://acme.crm.ua"
    assert Config(public_url="https://crm.ua/x").url_of("acme") == "https://crm.ua/x"


def test_no_path_leads_the_client_to_another_host(api):
    for path in ("//leads", "/leads//1", "/leads/", "//evil.example/leads"):
        answer = api.get(path)
        assert answer.status_code in (200, 404), path
        assert "Location" not in answer.headers


# Files


def test_an_api_request_never_makes_a_tenant(crm, furnished):
    folder = crm.tenants.config.data
    for label in ("acme", "globex"):  # their logs and locks come with the first visit
        with crm.tenants.session(label):
            api_keys.list_all()
    crm.limiter.count_request("acme", 60, 0)  # and this file with the first key
    before = files(folder)
    for host in ["nobody.localhost", "www.localhost", "new.localhost", *NOT_A_TENANTS_HOST]:
        host = host.encode("utf-8").decode("latin-1")
        for method in ("GET", "POST", "PATCH", "DELETE", "OPTIONS"):
            send_request(crm, method, "/api/v1/leads", {"Authorization": "Bearer x"}, host=host)
    for path in ("/leads/../../new", "/tenants", "/leads/%2e%2e%2fnew.db"):
        make_api_caller(crm, furnished[1]["olena"])("GET", path)
    assert files(folder) == before
    assert crm.tenants.labels() == ["acme", "globex"]


def test_without_a_data_folder_nothing_is_made(tmp_path):
    app = create_app(config_for(tmp_path / "none"), sends=False)
    assert send_request(app, host="acme.localhost").status == 404
    assert not (tmp_path / "none").exists()
    assert app.tenants.labels() == []


def test_a_session_of_no_tenant_raises_unknown_tenant(crm):
    for label in ("nobody", "", "..", "../tenants/acme", "acme.db", "ACME", "acme/", "\x00"):
        with pytest.raises(UnknownTenant), crm.tenants.session(label):
            raise AssertionError(label)


def delete_elsewhere(crm, label: str) -> None:
    """Delete a tenant as another process may do it."""
    if on_postgres():
        url = environ_for(crm.tenants.config.data)["CRM_DATABASE"]
        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM crm.tenant WHERE label = %s", (label,))
            connection.execute(f"DROP SCHEMA t_{label} CASCADE")
    else:
        for suffix in (".db", ".db-wal", ".db-shm"):
            crm.tenants.path(label).with_suffix(suffix).unlink(missing_ok=True)


def test_a_deleted_tenant_is_gone_at_once(crm, api):
    assert api.get("/leads").status_code == 200
    delete_elsewhere(crm, "acme")
    assert api.get("/leads").status_code == 404
    with pytest.raises(UnknownTenant), crm.tenants.session("acme"):
        rows("SELECT 1")
    with pytest.raises(UnknownTenant), crm.tenants.session("acme"), transaction():
        raise AssertionError
    assert crm.tenants.labels() == ["globex"]
    assert not crm.tenants.path("acme").exists()


def replace(crm, label: str, source: str) -> None:
    """Put a copy of another tenant's file in a tenant's place, as a restore does."""
    path = crm.tenants.path(label)
    fresh = path.with_name("fresh")
    copy = sqlite3.connect(crm.tenants.path(source))
    copy.execute("VACUUM INTO ?", (str(fresh),))
    copy.close()
    for suffix in (".db-wal", ".db-shm"):
        path.with_suffix(suffix).unlink(missing_ok=True)
    os.replace(fresh, path)


@pytest.mark.files
def test_a_replaced_file_is_noticed(crm, api, ivan):
    api.create("/leads", name="Before", phone="+380671234567")
    ivan.create("/leads", name="Other", phone="+380671234567")
    replace(crm, "acme", "globex")
    assert api.get("/leads").status_code == 401
    ivan.label = "acme"
    assert [lead["name"] for lead in ivan.read("/leads")] == ["Other"]
    assert ivan.create("/leads", name="After", phone="+380671234567") == "2"


@pytest.mark.files
def test_an_open_session_writes_no_file_that_it_has_not_read(crm, ivan):
    ivan.create("/leads", name="Other", phone="+380671234567")
    with crm.tenants.session("acme"):
        create({"name": "Before", "phone": "+380671234567"})
        replace(crm, "acme", "globex")
        assert [lead["name"] for lead in LEAD.every("TRUE")] == ["Before"]
        with pytest.raises(Busy):
            create({"name": "Decided by the old file", "phone": "+380671234567"})
    with crm.tenants.session("acme"):
        assert [lead["name"] for lead in LEAD.every("TRUE")] == ["Other"]
        create({"name": "After", "phone": "+380671234567"})


@pytest.mark.files
def test_a_writer_that_waited_for_a_restore_writes_to_the_restored_file_or_not_at_all(crm, ivan):
    """The connection was open before; what it would have written is on no disk any more."""
    ivan.create("/leads", name="Other", phone="+380671234567")
    lock = WriterLock(crm.tenants.path("acme").with_suffix(".lock"))
    lock.acquire()
    restored = threading.Event()
    ready = threading.Barrier(3)

    def writers_that_wait() -> int:
        return sum(is_inside(thread, WriterLock.acquire) for thread in threading.enumerate())

    def write(number: int) -> str:
        if number == 2:
            ready.wait()  # the others wait for the lock with their file open
            wait_for(lambda: writers_that_wait() == 2)
            replace(crm, "acme", "globex")
            restored.set()
            lock.release()
            return ""
        with crm.tenants.session("acme"):
            ready.wait()
            try:
                create({"name": "During", "phone": "+380671234567"})
            except Busy:
                return "busy"
        return "written"

    assert run_in_threads(3, write)[:2] == ["busy", "busy"]
    for _ in range(3):
        with crm.tenants.session("acme"):
            assert [lead["name"] for lead in LEAD.every("TRUE")] == ["Other"]


@pytest.mark.files
def test_closing_the_connections_of_a_replaced_file_spares_the_new_ones_log(crm, ivan):
    ivan.create("/leads", name="Other", phone="+380671234567")
    step = threading.Barrier(2)

    def read_or_write(number: int) -> None:
        if number == 0:
            with crm.tenants.session("acme"):
                create({"name": "Before", "phone": "+380671234567"})
                replace(crm, "acme", "globex")
                step.wait()
                step.wait()
            crm.tenants.pool.forget()  # the last of the old file's connections go
            step.wait()
        else:
            step.wait()
            with crm.tenants.session("acme"):
                create({"name": "After", "phone": "+380671234567"})
                step.wait()
                step.wait()
                create({"name": "Later", "phone": "+380671234567"})

    run_in_threads(2, read_or_write)
    fresh = create_app(crm.tenants.config, sends=False)
    with fresh.tenants.session("acme"):
        assert [lead["name"] for lead in LEAD.every("TRUE")] == ["Other", "After", "Later"]
    fresh.tenants.forget_idle()
    crm.tenants.forget_idle()
    with contextlib.closing(sqlite3.connect(crm.tenants.path("acme"))) as after:
        assert after.execute("SELECT count(*) FROM lead").fetchone() == (3,)
        assert after.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# Making tenants


def test_a_label_that_cannot_be_an_address_is_refused(crm):
    before = files(crm.tenants.config.data)
    labels = "", "-a", "a.b", "../a", "A", "xn--a", "ab--c", "a" * 64, "оля"
    for label in (*labels, "a\n", "\x00", *sorted(RESERVED)):
        with pytest.raises(Invalid) as refused:
            crm.tenants.create(label)
        code = "reserved_label" if label in RESERVED else "invalid_label"
        assert refused.value.faults[0].code == code, label
    assert files(crm.tenants.config.data) == before


@pytest.mark.files
def test_a_tenant_that_had_its_label_before_it_was_reserved_goes_on(crm, tmp_path):
    """It is served, copied and restored: on another machine too, where it is not there yet."""
    every = crm.tenants
    tenant.open_tenant(every, "before", owner={"name": "Ivan"})
    os.rename(every.path("before"), every.path("status"))
    assert "status" in every.labels()
    there = make_api_caller(crm, key_for(crm, "status", "*"))
    assert there(path="/users/me", host="status.localhost").status == 200
    with every.session("status"):
        copy = create_copy(tmp_path / "copies")
    stores.delete(every, "status")
    backup.restore(every, copy, "status", lambda: 0)
    assert there(path="/users/me", host="status.localhost").status == 200
    for create_billing in (
        lambda: backup.clone(every, "acme", "billing", lambda: None),
        lambda: backup.restore(every, copy, "billing", lambda: 0),
    ):
        with pytest.raises(Invalid):
            create_billing()


FIRST_USES = {
    "a tenant": lambda data, copy: Tenants(config_for(data)).create("acme"),
    "the key": lambda data, copy: Tenants(config_for(data)).secret_key(),
    "the base host": lambda data, copy: Tenants(config_for(data)).tenant(BASE_HOST_FILE),
    "a restore": lambda data, copy: backup.restore(
        Tenants(config_for(data)), copy, "acme", lambda: 0
    ),
}


@each("first", FIRST_USES)
@pytest.mark.files
def test_a_new_data_folder_is_its_owners_alone(crm, tmp_path, first):
    with crm.tenants.session("acme"):
        copy = create_copy(tmp_path / "copies")
    data = tmp_path / "above" / "data"
    before = os.umask(0)
    try:
        FIRST_USES[first](data, copy)
    finally:
        os.umask(before)
    folders = [data, *filter(Path.is_dir, data.iterdir())]
    assert {str(path): path.stat().st_mode & 0o777 for path in folders} == dict.fromkeys(
        map(str, folders), 0o700
    )


@pytest.mark.files
def test_a_data_folder_that_is_there_stays_as_it_is(tmp_path):
    tmp_path.chmod(0o2750)
    made = tenants(tmp_path)
    made.create("acme")
    made.secret_key()
    assert tmp_path.stat().st_mode & 0o7777 == 0o2750


def test_of_many_creating_one_label_one_succeeds(crm):
    def want(number: int) -> str:
        try:
            tenant.open_tenant(crm.tenants, "wanted", name=f"Number {number}")
        except Conflict as conflict:
            return conflict.code
        return "made"

    assert sorted(run_in_threads(8, want)) == ["label_taken"] * 7 + ["made"]
    names = {path.name for path in crm.tenants.files.folder.glob("*wanted*")}
    assert names <= {"wanted.db", "wanted.lock"}  # no drafts
    with crm.tenants.session("wanted"):
        assert len(LEAD.every("TRUE")) == 0


@pytest.mark.files
def test_an_empty_tenant_takes_little_room(tmp_path):
    """Also once it was written to; no log is left when its file is closed."""
    here = tenants(tmp_path)
    here.create("acme")
    with here.session("acme"), transaction():
        execute("UPDATE tenant SET name = 'Acme'")
    here.forget_idle()
    paths = list(here.files.folder.iterdir())
    assert {path.name for path in paths} == {"acme.db", "acme.lock"}
    assert sum(path.stat().st_size for path in paths) <= 300_000


def test_nobody_sees_a_tenant_before_on_created_has_run_nor_one_whose_on_created_fails(crm):
    def on_created():
        assert not crm.tenants.exists("slow")
        assert crm.tenants.labels() == ["acme", "globex"]
        if fails:
            raise RuntimeError

    before, fails = files(crm.tenants.config.data), True
    with pytest.raises(RuntimeError):
        crm.tenants.create("slow", on_created=on_created)
    assert files(crm.tenants.config.data) == before
    fails = False
    crm.tenants.create("slow", on_created=on_created)
    assert crm.tenants.exists("slow")


@pytest.mark.files
def test_strange_files_are_no_tenants(crm):
    folder = crm.tenants.files.folder
    for name in ("Upper.db", "a.b.db", ".db", "-x.db", "note.txt"):
        shutil.copy(crm.tenants.path("globex"), folder / name)
    (folder / "folder.db").mkdir()
    assert crm.tenants.labels() == ["acme", "globex"]
    assert not crm.tenants.exists("folder")
