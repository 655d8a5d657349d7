"""The doctor finds what is wrong: in real folders, before a real server, through a real nginx."""

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import trustme
from click.testing import CliRunner

from crm import CRMApp, cli
from crm.access.limits import SmsLimits
from crm.cli.doctor import installation_checks, network_checks
from crm.config import Config
from crm.copies import integrity
from crm.installation.tenants import Tenants
from crm.messages import deadline_connection
from crm.resources import leads, webhooks
from crm.resources.clients import record as clients
from crm.resources.leads.record import LEAD_IN
from crm.steady_clock import boot_seconds
from crm.storage.disk import stamp
from crm.storage.session import execute, time_text, transaction
from crm.storage.sqlite import migrations
from crm.timed_checks import (
    FAULT,
    OK,
    WARNING,
    CheckResult,
    run_check,
)
from tests.cases import loop_over
from tests.copies import command
from tests.installations import config_for, copy_installation, environ_for, on_postgres
from tests.messages.test_messages import listening, replying
from tests.nginx_server import certify, nginx_path, printed_for_tls, run_nginx
from tests.raw_wsgi import send_request
from tests.server_process import find_free_port, run_server

NOBODY = 65_534
PHONE = "+380501110001"


@dataclass
class Report:
    """What the doctor said."""

    code: int
    text: str

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        return [
            (line[:8].strip(), line[9:21].strip(), line[22:])
            for line in self.text.splitlines()
            if not line.startswith(("SMS to", "MAIL to", "A test"))
        ]

    def of(self, what: str) -> list[tuple[str, str]]:
        return [(level, detail) for level, name, detail in self.lines if name == what]

    def one(self, what: str) -> tuple[str, str]:
        (record,) = self.of(what)
        return record

    def levels(self) -> set[str]:
        return {level for level, _, _ in self.lines}


def doctor(data: Path, *words: Any, **settings: str) -> Report:
    cleared = {setting.env: None for setting in Config().describe()} | {"CRM_CONFIG": None}
    result = CliRunner().invoke(
        cli.group,
        ["doctor", "--data", str(data), *map(str, words)],
        env=cleared | environ_for(data) | settings,
    )
    assert result.stderr == f"data folder: {data}\n", result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    report = Report(result.exit_code, result.stdout)
    assert (report.code == 1) == (FAULT in report.levels())
    return report


@pytest.fixture
def data(crm):
    """A folder with the cast, by the real clock: nothing is wrong with it."""
    crm.tenants = Tenants(config_for(crm.tenants.config.data))
    crm.tenants.config.data.chmod(0o700)
    return crm.tenants.config.data


TENANTS = "tenants" if on_postgres() else "files"  # as the doctor calls them


def change(data: Path, sql: str, label: str = "acme") -> None:
    if on_postgres():
        with psycopg.connect(environ_for(data)["CRM_DATABASE"]) as connection:
            connection.execute(f"SET search_path = t_{label}")
            connection.execute(sql)
        return
    with closing(sqlite3.connect(data / "tenants" / f"{label}.db")) as connection:
        connection.execute(sql)
        connection.commit()


# Checks


def test_a_check_that_fails_or_hangs_stops_no_other():
    def fails() -> Iterator[tuple[str, str]]:
        yield OK, "so far"
        raise FileNotFoundError(2, "No such file or directory", "a.db")

    over = threading.Event()

    def hangs() -> list[tuple[str, str]]:
        over.wait(60)
        return [(OK, "late")]

    assert list(run_check("a", fails)) == [
        CheckResult(OK, "a", "so far"),
        CheckResult(FAULT, "a", "[Errno 2] No such file or directory: 'a.db'"),
    ]
    began = time.monotonic()
    assert list(run_check("b", hangs, 0.05)) == [
        CheckResult(FAULT, "b", "it is not done after 0.05 s")
    ]
    assert time.monotonic() - began < 30
    over.set()
    assert list(run_check("c", lambda: 1 / 0))[0].detail == "division by zero"


# The folder


def test_nothing_is_wrong(data, crm):
    before = {path: path.read_bytes() for path in sorted(data.rglob("*.db"))}
    result = doctor(data)
    assert result.code == 0 and FAULT not in result.levels()
    assert list(dict.fromkeys(what for _, what, _ in result.lines)) == [
        *("settings", "sqlite", *(["database"] if on_postgres() else [])),
        *("folder", "disk", "clock", "tenants"),
        *("sms", "backups", "public url", "proxy"),
    ]
    assert result.one("tenants") == (OK, f"2 of 2 {TENANTS} are whole and up to date")
    assert result.of("folder") == [
        (OK, f"{data} can be written"),
    ]
    assert {path: path.read_bytes() for path in sorted(data.rglob("*.db"))} == before


def test_it_tells_how_many_sms_are_used(data):
    config = config_for(data)
    tenants = Tenants(config)
    limits = SmsLimits(tenants.counters, config.sms_limits)
    used = "{} of 800 in 24 hours are used by all tenants and sign-up"
    rest = "0 of 200 in 24 hours are used by the reserve, 0 of 200 in 24 hours are used by sign-up"
    for number in range(79):
        assert limits.count_sms(f"a{number}", f"b{number}", time.time(), tenant="acme")
    before = (data / "counters").read_bytes()
    assert doctor(data).of("sms") == [(OK, f"{used.format(79)}, {rest}")]
    assert (data / "counters").read_bytes() == before
    assert limits.count_sms("a", "b", time.time(), tenant="acme")
    assert doctor(data).of("sms") == [
        (WARNING, "80 of 100 in 24 hours are used by tenant acme: see CRM_SMS_LIMITS"),
        (OK, f"{used.format(80)}, {rest}"),
    ]


@contextmanager
def as_an_ordinary_user(folder: Path) -> Iterator[None]:
    """Root may do everything, so nobody owns the folder meanwhile, and looks."""
    if os.geteuid():
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def reachable(data):
    """A copy of the folder where every user may go."""
    with tempfile.TemporaryDirectory() as apart:
        os.chmod(apart, 0o755)
        copy_installation(data, Path(apart) / "data")
        yield Path(apart) / "data"
        (Path(apart) / "data").chmod(0o700)


def test_a_folder_that_cannot_be_written_is_a_fault_and_the_rest_is_looked_at(reachable):
    reachable.chmod(0o500)
    with as_an_ordinary_user(reachable):
        result = doctor(reachable)
    assert result.of("folder") == [(FAULT, f"[Errno 13] Permission denied: '{reachable}/.ready'")]
    assert result.one("tenants") == (OK, f"2 of 2 {TENANTS} are whole and up to date")
    assert result.of("proxy")


@pytest.mark.files
def test_files_of_another_user_are_a_fault(data, monkeypatch):
    if os.geteuid():  # who is not root cannot give a file away
        monkeypatch.setattr(integrity, "list_files", lambda _: [Path("/etc/passwd")])
    else:
        os.chown(data / "tenants" / "acme.db", NOBODY, NOBODY)
    level, said = doctor(data).of("folder")[1]
    assert level == FAULT
    assert said.endswith("'s as the folder is: " + ("passwd" if os.geteuid() else "acme.db"))


@pytest.mark.files
def test_a_folder_that_others_may_look_into_is_told(data):
    data.chmod(0o755)
    result = (WARNING, f"others may look into it: chmod 700 {data}")
    assert doctor(data).of("folder")[1:] == [result]


@pytest.mark.parametrize(
    ("free", "level", "said"),
    [
        (1 << 40, OK, "MiB free"),
        pytest.param(
            *(installation_checks.MIN_FREE_BYTES + 1000, WARNING, "too little for a copy of all"),
            marks=pytest.mark.files,
        ),
        (10 << 20, FAULT, ": the disk is full, or soon will be"),
    ],
)
def test_a_disk_without_room_is_told(data, monkeypatch, free, level, said):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr(installation_checks.shutil, "disk_usage", lambda _: usage)
    record = doctor(data).one("disk")
    assert record[0] == level and said in record[1]


@pytest.mark.files
def test_what_sqlite_lacks_is_a_fault(data, monkeypatch):
    step = "next", ["CREATE VIRTUAL TABLE a USING of_tomorrow (b)"]
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, step])
    level, said = doctor(data).one("sqlite")
    assert level == FAULT and said.endswith("no such module: of_tomorrow")


# The tenants


@pytest.mark.files
def test_a_damaged_file_is_a_fault_and_no_other(data):
    (data / "tenants" / "acme.db").write_bytes(b"not a database " * 1000)
    result = doctor(data)
    (level, said), advice = result.of("acme")
    assert level == FAULT and said.startswith("its file cannot be used: file is not a database")
    assert advice == (
        FAULT,
        f"there is no copy in {data}/backups: restore acme FILE",
    )
    assert result.one("tenants")[1] == "1 of 2 files are whole and up to date"


@pytest.mark.files
def test_only_full_compares_indexes_with_their_tables(data):
    """A row that its index lacks: the index is not there while the row is written."""
    with without_index(data, "note_record"):
        names = "noun, record_id, text, created_at, updated_at"
        change(data, f"INSERT INTO note ({names}) VALUES ('lead', 1, 'a', 'now', 'now')")
    assert not doctor(data).of("acme")
    level, said = doctor(data, "--full").of("acme")[0]
    assert level == FAULT and said.startswith("its file is damaged: row 1 missing from index note")


@contextmanager
def without_index(data: Path, name: str) -> Iterator[None]:
    def schema(sql: str, values: tuple = ()) -> list[tuple]:
        with closing(sqlite3.connect(data / "tenants" / "acme.db")) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            rows = connection.execute(sql, values).fetchall()
            connection.commit()
        return rows

    (entry,) = schema("SELECT * FROM sqlite_schema WHERE name = ?", (name,))
    schema("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    yield
    schema("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)


@pytest.mark.files
def test_a_file_of_another_version_is_told_and_stays_as_it_is(data):
    known = len(migrations.STEPS)
    change(data, "PRAGMA user_version = 1")
    for _ in range(2):
        assert doctor(data).one("acme") == (WARNING, f"version 1 of {known}: run migrate")
    change(data, "PRAGMA user_version = 99")
    said = f"version 99 is of a newer release, this one knows {known}"
    assert doctor(data).one("acme") == (FAULT, said)


@pytest.mark.files
def test_an_empty_file_is_a_fault_and_stays_as_it_is(data):
    path = data / "tenants" / "empty.db"
    path.touch()
    assert doctor(data).one("empty") == (FAULT, "its file is empty: restore a copy, or remove it")
    assert path.stat().st_size == 0


def test_phones_with_a_wrong_number_of_digits_are_named_by_id(data, crm):
    with crm.tenants.session("acme"), transaction():
        short, long = (leads.record.create({"name": "A", "phone": "+380501234567"}) for _ in "ab")
        gone = leads.record.create({"name": "Gone", "phone": "+38006712"})
        own = clients.create({"name": "B", "phone": "+380671234567", "contacts": [{"name": "C"}]})
        other = clients.create({"name": "D", "contacts": [{"name": "E", "phone": "+48221234567"}]})
        clients.create({"name": "Toll-free", "phone": "+380800123456"})
        execute("UPDATE lead SET phone = '+38006712' WHERE id = ?", (short,))
        execute("UPDATE lead SET phone = '+3805012345678' WHERE id = ?", (long,))
        execute("UPDATE contact SET phone = '+380067123456' WHERE client_id = ?", (own,))
        execute("UPDATE contact SET phone = '+38012345' WHERE client_id = ?", (other,))
        execute("UPDATE \"user\" SET phone = '+3801234567' WHERE id = 1")
        leads.record.delete(gone)
    report = doctor(data)
    about = "whose phone has too few or too many digits:"
    assert report.of("acme") == [
        (WARNING, f"leads {about} 2, ids {short}, {long}"),
        (WARNING, f"clients {about} 2, ids {own}, {other}"),
        (WARNING, f"users {about} 1, ids 1"),
    ]
    assert report.code == 0


def test_what_waits_for_webhooks_is_told(data, crm):
    with crm.tenants.session("acme"), transaction():
        webhooks.create({"url": "https://erp.example.com/crm"})
        for name in "abcd":
            leads.create(LEAD_IN.parse({"name": name, "email": f"{name}@a.example"}))
        execute("UPDATE delivery SET status = 'held' WHERE id = 1")
        execute("UPDATE delivery SET status = 'failed' WHERE id = 2")
        execute("UPDATE delivery SET created_at = '2026-01-01T00:00:00Z' WHERE id = 3")
        execute("UPDATE delivery SET status = 'delivered' WHERE id = 4")
    crm.tenants.forget_idle()
    result = doctor(data).of("acme")
    assert [(level, detail.partition(",")[0]) for level, detail in result] == [
        (WARNING, "1 deliveries are failed"),
        (WARNING, "1 deliveries are held"),
        (WARNING, "1 deliveries are pending"),
    ]
    assert result[2][1].endswith("the oldest of 2026-01-01T00:00:00Z")
    change(data, f"UPDATE delivery SET created_at = '{time_text(int(time.time()))}'")
    assert doctor(data).of("acme")[2][0] == OK


def test_a_clock_behind_the_newest_event_is_a_fault(data, crm):
    with crm.tenants.session("acme"):
        leads.create(LEAD_IN.parse({"name": "a", "email": "a@a.example"}))
    crm.tenants.forget_idle()
    assert not doctor(data).of("acme")
    change(data, "UPDATE event SET at = '2098-01-01T00:00:00Z'")
    level, said = doctor(data).one("acme")
    assert level == FAULT and "this machine's clock is behind" in said


def test_copies_that_lack_or_are_old_are_told(crm, data):
    place = data / "backups"
    assert doctor(data).one("backups") == (
        WARNING, f"no copy in {place} of acme, globex: backup create")  # fmt: skip
    command(crm, "backup", "create")
    assert doctor(data).one("backups")[0] == OK
    (copy,) = place.glob("acme-*.db")
    old = stamp(time.time() - 3 * 86_400)
    copy.rename(copy.with_name(f"acme-{old}.db"))
    assert doctor(data).one("backups")[1] == "the newest copy is older than two days of acme"
    assert doctor(data, "--from", data / "other").one("backups")[0] == WARNING


# The settings


def test_secrets_in_a_file_that_others_may_read_are_told(data):
    path = data / "crm.env"
    path.write_text("CRM_SMS_TOKEN=abc\n")
    path.chmod(0o644)
    assert doctor(data).of("settings")[0] == (
        WARNING, f"{path} has secrets that others may read: chmod 600 {path}")  # fmt: skip
    path.chmod(0o600)
    assert doctor(data).of("settings")[0] == (OK, f"read from {path}")
    path.write_text("CRM_PORT=9000\n")
    path.chmod(0o644)
    assert doctor(data).of("settings")[0] == (OK, f"read from {path}")


def test_codes_on_the_console_are_told(data):
    result = "prints codes and links to the service's output"
    warnings = [(WARNING, f"CRM_{way}=console {result}") for way in ("SMS", "MAIL")]
    assert doctor(data).of("settings")[1:] == warnings
    sending = {"CRM_SMS": "turbosms", "CRM_SMS_TOKEN": "a", "CRM_SMS_SENDER": "A"}
    assert doctor(data, **sending).of("settings")[1:] == warnings[1:]


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        ({}, WARNING, "only reachable from this machine: set CRM_BASE_DOMAIN"),
        ({"CRM_PUBLIC_URL": "http://{label}.crm.invalid"}, WARNING, "not below CRM_BASE_DOMAIN"),
        ({"CRM_BASE_DOMAIN": "crm.invalid"}, WARNING, "plain http"),
        ({"CRM_PUBLIC_URL": "https://localhost"}, WARNING, "has no {label}"),
        ({"CRM_BASE_DOMAIN": "crm.invalid", "CRM_PUBLIC_URL": "https://{label}.crm.invalid"}, OK,
         "https://<label>.crm.invalid"),
    ],
)  # fmt: skip
def test_the_public_address_fits_the_base_domain(data, settings, level, said):
    record = doctor(data, **settings).one("public url")
    assert record[0] == level and said in record[1]


# Sending


def test_a_test_is_sent_now_through_the_gateway(data):
    with listening() as gateway:
        settings = {"CRM_SMS": "http", "CRM_SMS_URL": gateway.url + "/?to={phone}&text={text}"}
        level, said = doctor(data, "--send-test", "050 111 00 01", **settings).one("send test")
        assert level == OK and said == "http accepted it"
        assert "%2B380501110001" in gateway.last.path
        gateway.answer = replying(403)
        refused = doctor(data, "--send-test", PHONE, **settings)
        assert refused.one("send test") == (FAULT, "http: the gateway answered 403")
    gone = doctor(data, "--send-test", PHONE, **settings)
    assert gone.one("send test") == (FAULT, "http: the connection failed: Connection refused")


def test_a_test_goes_to_a_phone_or_an_address(data):
    for to in ("olena", "a@b@c", "12"):
        level, said = doctor(data, "--send-test", to).one("send test")
        assert level == FAULT and said.startswith("PHONE|EMAIL must be ")
    assert doctor(data, "--send-test", PHONE).one("send test")[0] == OK


# The doctor's pass


def ask(crm: CRMApp, token: str | None, method: str = "GET", **headers: str) -> Any:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return send_request(crm, method, "/doctor", headers, host="anything.example")


def test_only_who_shows_the_pass_is_answered_and_once(crm):
    strangers = send_request(crm, "GET", "/unknown", host="anything.example")
    results = {"X-Forwarded-For": "198.51.100.1", "X-Request-Id": "a"}

    def is_a_stranger(answer: Any) -> bool:
        names = [set(result.headers.keys()) for result in (answer, strangers)]
        return answer.status == strangers.status == 404 and names[0] == names[1]

    assert is_a_stranger(ask(crm, None)) and is_a_stranger(ask(crm, ""))
    with integrity.doctor_token(crm.tenants) as token:
        file = crm.tenants.config.data / ".doctor"
        assert file.stat().st_mode & 0o777 == 0o600
        for wrong in (None, "", token[:-1], token + "a", "ї"):
            assert is_a_stranger(ask(crm, wrong and wrong.encode().decode("latin-1")))
        assert is_a_stranger(ask(crm, token, "POST"))
        answer = ask(crm, token, **results)
        assert answer.json == {
            "status": "ok",
            "address": "127.0.0.1",
            "scheme": "http",
            "host": "anything.example",
            "forwarded": "198.51.100.1",
        }
        assert is_a_stranger(ask(crm, token))
    assert not file.exists()
    assert is_a_stranger(ask(crm, token))


def test_a_pass_that_was_left_behind_is_good_for_nothing(crm):
    with integrity.doctor_token(crm.tenants) as token:
        file = crm.tenants.config.data / ".doctor"
        os.utime(file, (time.time() - 2 * integrity.TOKEN_SECONDS,) * 2)
        assert ask(crm, token).status == 404
    file.write_bytes(b"")
    assert ask(crm, "").status == 404


# Through a proxy


SEEN = {
    "address": "198.51.100.7",
    "scheme": "https",
    "host": "acme.crm.example",
    "forwarded": "198.51.100.7",
}
FORGED = network_checks.FORGED_ADDRESS
ONE = "CRM_TRUSTED_PROXIES is {}, but {} in front add X-Forwarded-For"


@loop_over(
    ("trusted", "seen", "level", "said"),
    [
        (1, {}, OK, "a forged address is not believed; 1 in front"),
        (1, {"forwarded": f"{FORGED}, 198.51.100.7"}, OK, "not believed; 1 in front"),
        (1, {"scheme": "http"}, FAULT, "the service takes it for http, not https"),
        (1, {"host": "127.0.0.1:8000"}, FAULT, "the host arrives as 127.0.0.1:"),
        (1, {"forwarded": ""}, FAULT, "the proxy adds no X-Forwarded-For, so all clients seem 198"),
        (
            *(1, {"forwarded": FORGED, "address": FORGED}, FAULT),
            f"a forged address was believed: {ONE.format(1, 0)}",
        ),
        (2, {"address": "10.0.0.1"}, FAULT, f"seem to be 10.0.0.1: {ONE.format(2, 1)}"),
        (0, {"address": "10.0.0.1"}, FAULT, f"seem to be 10.0.0.1: {ONE.format(0, 1)}"),
    ],
)
def test_what_the_proxies_pass_on_is_judged(trusted, seen, level, said):
    response = network_checks.PublicResponse(200, None, SEEN | seen)
    config = Config(trusted_proxies=trusted)
    url = urlsplit("https://acme.crm.example")
    ((found_level, detail),) = network_checks.compare_requests(config, url, response)
    assert found_level == level and said in detail


@dataclass
class Front:
    """A server that trusts one proxy, behind nginx as printed, by TLS and without it."""

    data: Path
    authority: trustme.CA
    ports: dict[str, int]  # https, http and direct

    def ask(self, scheme: str, port: str | int, host: str = "{label}.localhost") -> Any:
        url = f"{scheme}://{host}:{self.ports.get(str(port), port)}"
        settings = {"CRM_BASE_DOMAIN": "localhost", "CRM_TRUSTED_PROXIES": "1"}
        return doctor(self.data, **settings, CRM_PUBLIC_URL=url).of("proxy")


@pytest.fixture(scope="module")
def front(furnished, tmp_path_factory):
    nginx_path()
    folder = tmp_path_factory.mktemp("front")
    authority = certify(folder)
    copy_installation(furnished[0], folder / "data")
    ports = {"https": find_free_port(), "http": find_free_port()}
    settings = {"CRM_BASE_DOMAIN": "localhost", "CRM_TRUSTED_PROXIES": "1"}
    with run_server(folder / "data", **settings) as behind:
        text = printed_for_tls(folder, behind, ports["http"], ports["https"])
        with run_nginx(folder, text, ports["https"]):
            yield Front(folder / "data", authority, ports | {"direct": behind})


@pytest.mark.process
def test_a_request_goes_through_the_proxy_and_tells_what_arrives(front, monkeypatch, tmp_path):
    ((level, said),) = front.ask("https", "https")
    assert level == FAULT and "certificate verify failed: " in said
    front.authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    ((level, said),) = front.ask("https", "https")
    assert level == OK and said.endswith("a forged address is not believed; 1 in front")
    ((level, said),) = front.ask("https", "https", "127.0.0.1")
    assert level == FAULT and "mismatch" in said
    ((level, said),) = front.ask("http", "http")
    assert level == FAULT
    assert "this CRM: it answers 301, a redirect to https://acme.localhost" in said
    ((level, said),) = front.ask("http", "direct")
    assert level == FAULT and "a forged address was believed" in said
    nobody = find_free_port()
    ((level, said),) = front.ask("http", nobody)
    assert level == FAULT and said.endswith("reached: the connection failed: Connection refused")
    monkeypatch.setattr(deadline_connection, "STEP_TIMEOUT_SECONDS", 0.3)
    ((level, said),) = front.ask("https", "direct")  # where no TLS is spoken
    assert level == FAULT and said.endswith("there was no answer in time")
    assert not (front.data / ".doctor").exists()


def test_a_clock_that_was_set_forward_is_told_and_stays_as_it_is(data):
    tenants = Tenants(config_for(data), lambda: time.time() - 40 * 86_400, boot_seconds)
    tenants.steady_clock.now()
    before = (data / "clock").read_bytes()
    (_, _), (level, response) = doctor(data).of("clock")
    assert level == WARNING
    assert response.startswith("it jumped ahead of the time")
    assert (data / "clock").read_bytes() == before
