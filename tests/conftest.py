"""The cast: Olena owns acme, Taras works there, Ivan is at globex and must see nothing."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app, embedding
from crm.access import api_keys, passwords
from crm.api.request_limits import Limiter
from crm.config import LOOPBACK, PLANS
from crm.installation.tenants import Tenants
from crm.limits.counters import Counters
from crm.outbox import events
from crm.outbox.sender import Sender
from crm.resources import tenant, users
from crm.steady_clock import SteadyClock, boot_seconds
from crm.storage.session import TenantSession
from tests.company_papers import pdf_without_typst
from tests.concurrency import is_answering
from tests.installations import config_for, copy_installation
from tests.memory_folder import memory_folder
from tests.page_client import Person, Recorder
from tests.waiting import wait_for
from tests.webhook_receiver import WebhookReceiver, receive_webhooks
from tests.wired_apps import WiredApps, serve_installation

pytest_plugins = [
    "tests.chromium",
    "tests.database_switch",
    "tests.log_leaks",
    "tests.markers",
    "tests.open_connections",
]
collect_ignore = ["data"]  # files that a test puts elsewhere

OLENA, TARAS = 1, 2  # user ids at acme


def pytest_configure() -> None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_folder()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Many tests wait for the servers that they start: three workers keep two cores busy."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Write lone surrogates of a test's output as escapes: pytest-xdist cannot send them."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


class Clock:
    """A clock that the test moves."""

    def __init__(self, moment: float = 1_772_442_000.0) -> None:
        self.moment = moment  # 2026-03-02T09:00:00Z, a Monday

    def __call__(self) -> float:
        return self.moment

    def tick(self, seconds: float) -> None:
        self.moment += seconds


class Api:
    """A caller with one key. Paths are relative to the base address."""

    def __init__(self, crm: CRMApp, label: str, key: str):
        self.crm, self.label, self.key = crm, label, key
        self.client = crm.test_client()

    def call(self, method: str, path: str, headers: dict | None = None, **options: Any) -> Any:
        sent = {"Host": f"{self.label}.localhost", "Authorization": f"Bearer {self.key}"}
        sent |= headers or {}
        return self.client.open(f"/api/v1{path}", method=method, headers=sent, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.call("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> Any:
        return self.call("POST", path, json=json, **options)

    def patch(self, path: str, json: Any = None, **options: Any) -> Any:
        return self.call("PATCH", path, json=json, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> Any:
        return self.call("PUT", path, json=json, **options)

    def delete(self, path: str, **options: Any) -> Any:
        return self.call("DELETE", path, **options)

    def create(self, path: str, **fields: Any) -> str:
        """POST that must succeed; gives the new id."""
        answer = self.post(path, fields)
        assert answer.status_code == 201, answer.text
        assert answer.json["status"] == "ok"
        (id,) = (value for name, value in answer.json.items() if name.endswith("_id"))
        return id

    def read(self, path: str) -> Any:
        """GET that must succeed; gives the record, or the records of a list."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json["data"] if set(answer.json) == {"data", "meta"} else answer.json

    def pages(self, path: str) -> Iterator[Any]:
        """The records of each page of a list."""
        mark, cursor = "&" if "?" in path else "?", ""
        while True:
            page = self.get(f"{path}{cursor}").json
            yield page["data"]
            if (following := page["meta"]["next_cursor"]) is None:
                return
            cursor = f"{mark}cursor={following}"

    def walk(self, path: str) -> list[Any]:
        """All records of a list, page by page."""
        return [record for page in self.pages(path) for record in page]

    def events(self) -> list[dict[str, Any]]:
        """The tenant's events, oldest first."""
        import json

        with self.crm.tenants.session(self.label):
            result, _ = events.list_bodies_after(0, list(events.KINDS), 10_000)
        return [json.loads(body) for body in result]

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events()]


def key_for(crm: CRMApp, label: str, scopes: str, user_id: int = OLENA, **more: Any) -> str:
    with crm.tenants.session(label):
        return api_keys.create("tests", scopes, user_id, **more)[1]


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A data folder with the cast, and their keys, made once and copied for each test."""
    folder = tmp_path_factory.mktemp("furnished")
    crm = create_app(config_for(folder), Clock(), sends=False)
    tenant.open_tenant(
        crm.tenants,
        "acme",
        name="Acme",
        plan="business",
        owner={"name": "Olena", "email": "olena@acme.example", "phone": "+380501110001"},
    )
    tenant.open_tenant(crm.tenants, "globex", plan="business", owner={"name": "Ivan"})
    with crm.tenants.session("acme"):
        users.create({"name": "Taras", "role": "manager", "phone": "+380501110002"})
    keys = {
        "olena": key_for(crm, "acme", "*"),
        "taras": key_for(crm, "acme", "*", TARAS),
        "reader": key_for(
            crm, "acme", ",".join(f"{noun}:read" for noun in api_keys.rights.RESOURCES)
        ),
        "form": key_for(crm, "acme", "leads:create"),
        "ivan": key_for(crm, "globex", "*"),
    }
    crm.tenants.forget_idle()
    # For those who open a copy of it by the real clock: it was right until now.
    SteadyClock(time.time, boot_seconds, folder / "clock", lambda: True).now()
    return folder, keys


@pytest.fixture
def own_log() -> Iterator[None]:
    """The test may set the log up as `serve` does; afterwards it is as it was."""
    names = ("", "crm", "crm.requests")
    before = [(item, item.level, item.handlers[:], item.propagate)
              for item in map(logging.getLogger, names)]  # fmt: skip
    hook = threading.excepthook
    yield
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate
    threading.excepthook = hook
    logging.captureWarnings(False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def wired(furnished: tuple[Path, dict[str, str]]) -> CRMApp:
    """The app, wired once: its routes and schemas take longer than most tests."""
    return create_app(config_for(furnished[0]), Clock(), sends=False)


@pytest.fixture(scope="session")
def wired_apps() -> WiredApps:
    return WiredApps()


@pytest.fixture
def new_app(wired_apps: WiredApps) -> Iterator[Callable[..., CRMApp]]:
    """create_app() for the test's own settings, wired once for all tests with the same ones."""
    yield wired_apps.create_app
    wired_apps.take_back()


@pytest.fixture
def shared_wiring(new_app: Callable[..., CRMApp], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is embedded in the test is wired as `new_app` does it."""
    monkeypatch.setattr(embedding, "create_app", new_app)


@pytest.fixture
def crm(
    wired: CRMApp, furnished: tuple[Path, dict[str, str]], tmp_path: Path, clock: Clock
) -> Iterator[CRMApp]:
    """The app with the cast's data folder, fresh for each test."""
    copy_installation(furnished[0], tmp_path / "data")
    serve_installation(wired, config_for(tmp_path / "data"), clock)
    yield wired
    wait_for(lambda: not is_answering(), what="a request is still answered")
    wired.tenants.forget_idle()


@pytest.fixture(scope="module")
def module_app(
    furnished: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CRMApp]:
    """An app of the module's own with the cast's data, which all tests of the module change."""
    data = copy_installation(furnished[0], tmp_path_factory.mktemp("module") / "data")
    app = create_app(config_for(data), Clock(), sends=False)
    yield app
    app.tenants.forget_idle()


@pytest.fixture(scope="module")
def no_typst() -> Iterator[None]:
    with pdf_without_typst():
        yield


@pytest.fixture(scope="module")
def unlimited_app(module_app: CRMApp) -> CRMApp:
    """`module_app` that takes any number of requests."""
    config = config_for(module_app.tenants.config.data, plans=dict.fromkeys(PLANS, 0))
    serve_installation(module_app, config, Clock())
    return module_app


@pytest.fixture
def acme(crm: CRMApp) -> Iterator[TenantSession]:
    """A session of acme."""
    with crm.tenants.session("acme") as session:
        yield session


@pytest.fixture
def api(crm: CRMApp, furnished: tuple[Path, dict[str, str]]) -> Api:
    """Olena's key, which may do everything at acme."""
    return Api(crm, "acme", furnished[1]["olena"])


@pytest.fixture
def taras(crm: CRMApp, furnished: tuple[Path, dict[str, str]]) -> Api:
    return Api(crm, "acme", furnished[1]["taras"])


@pytest.fixture
def reader(crm: CRMApp, furnished: tuple[Path, dict[str, str]]) -> Api:
    """A key that may read everything at acme and change nothing."""
    return Api(crm, "acme", furnished[1]["reader"])


@pytest.fixture
def form(crm: CRMApp, furnished: tuple[Path, dict[str, str]]) -> Api:
    """A website form's key without named origins."""
    return Api(crm, "acme", furnished[1]["form"])


@pytest.fixture
def ivan(crm: CRMApp, furnished: tuple[Path, dict[str, str]]) -> Api:
    """Another tenant's owner."""
    return Api(crm, "globex", furnished[1]["ivan"])


@pytest.fixture
def hook() -> Iterator[WebhookReceiver]:
    """A receiver of webhooks that listens on loopback."""
    with receive_webhooks() as result:
        yield result


@pytest.fixture
def sending(crm: CRMApp) -> Iterator[CRMApp]:
    """The app by the real clock, allowed to call loopback, with its sender at work."""
    config = config_for(crm.tenants.config.data, webhook_allow=LOOPBACK)
    crm.tenants = Tenants(config)
    crm.sender = Sender(crm.tenants)
    crm.sender.start()
    yield crm
    crm.sender.close()
    crm.sender = None
    crm.tenants.forget_idle()


# The same people at the pages of acme's cabinet


@pytest.fixture
def olena(crm: CRMApp) -> Person:
    return Person(crm, user_id=OLENA)


@pytest.fixture
def manager(crm: CRMApp) -> Person:
    return Person(crm, user_id=TARAS)


@pytest.fixture
def viewer(crm: CRMApp) -> Person:
    with crm.tenants.session("acme"):
        vira = users.create({"name": "Vira", "role": "viewer", "phone": "+380501110003"})
    return Person(crm, user_id=vira.id)


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A key that may do everything at acme, in a data folder that is `tmp_path`."""
    tenants = Tenants(config_for(tmp_path))
    tenant.open_tenant(tenants, "acme", plan="business")
    with tenants.session("acme"):
        secret = api_keys.create("writer", "*", users.owner_id())[1]
    tenants.forget_idle()
    return secret


def set_clock(crm: CRMApp, clock: Clock) -> None:
    """Let an app that nobody has visited yet go by the test's clock."""
    crm.tenants.clock = clock
    crm.tenants.steady_clock = SteadyClock(
        clock, None, crm.tenants.config.data / "clock", lambda: True
    )


@pytest.fixture
def counters(tmp_path: Path) -> Counters:
    return Counters(tmp_path, lambda: b"a key")


@pytest.fixture
def limiter(counters: Counters) -> Limiter:
    return Limiter(counters)


@pytest.fixture
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords at little cost; what hashing costs is claimed in `tests/access`."""
    cheap = "scrypt:1024:8:1"
    monkeypatch.setattr(
        passwords, "DUMMY_HASH", passwords.DUMMY_HASH.replace(passwords.METHOD, cheap)
    )
    monkeypatch.setattr(passwords, "METHOD", cheap)


@pytest.fixture
def post(crm: CRMApp, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Note SMS and e-mails instead of sending them."""
    monkeypatch.setattr(crm, "message_queue", Recorder())
    return crm.message_queue
