"""Changes that come at once are committed together, in the process that writes for their host."""

import fcntl
import http.client
import json
import os
import signal
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crm.server import find_running
from tests.server.test_processes import Client, at_once
from tests.server_process import run_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.files, pytest.mark.process]

LEAD = {"name": "Petro", "phone": "+380671234567"}
HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24  # of the log: see SQLite's fileformat2.html


def count_commits(data: Path, page: int | None = None) -> int:
    """How many transactions the log of acme's file has since it was last begun anew; with `page`,
    only those that wrote this one.
    """
    log = (data / "tenants" / "acme.db-wal").read_bytes()
    (page_bytes,) = struct.unpack(">I", log[8:12])
    salts = log[16:24]
    count, place, pages = 0, HEADER_BYTES, set()
    while place < len(log) and log[place + 8 : place + 16] == salts:
        pages.add(int.from_bytes(log[place : place + 4]))
        if log[place + 4 : place + 8] != bytes(4):  # the last frame of a transaction
            count += page is None or page in pages
            pages.clear()
        place += FRAME_HEADER_BYTES + page_bytes
    return count


@contextmanager
def held_lock(data: Path, label: str) -> Iterator[None]:
    """Hold the lock of a tenant's writers."""
    with open(data / "tenants" / f"{label}.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unread_bytes(port: int) -> int:
    """What clients have sent to a port and the server has not read, or not even received."""
    here, count = f":{port:04X}", 0
    for address, queue in ((2, 0), (1, 2)):  # what is on its way may arrive between the two
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[address].endswith(here):
                count += int(fields[4].partition(":")[queue], 16)
    return count


def ask_together(
    port: int,
    key: str,
    data: Path,
    requests: list[tuple[str, str, Any, dict[str, str]]],
    label: str = "acme",
    before: Callable[[], None] = lambda: None,
) -> list[tuple[int, dict[str, str], Any]]:
    """The answers to requests that the server has read before it can write for any of them.

    The first one waits for the lock, the others for the first one. `before` is called before they
    may go on.
    """
    answers = []
    with ExitStack() as stack:
        links = []
        with held_lock(data, label):
            for method, path, body, more in requests:
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                stack.callback(link.close)
                headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"} | more
                headers["Content-Type"] = "application/json"
                link.request(method, f"/api/v1{path}", json.dumps(body), headers)
                links.append(link)
            wait_for(lambda: unread_bytes(port) == 0)
            before()
        for link in links:
            answer = link.getresponse()
            said = answer.read()
            answers.append((answer.status, dict(answer.headers), json.loads(said)))
    return answers


def call(
    port: int, key: str, method: str, path: str, body: Any = None, label: str = "acme"
) -> tuple[int, Any]:
    """The answer to one request on a connection of its own."""
    client = Client(port, key)
    client.headers["Host"] = f"{label}.localhost"
    with closing(client.link):
        return client.call(method, path, body)


def leads(port: int, key: str) -> list[dict[str, Any]]:
    status, said = call(port, key, "GET", "/leads?limit=200&sort=id")
    assert status == 200
    return said["data"]


def test_requests_that_come_at_once_have_one_commit_and_an_answer_each(tmp_path, key):
    with run_server(tmp_path) as port:
        call(port, key, "POST", "/leads", LEAD)
        with closing(sqlite3.connect(tmp_path / "tenants" / "acme.db")) as file:
            # Of the table that has the last id of each: others write, too, such as when a key is
            # noted as used.
            ((page,),) = file.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_sequence'"
            )

            def is_noted() -> bool:
                """Whether the key is noted as used, which ends a group and waits for nobody."""
                call(port, key, "GET", "/leads")
                return file.execute("SELECT last_used_at FROM api_key").fetchone() != (None,)

            wait_for(is_noted)
        before = count_commits(tmp_path, page)
        requests = [("POST", "/leads", LEAD | {"name": f"Lead {n}"}, {}) for n in range(16)]
        answers = ask_together(port, key, tmp_path, requests)
        commits = count_commits(tmp_path, page) - before
        stored = {lead["id"]: lead["name"] for lead in leads(port, key)}
    assert [status for status, _, _ in answers] == [201] * 16
    for number, (_, _, said) in enumerate(answers):
        assert stored[said["lead_id"]] == f"Lead {number}"
    assert len(stored) == 17
    assert 1 <= commits <= 2  # of the one that came first, and of the others


def test_each_of_a_group_is_answered_by_itself(tmp_path, key):
    with run_server(tmp_path) as port:
        _, said = call(port, key, "POST", "/leads", LEAD | {"external_id": "taken"})
        lead = f"/leads/{said['lead_id']}"
        repeated = {"Idempotency-Key": "once"}
        requests = [
            ("POST", "/leads", LEAD, {}),
            ("POST", "/leads", LEAD | {"external_id": "taken"}, {}),
            ("POST", "/leads", LEAD | {"phone": None}, {}),
            ("POST", "/leads", LEAD | {"name": "Once"}, repeated),
            ("POST", "/leads", LEAD | {"name": "Once"}, repeated),
            ("POST", "/leads", LEAD | {"name": "Other body"}, repeated),
            ("PATCH", lead, {"comment": "Changed"}, {"If-Match": '"stale"'}),
            ("PATCH", lead, {"comment": "Changed"}, {}),
            ("POST", "/deals", {"title": "Table", "client_id": "999"}, {}),
            ("POST", "/clients", {"name": "Zina"}, {}),
        ]
        answers = ask_together(port, key, tmp_path, requests)
        stored = [lead["name"] for lead in leads(port, key)]
        _, events = call(port, key, "GET", "/events")
        assert call(port, key, "GET", lead)[1]["comment"] == "Changed"
    statuses = [status for status, _, _ in answers]
    assert statuses == [201, 409, 422, 201, 201, 422, 412, 200, 422, 201]
    assert answers[3][2] == answers[4][2]
    replayed = [headers.get("Idempotency-Replayed") for _, headers, _ in answers[3:5]]
    assert replayed == [None, "true"]
    assert stored == ["Petro", "Petro", "Once"]
    sequences = [event["sequence"] for event in events["data"]]
    assert sequences == [*range(1, len(sequences) + 1)]
    kinds = [event["type"] for event in events["data"]]
    assert kinds == ["lead.created"] * 3 + ["client.created"]


def test_parallel_duplicates_are_one_record_whatever_process_they_come_to(tmp_path, key):
    with run_server(tmp_path, workers=2) as port:

        def ask(client: Client, _number: int) -> list[str]:
            client.headers["Idempotency-Key"] = "once"
            return [client.call("POST", "/leads", LEAD)[1]["lead_id"] for _ in range(4)]

        ids = {id for answers in at_once(port, key, ask) for id in answers}
        assert [lead["id"] for lead in leads(port, key)] == [*ids]


def workers_of(data: Path) -> list[int]:
    parent = find_running(data).pid
    return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def written_bytes(process: int) -> int:
    text = Path(f"/proc/{process}/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["wchar"])


def test_another_process_writes_once_the_one_that_did_is_killed(tmp_path, key):
    with run_server(tmp_path, workers=2, expected="was sent SIGKILL") as port:
        wait_for(lambda: len(workers_of(tmp_path)) == 2)
        at_once(port, key, lambda client, number: client.call("POST", "/leads", LEAD))
        written = {worker: written_bytes(worker) for worker in workers_of(tmp_path)}
        os.kill(max(written, key=written.__getitem__), signal.SIGKILL)

        def has_answer() -> bool:
            try:
                return call(port, key, "POST", "/leads", LEAD)[0] == 201
            except (OSError, http.client.HTTPException):
                return False  # it was passed to the one that is gone

        wait_for(has_answer)
        wait_for(lambda: len(workers_of(tmp_path)) == 2)
        results = at_once(port, key, lambda client, number: client.call("POST", "/leads", LEAD)[0])
    assert results == [201] * 8
