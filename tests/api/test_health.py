"""The operator's paths: alive, ready, and for which hosts a certificate may be had."""

import errno
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.installation import readiness
from crm.installation.tenants import Tenants
from crm.storage.engine import BASE_HOST_FILE
from tests.cases import loop_over
from tests.installations import config_for, copy_installation

HOSTS = ("acme.localhost", "localhost", "nobody.localhost", "10.0.0.7:8000", "a b", "")


def get(crm: CRMApp, path: str, host: str = "nobody.localhost", **environ: Any) -> Any:
    return crm.test_client().get(path, headers={"Host": host}, environ_overrides=environ)


def reason(crm: CRMApp) -> str | None:
    """Why it is not ready, or None."""
    answer = get(crm, "/readyz")
    if answer.status_code == 200:
        if answer.json["status"] == "degraded":
            assert answer.json["reason"] == "tenant_unavailable" and answer.json["tenants"] > 0
        else:
            assert answer.json == {"status": "ok"}
        return None
    assert (answer.status_code, answer.json["status"]) == (503, "unavailable")
    assert set(answer.json) == {"status", "reason"}
    assert int(answer.headers["Retry-After"]) > 0
    return answer.json["reason"]


def files(crm: CRMApp) -> set[Path]:
    return set(crm.tenants.config.data.rglob("*"))


def damage(crm: CRMApp, label: str) -> None:
    crm.tenants.path(label).write_bytes(b"not a database " * 1000)


@pytest.fixture
def bare(tmp_path: Path, new_app: Callable[..., CRMApp]) -> CRMApp:
    """An app upon a folder without any file."""
    (tmp_path / "bare").mkdir()
    return new_app(config_for(tmp_path / "bare"), sends=False)


@loop_over("path", ["/livez", "/readyz"])
@loop_over("host", HOSTS)
def test_they_are_answered_on_every_host(crm: CRMApp, path: str, host: str) -> None:
    answer = get(crm, path, host)
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.content_type == "application/json"
    assert answer.headers["X-Request-Id"]
    head = crm.test_client().head(path, headers={"Host": host})
    assert (head.status_code, head.data) == (200, b"")


def test_they_are_not_counted_and_begin_no_session(crm: CRMApp, api: Any) -> None:
    for path in ("/livez", "/readyz"):
        answer = api.crm.test_client().get(
            path, headers={"Host": "acme.localhost", "Authorization": "Bearer wrong"}
        )
        assert not {"X-RateLimit-Limit", "Set-Cookie", "WWW-Authenticate"} & set(answer.headers)
    assert crm.limiter.get_count("acme", crm.tenants.clock()) == 0


def test_alive_needs_no_file(tmp_path: Path) -> None:
    app = create_app(config_for(tmp_path / "nowhere"), sends=True)
    assert get(app, "/livez").status_code == 200
    assert not app.sender.started
    assert not (tmp_path / "nowhere").exists()


# Ready


def test_an_installation_without_a_file_is_ready(bare: CRMApp) -> None:
    assert reason(bare) is None
    assert files(bare) == set()


def test_a_full_disk_is_told(bare: CRMApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_file: int, _words: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(readiness.os, "write", write)
        assert reason(bare) == "storage_full"
    assert files(bare) == set()
    assert reason(bare) is None


@pytest.mark.files
def test_a_few_damaged_files_degrade_the_installation(
    crm: CRMApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "CHECK_TIMEOUT_SECONDS", 30)
    damaged = ("1a", "1b", "1c")  # the first ones in the order of their names
    labels = [*damaged, *(f"shop{number}" for number in range(15))]
    for label in labels:
        shutil.copy(crm.tenants.path("globex"), crm.tenants.path(label))
    for label in damaged:
        damage(crm, label)
    answers = [get(crm, "/readyz") for _ in range(60)]
    assert {answer.status_code for answer in answers} == {200}
    said = {"status": "degraded", "reason": "tenant_unavailable", "tenants": len(damaged)}
    assert answers[-1].json == said
    for label in {*labels, "acme", "globex"} - {*damaged, "shop0"}:
        damage(crm, label)
    assert "file_unreadable" in {reason(crm) for _ in range(60)}


@pytest.mark.files
def test_the_base_hosts_file_is_tried_without_tenants(crm: CRMApp, bare: CRMApp) -> None:
    for app in (crm, bare):
        with app.tenants.session(BASE_HOST_FILE):
            pass
    assert reason(bare) is None
    damage(bare, BASE_HOST_FILE)
    assert reason(bare) == "file_unreadable"
    for label in ("acme", "globex"):
        damage(crm, label)
    assert reason(crm) == "file_unreadable"


@pytest.mark.files
def test_the_one_tenant_that_is_served_must_be_readable(
    tmp_path: Path, furnished: tuple[Path, dict[str, str]], new_app: Callable[..., CRMApp]
) -> None:
    copy_installation(furnished[0], tmp_path / "data")
    app = new_app(config_for(tmp_path / "data", tenant="acme"), sends=False)
    assert reason(app) is None
    damage(app, "acme")
    assert reason(app) == "file_unreadable"
    app.tenants = Tenants(config_for(tmp_path / "data", tenant="initech"))
    assert reason(app) == "file_unreadable"


@pytest.mark.files
def test_strangers_get_one_word_and_the_log_the_rest(
    crm: CRMApp, caplog: pytest.LogCaptureFixture
) -> None:
    assert reason(crm) is None
    for label in ("acme", "globex"):
        damage(crm, label)
    with caplog.at_level(logging.ERROR, "crm"):
        response = get(crm, "/readyz").text
        assert reason(crm) == "file_unreadable"
    assert json.loads(response) == {"status": "unavailable", "reason": "file_unreadable"}
    # Of two looks: whoever asks often must not fill the log.
    *tenants, line = [record.message for record in caplog.records]
    assert line == "not ready: file_unreadable"
    assert sorted(text.partition(" cannot")[0] for text in tenants) == [
        "the file of acme",
        "the file of globex",
    ]
    assert all("(SQLITE_NOTADB)" in text or "(SQLITE_CORRUPT)" in text for text in tenants)


@pytest.mark.files
def test_a_hanging_disk_is_told_in_a_second_and_holds_one_thread(
    crm: CRMApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    looks = []

    def hang(sql: str) -> None:
        looks.append(sql)
        assert goes_on.wait(60)

    def timed(call: Callable[[], Any]) -> tuple[Any, float]:
        began = time.monotonic()
        return call(), time.monotonic() - began

    with monkeypatch.context() as hanging:
        hanging.setattr(readiness, "row", hang)
        said, seconds = timed(lambda: reason(crm))
        assert said == "storage_slow" and 0.9 < seconds < 20
        hanging.setattr(readiness, "CHECK_TIMEOUT_SECONDS", 30)
        for _ in range(3):
            said, seconds = timed(lambda: reason(crm))
            assert said == "storage_slow" and seconds < 20  # nobody waits for it again
        assert len(looks) == 1
        (thread,) = (one for one in threading.enumerate() if one.name == "readiness")
        assert thread.daemon
        goes_on.set()
        thread.join(10)
    assert reason(crm) is None


# Certificates on demand

FOUND = ("localhost", "acme.localhost", "globex.localhost", "ACME.localhost")
LOST = (
    *("nobody.localhost", "www.localhost", "a.acme.localhost", "acme.localhost.evil.example"),
    *("evil.example", "acme.localhost:443", "127.0.0.1", "", "..%2Facme.localhost", "%00", "%FF"),
    *("_front.localhost", "xn--a.localhost", "acme", "acme.localhost."),
)


def asked(crm: CRMApp, query: str, **environ: Any) -> int:
    return get(crm, f"/tls-ask?{query}", "127.0.0.1:8000", **environ).status_code


def test_a_host_that_exists_gets_its_certificate_and_no_other_one(crm: CRMApp) -> None:
    for domain in FOUND:
        assert asked(crm, f"domain={domain}") == 200, domain
    for domain in LOST:
        assert asked(crm, f"domain={domain}") == 404, domain
    assert asked(crm, "") == 404
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):  # of the proxy on this machine
        assert asked(crm, "domain=acme.localhost", REMOTE_ADDR=address) == 200, address


def test_a_served_single_tenant_has_two_hosts_of_its_own(
    tmp_path: Path, furnished: tuple[Path, dict[str, str]]
) -> None:
    copy_installation(furnished[0], tmp_path / "data")
    own = "https://shop.example"
    app = create_app(
        config_for(tmp_path / "data", tenant="acme", public_url=own, base_domain="crm.example"),
        sends=False,
    )
    results = {
        domain: asked(app, f"domain={domain}")
        for domain in ("shop.example", "crm.example", "acme.crm.example", "evil.example")
    }
    assert list(results.values()) == [200, 200, 404, 404]


@loop_over(
    "environ",
    [
        {"REMOTE_ADDR": "::ffff:192.0.2.1"},
        {"REMOTE_ADDR": ""},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_X_FORWARDED_FOR": ""},
    ],
)
def test_for_strangers_nothing_is_there(crm: CRMApp, environ: dict[str, str]) -> None:
    def told(path: str, host: str) -> tuple[int, str]:
        answer = get(crm, f"{path}?domain=acme.localhost", host, HTTP_X_REQUEST_ID="a", **environ)
        text = re.sub(r'(name="csrf_token" value=")[^"]*', r"\1", answer.text)
        return answer.status_code, text.replace(path, "")

    for host in ("acme.localhost", "localhost", "nobody.localhost"):
        result = told("/tls-ask", host)
        assert result[0] == 404
        assert result == told("/nothing", host)
