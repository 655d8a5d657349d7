"""RLIMIT_NOFILE: clients, open tenants and all else share it, and no request fails for it."""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.open_files import divide_open_files
from tests.concurrency import run_in_threads
from tests.http_calls import ask
from tests.server_process import ROOT, find_free_port, run_listening_process

pytestmark = [pytest.mark.files, pytest.mark.process]


def copies(data: Path, count: int) -> list[str]:
    """The labels of so many tenants, which are copies of acme, with its key."""
    results = [f"t{number}" for number in range(count)]
    for label in results:
        shutil.copyfile(data / "tenants" / "acme.db", data / "tenants" / f"{label}.db")
    return results


def limit(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


@contextlib.contextmanager
def limited(data: Path, count: int) -> Iterator[int]:
    """The port of a server that may have so many files open."""
    port = find_free_port()
    command = [sys.executable, "app.py", "serve", "--port", str(port)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with run_listening_process(
        command,
        port,
        cwd=ROOT,
        env=environ | {"CRM_DATA": str(data)},
        preexec_fn=lambda: limit(count),
    ):
        yield port


LEAD = {"name": "Ivan", "phone": "+380671234567"}


@pytest.mark.parametrize(
    ("most", "tenants", "silent"),
    [(256, 60, 110), pytest.param(1024, 400, 500, marks=pytest.mark.deep)],
)
def test_many_tenants_and_silent_clients_share_the_limit(tmp_path, key, most, tenants, silent):
    labels = copies(tmp_path, tenants)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))  # for the clients
    try:
        with limited(tmp_path, most) as port, contextlib.ExitStack() as lines:
            for number in range(silent):
                source = (f"127.0.0.{2 + number % 5}", 0)  # one address may not use up all
                lines.enter_context(socket.create_connection(("127.0.0.1", port), 10, source))

            def use(number: int) -> set[int]:
                own = labels[number::4]
                return {
                    ask(port, method, "/api/v1/leads", LEAD, key, label).status
                    for _ in range(2)
                    for label in own
                    for method in ("POST", "GET")
                }

            assert run_in_threads(4, use) == [{200, 201}] * 4
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


EXHAUSTED = """
import os, resource, sys
from pathlib import Path
from crm import create_app
from tests.installations import config_for

data, key = Path(sys.argv[1]), sys.argv[2]
app = create_app(config_for(data), sends=False)

def ask(label, method="GET"):
    headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}
    sent = {"name": "Ivan", "phone": "+380671234567"} if method == "POST" else None
    answer = app.test_client().open("/api/v1/leads", method=method, headers=headers, json=sent)
    code = answer.json.get("code", "")
    return f"{answer.status_code} {code} {answer.headers.get('Retry-After', '')}".strip()

warm = {ask(f"t{number}") for number in range(10)}
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
held = []
try:
    while True:
        held.append(os.open("/", os.O_RDONLY))
except OSError:
    pass
print(sorted(warm), ask("t10"), ask("t10", "POST"), sep="\\n")
for descriptor in held:
    os.close(descriptor)
print(ask("t10"), ask("t10", "POST"), sep="\\n")
"""


def test_without_a_descriptor_the_client_comes_again(tmp_path, key):
    copies(tmp_path, 11)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXHAUSTED, str(tmp_path), key],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert result.stdout.splitlines() == [
        *("['200']", "503 busy 1", "503 busy 1"),
        *("200", "201"),
    ]
    assert "Traceback" not in result.stderr


def test_the_limit_is_divided(monkeypatch):
    for soft, wanted, clients, databases in (
        (1024, 256, 384, 128),
        (8192, 256, 7168, 256),
        (1024, 0, 768, 0),
        (64, 256, 24, 8),
        (resource.RLIM_INFINITY, 256, 64512, 256),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert divide_open_files(wanted) == (clients, databases)
