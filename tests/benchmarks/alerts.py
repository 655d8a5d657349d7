"""What alerts cost: requests while 10,000 are sent, and the bell that a page asks for each minute:
`python -m tests.benchmarks.alerts`, with a real server process and a stand-in of Telegram."""

import http.client
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from crm import create_app
from crm.access import api_keys
from crm.alerts import alerts, telegram_chats
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.storage.session import one_row, transaction
from tests.installations import config_for
from tests.page_client import Person
from tests.server_process import run_server
from tests.telegram_server import TOKEN, serve_telegram

USERS = int(os.environ.get("USERS", 200))
ALERTS = int(os.environ.get("ALERTS", 10_000))
PACE_SECONDS = 0.02  # between two requests of a client
BELLS = 100  # a session has a limit of pages
LEAD = '{"name": "Марія", "phone": "+380501234567", "assigned_to": "1"}'.encode()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serve_telegram() as bot:
        settings = {"telegram_token": TOKEN, "telegram_api": bot.url}
        tenants = Tenants(config_for(folder, plans={"business": 0}, **settings))
        tenant.open_tenant(tenants, "acme", plan="business")
        with tenants.session("acme"):
            key = api_keys.create("bench", "*", 1)[1]
            with transaction():
                ids = [users.create({"name": f"User {number}"}).id for number in range(USERS)]
                for id in ids:
                    telegram_chats.connect(telegram_chats.links.create("telegram", id), f"{id}")
        environ = {
            "CRM_TELEGRAM_TOKEN": TOKEN,
            "CRM_TELEGRAM_API": bot.url,
            "CRM_PLANS": "business=0",
        }
        with run_server(Path(folder), **environ) as port:
            measure("nothing to send", port, key, until=lambda: False)

            def is_sent() -> bool:
                with tenants.session("acme"):
                    return one_row("SELECT count(*) FROM alert WHERE send_at > ''") == (0,)

            with tenants.session("acme"), transaction():
                for number in range(ALERTS):
                    alerts.add("assigned", "lead", 1, to=ids[number % USERS])
            began = time.monotonic()
            measure(f"{ALERTS} alerts being sent", port, key, until=is_sent, seconds=600)
            took = time.monotonic() - began
            print(f"{len(bot.sent)} messages in {took:.0f} s: {len(bot.sent) / took:.0f} a second")
            measure("nothing to send", port, key, until=lambda: False)
        tenants.forget_idle()
        measure_bell(Path(folder))


def measure(
    what: str, port: int, key: str, until: Callable[[], bool], seconds: float = 10.0
) -> None:
    """Print how long reads and writes of two clients take until a condition holds."""
    times: dict[str, list[float]] = {"GET": [], "POST": []}
    ended = threading.Event()

    def ask(method: str) -> None:
        headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
        headers["Content-Type"] = "application/json"
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            while not ended.wait(PACE_SECONDS):
                began = time.perf_counter()
                body = LEAD if method == "POST" else None
                connection.request(
                    method,
                    "/api/v1/leads?limit=50" if body is None else "/api/v1/leads",
                    body,
                    headers,
                )
                answer = connection.getresponse()
                answer.read()
                assert answer.status in (200, 201), answer.status
                times[method].append(time.perf_counter() - began)

    clients = [threading.Thread(target=ask, args=(method,)) for method in times]
    for client in clients:
        client.start()
    stop_at = time.monotonic() + seconds
    while time.monotonic() < stop_at and not until():
        time.sleep(0.5)
    ended.set()
    for client in clients:
        client.join()
    for method, taken in times.items():
        median, *_, late = (
            1000 * statistics.median(taken),
            1000 * sorted(taken)[-len(taken) // 20],
        )
        print(f"{what}: {method} median {median:.1f} ms, 95th percentile {late:.1f} ms")


def measure_bell(folder: Path) -> None:
    """Print how long the app takes for a bell that has not changed, in this process."""
    app = create_app(config_for(folder), sends=False)
    person = Person(app, user_id=1)
    etag = person.get("/bell").headers["ETag"]
    times = []
    for _ in range(BELLS):
        began = time.perf_counter()
        answer = person.client.get(
            "/bell", base_url=person.home, headers={"If-None-Match": etag}, buffered=True
        )
        times.append(time.perf_counter() - began)
        assert answer.status_code == 304
    print(f"the bell: median {1000 * statistics.median(times):.2f} ms with the test's own client")
    app.tenants.forget_idle()


if __name__ == "__main__":
    main()
