"""The wall clock of the real server is set forward and back while it runs."""

import struct
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.external_programs import found
from tests.http_calls import Answer, ask
from tests.server_process import run_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.deep]

HOUR, DAY = 3600, 86_400
MARIA = {"name": "Марія", "phone": "+380671234567"}
LISTS = ("leads", "clients", "deals", "products", "tasks", "pipelines", "users", "events")
PAGES = ("/", "/login", "/login/password", "/forgot", "/leads", "/deals", "/settings")
SETTINGS = {"CRM_WEBHOOK_ALLOW": "127.0.0.0/8", "CRM_PLANS": "business=0,base=40"}


class Machine:
    """A machine whose wall clock the test sets."""

    def __init__(self, folder: Path) -> None:
        self.library, self.file = folder / "clock_offset.so", folder / "offset"
        source = Path(__file__).with_name("clock_offset.c")
        compiler = found("gcc libc6-dev", "cc", "gcc")
        options = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", self.library)
        subprocess.run([compiler, *options, source], check=True)
        self.file.write_bytes(struct.pack("l", 0))

    @property
    def settings(self) -> dict[str, str]:
        return {**SETTINGS, "LD_PRELOAD": str(self.library), "CLOCK_OFFSET": str(self.file)}

    def set_off(self, seconds: int) -> None:
        """The clock shows so many seconds more than it should."""
        with self.file.open("r+b") as file:  # the same file: the server has it mapped
            file.write(struct.pack("l", seconds))


class Client:
    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return ask(self.port, method, path, body, self.key, **headers)

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer of a request that must succeed."""
        answer = self.call(method, f"/api/v1/{path}", body, **headers)
        assert answer.status in (200, 201, 202), (answer.status, answer.body)
        return answer.json if not headers else (answer.headers, answer.json)

    def look_at_everything(self) -> None:
        for noun in LISTS:
            self.api("GET", noun)
        for host in ("acme.localhost", "localhost"):
            for path in PAGES:
                assert self.call("GET", path, Host=host).status < 500, path


@pytest.fixture
def machine(tmp_path_factory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


def test_forty_days_ahead_for_a_moment_erase_and_repeat_nothing(key, tmp_path, machine, hook):
    hook.answer = lambda _: 500
    task = {"title": "Call"}
    with run_server(tmp_path, **machine.settings) as port:
        client = Client(port, key)
        webhook = client.api("POST", "webhooks", {"url": hook.url, "events": ["lead.created"]})
        client.api("POST", "leads", MARIA)
        client.api("POST", "clients", {"name": "Ромашка"})
        _, made = client.api("POST", "tasks", task, Idempotency_Key="once")
        before = client.api("GET", "events")["data"]
        log = f"webhooks/{webhook['webhook_id']}/deliveries"
        wait_for(lambda: client.api("GET", log)["data"][0]["attempts"])
    assert len(before) == 3
    with run_server(tmp_path, workers=2, **machine.settings) as port:
        client = Client(port, key)
        machine.set_off(40 * DAY)
        client.look_at_everything()
        response, again = client.api("POST", "tasks", task, Idempotency_Key="once")
        assert (response["Idempotency-Replayed"], again) == ("true", made)
        ahead = client.api("POST", "leads", MARIA)["lead_id"]
        wait_for(
            lambda: {delivery.event["data"]["lead"]["id"] for delivery in hook.received} >= {ahead}
        )
        machine.set_off(0)
        client.look_at_everything()

        lead = client.api("GET", f"leads/{ahead}")  # the clock was wrong indeed
        assert datetime.fromisoformat(lead["created_at"]) > datetime.now(UTC) + timedelta(days=39)
        events = client.api("GET", "events")["data"]
        assert events[:3] == before
        assert len(events) == 4
        response, again = client.api("POST", "tasks", task, Idempotency_Key="once")
        assert (response["Idempotency-Replayed"], again) == ("true", made)
        deliveries = client.api("GET", log)["data"]
        assert {delivery["status"] for delivery in deliveries} == {"pending"}
        assert client.api("GET", f"webhooks/{webhook['webhook_id']}")["active"]
        hook.answer = lambda _: 204
        for delivery in deliveries:
            client.api("POST", f"deliveries/{delivery['id']}/resend")
        wait_for(
            lambda: (
                {delivery["status"] for delivery in client.api("GET", log)["data"]} == {"delivered"}
            )
        )
