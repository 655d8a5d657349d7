"""The application under WSGI servers that are not ours: bodies with a length, and chunked ones."""

import http.client
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests import external_programs
from tests.cases import loop_over
from tests.installations import copy_installation, environ_for
from tests.raw_wsgi import send_request
from tests.server_process import ROOT, TIMEOUT_SECONDS, find_free_port, wait_until_listening

UWSGI = "--module app:app --need-app --enable-threads --threads 4 --die-on-term --lazy-apps"
SERVERS = {
    "gunicorn": "gunicorn --no-control-socket -k gthread --threads 4 -b 127.0.0.1:%d app:app",
    "waitress": "waitress --listen 127.0.0.1:%d app:app",
    "hypercorn": "hypercorn -b 127.0.0.1:%d app:app",
    "uwsgi": f"uwsgi --http-socket 127.0.0.1:%d {UWSGI}",
    "uwsgi with its router": f"uwsgi --http 127.0.0.1:%d {UWSGI}",
}
DECODES_CHUNKS = {"gunicorn", "waitress"}
DROPS_UNDERSCORES = {"gunicorn", "waitress"}
LEAD = {"name": "Марія", "phone": "+380671234567"}
BODY = json.dumps(LEAD).encode()
FORM = "application/x-www-form-urlencoded"


@dataclass
class Served:
    name: str
    port: int
    key: str

    def request(
        self, method: str, path: str, *fields: str, body: bytes = b""
    ) -> http.client.HTTPResponse:
        """The answer to a request with these header fields, as they are written here.

        A server that refuses a body unread may close the connection over its own answer: then the
        request is sent once more.
        """
        lines = [f"{method} {path} HTTP/1.1", "Host: acme.localhost", "Connection: close"]
        lines += [f"Authorization: Bearer {self.key}", *fields, "", ""]
        for attempts_left in range(9, -1, -1):
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS) as line:
                try:
                    line.sendall("\r\n".join(lines).encode() + body)
                    with http.client.HTTPResponse(line) as answer:
                        answer.begin()
                        answer.body = answer.read()
                    return answer
                except (ConnectionError, http.client.RemoteDisconnected):
                    if not attempts_left:
                        raise
        raise AssertionError

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> http.client.HTTPResponse:
        """The answer to a request whose body has a length."""
        fields = (f"Content-Type: {kind}", f"Content-Length: {len(body)}") if body else ()
        return self.request(method, path, *fields, body=body)

    def ask_chunked(
        self, method: str, path: str, body: bytes, kind: str = "application/json"
    ) -> http.client.HTTPResponse:
        """The answer to a request whose body comes in two chunks."""
        fields = (f"Content-Type: {kind}", "Transfer-Encoding: chunked")
        return self.request(method, path, *fields, body=in_chunks(body[:9], body[9:]))


def in_chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


# gunicorn is the one that the project itself is run by.
@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.deep) for name in SERVERS if name != "gunicorn"]
    + ["gunicorn"],
)
def served(request, furnished, tmp_path_factory):
    folder, port = tmp_path_factory.mktemp(request.param), find_free_port()
    copy_installation(furnished[0], folder / "data")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    environ |= environ_for(folder / "data") | {"CRM_DATA": str(folder / "data")}
    module, *options = (SERVERS[request.param] % port).split()
    program = [sys.executable, "-m", module]
    if module == "uwsgi":
        program = [external_programs.found("uwsgi")]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*program, *options],
            cwd=ROOT, env=environ, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_until_listening(port, server)
            yield Served(request.param, port, furnished[1]["olena"])
        finally:
            server.terminate()
            server.wait(TIMEOUT_SECONDS)
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.process
def test_a_chunked_body_is_read_or_refused_and_never_empty(served):
    answer = served.ask_chunked("POST", "/api/v1/leads", BODY)
    if served.name in DECODES_CHUNKS:
        assert answer.status == 201, answer.body
        path = f"/api/v1/leads/{json.loads(answer.body)['lead_id']}"
        assert json.loads(served.ask("GET", path).body)["name"] == LEAD["name"]
    else:
        assert answer.status == 411
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.body)
        assert (problem["status"], problem["code"]) == (411, "length_required")
    page = served.ask_chunked("POST", "/login", b"phone=%2B380501110001", FORM)
    assert page.status == (400 if served.name in DECODES_CHUNKS else 411)  # 400: no form token
    assert page.headers["Content-Type"].startswith("text/html")
    assert b"<h1" in page.body


JSON = "Content-Type: application/json"
CHANGE = b'{"company": "Chunked"}'


@pytest.fixture
def lead(served):
    """The path of a lead without a company."""
    made = served.ask("POST", "/api/v1/leads", BODY)
    return f"/api/v1/leads/{json.loads(made.body)['lead_id']}"


def company(served: Served, lead: str) -> str | None:
    return json.loads(served.ask("GET", lead).body)["company"]


@pytest.mark.process
@pytest.mark.parametrize(
    "fields",
    [
        ("Transfer-Encoding: chunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ],
    ids=", ".join,
)
def test_no_chunked_body_vanishes_with_a_good_answer(served, lead, fields):
    total = "/api/v1/leads?total=true"
    before = json.loads(served.ask("GET", total).body)["meta"]["total"]
    changed = served.request("PATCH", lead, JSON, *fields, body=in_chunks(CHANGE)).status
    made = served.request("POST", "/api/v1/leads", JSON, *fields, body=in_chunks(BODY)).status
    after = json.loads(served.ask("GET", total).body)["meta"]["total"]
    assert (changed == 200) == (company(served, lead) == "Chunked")
    assert (made == 201) == (after == before + 1)
    if served.name not in DECODES_CHUNKS:  # hypercorn refuses other codings by itself, with 501
        assert {changed, made} <= ({411, 501} if "gzip" in fields[0] else {411})


# Header names with underscores


@pytest.mark.process
@pytest.mark.parametrize("forged", ["0", "2"])
def test_a_length_with_an_underscore_takes_nothing_of_a_body(served, lead, forged):
    fields = (JSON, f"Content_Length: {forged}", f"Content-Length: {len(CHANGE)}")
    for item in (fields, fields[::-1]):
        status = served.request("PATCH", lead, *item, body=CHANGE).status
        assert status == 200 or (status == 400 and served.name not in DROPS_UNDERSCORES)
        assert (status == 200) == (company(served, lead) == "Chunked")


@pytest.mark.process
def test_a_coding_with_an_underscore_takes_nothing_of_a_body(served, lead):
    fields = (JSON, "Transfer_Encoding: chunked", f"Content-Length: {len(CHANGE)}")
    status = served.request("PATCH", lead, *fields, body=CHANGE).status
    assert status == (200 if served.name in DROPS_UNDERSCORES else 411)
    assert (status == 200) == (company(served, lead) == "Chunked")


@pytest.mark.process
@loop_over("fields", [("SCRIPT_NAME: /api",), ("SCRIPT_NAME: /api", "Script-Name: /x")])
def test_no_header_of_a_client_names_the_mount_point(served, fields):
    answer = served.request("GET", "/api/v1/users/me", *fields)
    assert (answer.status, json.loads(answer.body)["name"]) == (200, "Olena")


# As uWSGI hands over a chunked body: unread, and without a mark of its end.


@loop_over("length", ["5, 2", "+5", "-1", "5 ", "٥", "0x5"])
def test_a_length_that_is_no_number_is_refused(crm, api, length):
    id = api.create("/leads", **LEAD)
    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    for method, path in (("PATCH", f"/api/v1/leads/{id}"), ("POST", "/api/v1/leads")):
        answer = send_request(crm, method, path, headers, BODY, CONTENT_LENGTH=length)
        assert (answer.status, answer.json["code"]) == (400, "bad_request")
    assert send_request(crm, "POST", "/login", headers, BODY, CONTENT_LENGTH=length).status == 400


@pytest.mark.parametrize("coding", ["Chunked", "gzip, chunked"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
def test_a_body_without_a_known_end_is_refused(crm, api, coding, method):
    id = api.create("/leads", **LEAD)
    headers = {"Transfer-Encoding": coding, "Authorization": f"Bearer {api.key}"}
    answer = send_request(crm, method, f"/api/v1/leads/{id}", headers)
    assert (answer.status, answer.json["code"]) == (411, "length_required")
    assert answer.headers["X-Request-Id"] == answer.json["request_id"]
    assert len(api.read("/leads")) == 1
    page = send_request(crm, "POST", "/leads", headers)
    assert (page.status, page.headers["Content-Type"]) == (411, "text/html; charset=utf-8")


def test_another_coding_or_an_unknown_host_is_not_its_matter(crm, api):
    headers = {"Transfer-Encoding": "identity", "Authorization": f"Bearer {api.key}"}
    assert send_request(crm, headers=headers).status == 200
    chunked = {"Transfer-Encoding": "chunked"}
    assert send_request(crm, "POST", headers=chunked, host="nobody.localhost").status == 404
