"""No transaction of the server is held while something slow is done: hashing, SMS, webhooks.

A transaction that waits holds the tenant's turn to write, and a connection. The server is started
here, also where the run is on SQLite.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.access import passwords
from crm.config import LOOPBACK
from crm.resources import tenant, webhooks
from crm.resources.leads.record import create as create_lead
from crm.storage.session import transaction
from tests.installations import config_on
from tests.page_client import Person
from tests.passwords import set_password
from tests.postgres_server import Postgres
from tests.waiting import wait_for
from tests.webhook_receiver import WebhookReceiver

pytestmark = pytest.mark.process

OLENA = {"name": "Olena", "phone": "+380501110001", "email": "olena@acme.example"}
PASSWORD = "a long password"
IN_TRANSACTION = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = 'idle' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture
def app(server: Postgres, folder: Path, hook: WebhookReceiver) -> Iterator[CRMApp]:
    config = config_on(
        server.create_database("idle"),
        folder,
        webhook_allow=LOOPBACK,
        sms="http",
        sms_url=hook.url,
        sms_body='{"to": "{phone}", "text": "{text}"}',
    )
    app = create_app(config)
    if not app.tenants.exists("acme"):
        tenant.open_tenant(app.tenants, "acme", plan="business", owner=OLENA)
    yield app
    app.message_queue.close()
    assert app.sender is not None
    app.sender.close()
    app.tenants.forget_idle()


def count_transactions(server: Postgres) -> int:
    return server.execute(IN_TRANSACTION, "idle")[0][0]


def test_a_transaction_of_a_session_is_counted(app: CRMApp, server: Postgres) -> None:
    with app.tenants.session("acme"):
        assert count_transactions(server) == 0
        with transaction():
            assert count_transactions(server) == 1


def test_while_an_sms_gateway_hangs(app: CRMApp, server: Postgres, hook: WebhookReceiver) -> None:
    answers = threading.Event()
    hook.answer = lambda _: answers.wait(60) and 200
    stranger = Person(app)
    assert stranger.sends("/login", {"phone": OLENA["phone"]}) == "/login/code"
    hook.wait_for(1)
    assert count_transactions(server) == 0
    stranger.sees("/login/code")  # others go on
    answers.set()


def test_while_a_webhook_hangs(app: CRMApp, server: Postgres, hook: WebhookReceiver) -> None:
    answers = threading.Event()
    hook.answer = lambda _: answers.wait(60) and 200
    with app.tenants.session("acme"):
        webhooks.create({"url": hook.url})
        create_lead({"name": "Марія", "phone": "+380501234567"})
    assert app.sender is not None
    app.sender.start()
    hook.wait_for(1)
    # The sender may look for more to send at this moment; the receiver answers after a minute.
    wait_for(lambda: count_transactions(server) == 0)
    answers.set()


def test_while_passwords_are_hashed(
    app: CRMApp, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def watched(function: Any) -> Any:
        def call(*args: Any) -> Any:
            counts.append(count_transactions(server))
            return function(*args)

        return call

    for name in ("generate_password_hash", "check_password_hash"):
        monkeypatch.setattr(passwords, name, watched(getattr(passwords, name)))
    with app.tenants.session("acme"):
        set_password(1, PASSWORD)
    person = Person(app)
    sent = {"email": OLENA["email"], "password": PASSWORD}
    assert person.sends("/login/password", sent) == "/"
    new = {"current": PASSWORD, "password": f"{PASSWORD} 2"}
    page = person.post("/settings/profile/password", new)
    assert page.status_code == 303, page.text
    assert counts == [0] * 4  # set, log in, check the old one, hash the new one
