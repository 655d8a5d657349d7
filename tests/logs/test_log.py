"""The log of a served installation: its lines, what they tell of requests, and nothing private."""

import contextlib
import http.client
import io
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from crm import log
from crm.access import tokens
from crm.access.api_keys import generate_key
from crm.access.links import SHORT_TOKEN_BYTES
from crm.outbox import signature
from tests.cases import loop_over
from tests.installations import environ_for
from tests.raw_wsgi import send_request
from tests.server_process import ROOT, TIMEOUT_SECONDS, find_free_port, wait_until_listening
from tests.waiting import wait_for

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS = ["time", "level", "request_id", "tenant", "route", "method", "status", "ms"]


class Log:
    """What `serve` would have written."""

    def __init__(self, stream: io.StringIO):
        self.stream = stream

    def lines(self) -> list[dict[str, Any]]:
        """What was written since the last look, and what waits."""
        logging.getLogger("crm.requests").handlers[0].flush()
        results = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        self.stream.truncate(0)
        self.stream.seek(0)
        return results

    def line(self) -> dict[str, Any]:
        (result,) = self.lines()
        return result


@pytest.fixture
def served(own_log, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logging.getLogger("crm.requests").handlers.clear()
    logging.getLogger("crm.requests").propagate = True
    log.set_up(shows_requests=True)
    yield Log(stream)


# Requests


def test_a_request_is_one_line(crm, api, served):
    lead = {"name": "Марія", "phone": "+380671234567"}
    id = api.post("/leads", lead, buffered=True).json["lead_id"]
    line = served.line()
    assert list(line) == FIELDS
    assert TIME.fullmatch(line["time"]) and line["level"] == "info"
    assert (line["method"], line["route"], line["status"]) == ("POST", "/api/v1/leads", 201)
    assert line["tenant"] == "acme"
    answer = api.get(f"/leads/{id}?expand=possible_duplicates", buffered=True)
    line = served.line()
    assert line["request_id"] == answer.headers["X-Request-Id"]
    assert (line["route"], line["status"]) == ("/api/v1/leads/<id>", 200)
    assert 0 < line["ms"] < 10_000


@pytest.mark.parametrize(
    ("host", "path", "tenant", "route", "status"),
    [
        ("acme.localhost", "/livez", None, "/livez", 200),
        ("acme.localhost", "/api/v1/nothing/+380671234567", "acme", None, 401),
        ("nobody.localhost", "/api/v1/leads", None, "/api/v1/leads", 404),
        ("+380671234567", "/+380671234567", None, None, 404),
        ("acme.localhost", "/enter/0123456789", "acme", "/enter/<token>", 404),
        ("acme.localhost", "/login?phone=%2B380671234567", "acme", "/login", 200),
        ("localhost", "/signup", "_front", "/signup", 200),
        ("acme.localhost", "/api/v1/leads", "acme", "/api/v1/leads", 401),
    ],
)
def test_what_is_refused_is_told_too_and_no_path(crm, served, host, path, tenant, route, status):
    path, _, query = path.partition("?")
    send_request(crm, "GET", path, host=host, query=query)
    line = served.line()
    result = line["tenant"], line["route"], line["status"]
    assert result == (tenant, route, status)
    assert "380671234567" not in json.dumps(line)


def test_a_method_is_one_that_there_is(crm, served):
    send_request(crm, "S3CRET", "/api/v1/leads")
    assert served.line()["method"] == "other"


def test_an_export_that_streams_is_one_line(crm, api, served):
    api.get("/products/export", buffered=True).close()
    assert [line["route"] for line in served.lines()] == ["/api/v1/products/export"]


def test_an_unforeseen_error_is_told_with_its_trace_and_its_request(crm, api, served, monkeypatch):
    secret = generate_key()

    def fails(*_: Any) -> None:
        raise RuntimeError(f"the key {secret} of +380671234567 <maria@example.com>")

    view = next(n for n in crm.view_functions if n.endswith("list_pipelines"))
    monkeypatch.setattr(crm.view_functions[view], "serve", fails)
    answer = api.get("/pipelines", buffered=True)
    assert answer.status_code == 500
    error, request = served.lines()
    assert (error["level"], request["level"]) == ("error", "warning")
    id = answer.headers["X-Request-Id"]
    assert error["request_id"] == request["request_id"] == id
    assert (error["tenant"], error["route"]) == ("acme", "/api/v1/pipelines")
    assert error["trace"].startswith("Traceback (most recent call last):\n")
    assert error["trace"].endswith("RuntimeError: the key crm_… of +… <…@…>")
    assert secret not in json.dumps(error)


def test_an_error_of_the_page_of_errors_does_not_tell_the_path(crm, served, monkeypatch):
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no page")

    monkeypatch.setattr("crm.cabinet.errors.render", fails)
    token = tokens.generate_token()
    with pytest.raises(RuntimeError):  # for the server, which tells it too
        send_request(crm, path=f"/enter/{token}/nowhere")
    *before, request = lines = served.lines()
    errors = [item["message"] for item in before if item["level"] == "error"]
    assert errors and {text.partition(",")[0] for text in errors} == {"unforeseen error"}
    assert (request["status"], request["level"]) == (500, "warning")
    assert token not in json.dumps(lines)


@pytest.mark.parametrize("sent", ["380671234567", "a" * 129, "{token}", "Ї", "a b"])
def test_a_clients_id_of_a_request_is_no_way_into_the_log(crm, served, sent):
    token = tokens.generate_token().replace("_", "-")
    send_request(crm, headers={"X-Request-Id": sent.replace("{token}", token)})
    assert re.fullmatch("[0-9a-f]{24}", served.line()["request_id"])
    for good in ("1", "9f0c2ab8-1c55-41d2-a2f3-a4b5c6d7e8f9", "abc380671234567"):
        send_request(crm, headers={"X-Request-Id": good})
        assert served.line()["request_id"] == good


@pytest.mark.process
def test_no_import_and_no_app_sets_a_log_up():
    code = (
        "import logging, crm, crm.cli, crm.server\n"
        "crm.create_app(crm.wsgi.Config(), sends=False)\n"
        "every = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]\n"
        "print([each.name for each in every if each.name.startswith(('crm', 'root'))\n"
        "    and (each.handlers or each.level not in (0, 30))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


# Lines that wait for each other


def log_line(number: int, status: int = 200, **more: Any) -> None:
    about = {"request_id": str(number), "tenant": "acme", "route": "/", "method": "GET"}
    log.log_request(status, 0.01, **about, **more)


@pytest.fixture
def slow(served, monkeypatch):
    """Lines of requests wait for an hour."""
    monkeypatch.setattr(log, "FLUSH_SECONDS", 3600)
    return served


def written(found: Log) -> list[str]:
    """What the lines in the stream are, without those that wait."""
    lines = map(json.loads, found.stream.getvalue().splitlines())
    return [line.get("request_id") or line["message"] for line in lines]


def test_a_line_waits_for_others_and_comes_by_itself(served, crm):
    send_request(crm, headers={"X-Request-Id": "1"})
    assert written(served) == []
    wait_for(lambda: written(served) == ["1"], TIMEOUT_SECONDS)


def test_a_5xx_and_other_records_come_at_once_after_those_that_waited(slow, crm):
    log_line(1)
    assert written(slow) == []
    log_line(2, 503)
    log_line(3)
    logging.getLogger("somebody.else").error("told")
    log_line(4)
    assert written(slow) == ["1", "2", "3", "told"]
    crm.stop_background_work()
    log_line(5)
    assert written(slow) == ["1", "2", "3", "told", "4", "5"], "none waits once the app leaves"


def test_many_lines_are_written_in_order_and_whole(slow):
    writes: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return super().write(text)

    handler = logging.getLogger("crm.requests").handlers[0]
    slow.stream = Stream()
    handler.setStream(slow.stream)
    for number in range(1000):
        log_line(number)
    log.stop_batching()
    assert written(slow) == [str(number) for number in range(1000)]
    assert all(text.endswith("\n") for text in writes)
    # Other processes write to the same pipe, and longer writes would be mixed with theirs.
    assert max(map(len, writes)) <= select.PIPE_BUF and len(writes) < 100


def test_while_nobody_reads_requests_go_on_and_lost_lines_are_counted(slow, monkeypatch):
    monkeypatch.setattr(log, "FLUSH_SECONDS", 0)
    monkeypatch.setattr(log, "MAX_WAITING_LINES", 100)
    reading, writing = os.pipe()
    handler = logging.getLogger("crm.requests").handlers[0]
    read: list[str] = []
    with os.fdopen(writing, "w") as stream, os.fdopen(reading) as pipe:
        handler.setStream(stream)
        requests = threading.Thread(target=lambda: list(map(log_line, range(5000))), daemon=True)
        requests.start()
        requests.join(TIMEOUT_SECONDS)
        assert not requests.is_alive()
        reader = threading.Thread(target=lambda: read.extend(pipe))
        reader.start()
        handler.flush()
        log_line(5000, at_once=True)
        handler.setStream(slow.stream)
        stream.close()
        reader.join()
    results = list(map(json.loads, read))
    lost = [line["message"] for line in results if "message" in line]
    numbers = [int(line["request_id"]) for line in results if "message" not in line]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 5000
    assert lost[0].endswith(" lines of requests are lost: stderr was blocked")
    assert sum(int(text.split()[0]) for text in lost) == 5001 - len(numbers) > 0


def test_a_broken_stderr_ends_no_request(slow, api):
    reading, writing = os.pipe()
    os.close(reading)
    handler = logging.getLogger("crm.requests").handlers[0]
    stream = os.fdopen(writing, "w")
    handler.setStream(stream)
    assert api.get("/leads", buffered=True).status_code == 200
    log_line(1, 500)
    handler.flush()
    handler.setStream(slow.stream)
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    log_line(2, 500)
    assert written(slow) == ["2 lines of requests are lost: stderr was blocked", "2"]


FORK = """
import os
from crm import log
def line(number):
    about = {"request_id": number, "tenant": None, "route": "/", "method": "GET"}
    log.log_request(200, 0.01, **about)
log.set_up(shows_requests=True)
line("parent")
child = os.fork()
if child:
    os.waitpid(child, 0)
    line("parent again")
else:
    log.log.warning("child")
    line("child")
"""


@pytest.mark.process
def test_each_process_writes_its_own_lines_at_its_end():
    # From 3.12 on, Python warns of a fork beside the thread that writes the log.
    command = [sys.executable, "-W", "ignore:This process", "-c", FORK]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = map(json.loads, ran.stderr.splitlines())
    results = [line.get("request_id") or line["message"] for line in lines]
    assert results == ["child", "child", "parent", "parent again"]


# Other lines


def test_everything_is_a_line_of_json(served):
    logging.getLogger("crm").warning("an SMS could not be sent: %s", "a\nb ї \udc80")
    response = served.line()
    assert list(response) == ["time", "level", "logger", "message"]
    assert (response["level"], response["logger"]) == ("warning", "crm")
    assert response["message"].startswith("an SMS could not be sent: a\nb ї ")
    logging.getLogger("somebody.else").info("not told")
    logging.getLogger("somebody.else").error("told")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    assert [line["logger"] for line in served.lines()] == ["somebody.else", "py.warnings"]


def test_a_terminal_gets_plain_lines(own_log, crm, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.set_up(shows_requests=True, plain=True)
    send_request(crm, path="/api/v1/leads", query="q=secret", headers={"X-Request-Id": "1"})
    log.log.warning("told to +380671234567")
    request, line = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d INFO    GET /api/v1/leads 401 \d+\.\d ms acme 1", request)
    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING told to \+…", line)


def test_warnings_alone_can_be_had(own_log, crm, api, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.set_up(shows_requests=False)
    api.get("/leads", buffered=True)
    send_request(crm, path="/readyz")
    assert stream.getvalue() == ""
    logging.getLogger("crm").warning("told")
    assert json.loads(stream.getvalue())["message"] == "told"


@loop_over(
    ("text", "shown"),
    [
        ("the key {key}, twice {key}", "the key crm_…, twice crm_…"),
        ("{whsec}!", "whsec_…!"),
        ("GET /enter/{token}/x", "GET /enter/…/x"),
        ("cookie={token};", "cookie=…;"),
        ("GET /i/{invitation} failed", "GET /i/… failed"),
        ("https://acme.crm.ua/invite/{invitation}", "https://acme.crm.ua/invite/…"),
        ("to +380 (67) 123-45-67.", "to +…."),
        ("KeyError: '067 123-45-67'", "KeyError: '+…'"),
        ("KeyError: 'maria.k+a@mail.example.com'", "KeyError: '…@…'"),
        ("smtp://crm:s3cret@mail.ua:587", "smtp://…@mail.ua:587"),
        ("https://a.ua/hook?token=s3cret&b=1 failed", "https://a.ua/hook?… failed"),
        ('{{"Authorization": "Bearer s3cret"}}', '{{"Authorization": "Bearer …"}}'),
    ],
)
def test_what_looks_like_a_secret_is_masked(text, shown):
    made = {
        "key": generate_key(),
        "whsec": signature.new_secret(),
        "token": tokens.generate_token(),
    }
    made["invitation"] = tokens.generate_token(SHORT_TOKEN_BYTES)
    assert log.mask_secrets(text.format(**made)) == shown.format()


@loop_over("part", ["a", "1", "a.A1", "a@", "x%", "ab://", "https://", "crm_", "-"])
def test_a_long_text_is_masked_in_time(part):
    began = time.thread_time()  # which other programs do not lengthen
    log.mask_secrets(part * (200_000 // len(part)))
    assert time.thread_time() - began < 5  # in squares it would be minutes


@pytest.mark.parametrize(
    "text",
    [
        "delivery 123456789 of acme was interrupted",
        "http://127.0.0.1:8000 at 2026-11-21T07:56:00.123Z, pid 4194304",
        'File "/opt/crm/crm/storage/session.py", line 380, in _migrate_380',
        "request 0000000042",
        "a_name_of_exactly_forty_three_characters_xy",
        "the mail server refused the recipient (550)",
    ],
)
def test_what_is_none_is_shown(text):
    assert log.mask_secrets(text) == text


# Served


@pytest.mark.process
def test_what_serve_writes_is_lines_of_json_to_the_end(tmp_path):
    """Refusals of the server before the application, and gunicorn's own lines, too."""
    port = find_free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(tmp_path), "--port", str(port)]
    written = tmp_path / "log"

    def lines(count: int) -> list[dict[str, Any]]:
        """So many as soon as they are there."""

        def has_lines() -> str:
            text = written.read_text("utf-8")
            return text if text.count("\n") >= count else ""

        text = wait_for(has_lines, TIMEOUT_SECONDS, lambda: written.read_text("utf-8"))
        return [json.loads(line) for line in text.splitlines()]

    with written.open("w") as log_file:
        server = subprocess.Popen(
            command, cwd=ROOT, stderr=log_file, env=os.environ | environ_for(tmp_path)
        )
    try:
        wait_until_listening(port, server)
        for method, path in (("GET", "/livez"), ("GET", "/" + "a" * 9000), ("B?D", "/")):
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            line.putrequest(method, path, skip_host=True)
            line.putheader("Host", "acme.localhost")
            line.endheaders()
            answer = line.getresponse()
            text = answer.read()
            if answer.status == 414:
                assert json.loads(text)["instance"] == path
            line.close()
        said = lines(7)
        assert [line["message"] for line in said[:2]] == [
            f"data folder: {tmp_path}",
            f"listening on http://127.0.0.1:{port}",
        ]
        assert sorted(line["status"] for line in said[4:]) == [200, 400, 414]
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGKILL)
        gunicorns = lines(8)[7]
        assert (gunicorns["logger"], gunicorns["level"]) == ("gunicorn.error", "error")
        assert "SIGKILL" in gunicorns["message"]
    finally:
        server.terminate()
        server.wait(TIMEOUT_SECONDS)
    lines(8)
