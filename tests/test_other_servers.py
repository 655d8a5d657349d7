"""The application under WSGI servers that are not ours: bodies with a length, and chunked ones."""

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from wire import speak

from tests.running import PATIENCE, ROOT, free_port, wait_for

SERVERS = {
    "gunicorn": "gunicorn --no-control-socket -k gthread --threads 4 -b 127.0.0.1:%d app:app",
    "waitress": "waitress --listen 127.0.0.1:%d app:app",
    "hypercorn": "hypercorn -b 127.0.0.1:%d app:app",
}
DECODES_CHUNKS = {"gunicorn", "waitress"}
LEAD = {"name": "Марія", "phone": "+380671234567"}
BODY = json.dumps(LEAD).encode()
FORM = "application/x-www-form-urlencoded"


@dataclass
class Served:
    name: str
    port: int
    key: str

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> http.client.HTTPResponse:
        """An answer; a body that is a list of parts is sent chunked."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Host": "acme.localhost", "Authorization": f"Bearer {self.key}"}
        headers |= {"Content-Type": kind} if body else {}
        if chunked := isinstance(body, list):
            headers["Transfer-Encoding"] = "chunked"
        line.request(method, path, body, headers, encode_chunked=chunked)
        answer = line.getresponse()
        answer.body = answer.read()
        line.close()
        return answer


@pytest.fixture(scope="module", params=SERVERS)
def served(
    request: pytest.FixtureRequest,
    furnished: tuple[Path, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    folder, port = tmp_path_factory.mktemp(request.param), free_port()
    shutil.copytree(furnished[0], folder / "data")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *(SERVERS[request.param] % port).split()],
            cwd=ROOT, env=environ | {"CRM_DATA": str(folder / "data")}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_for(port, server)
            yield Served(request.param, port, furnished[1]["olena"])
        finally:
            server.terminate()
            server.wait(PATIENCE)
    assert "Traceback" not in (folder / "log").read_text()


def test_a_lead_comes_in_and_is_changed(served: Served) -> None:
    answer = served.ask("POST", "/api/v1/leads", BODY)
    assert answer.status == 201, answer.body
    path = f"/api/v1/leads/{json.loads(answer.body)['lead_id']}"
    assert served.ask("PATCH", path, b'{"company": "Acme"}').status == 200
    assert json.loads(served.ask("GET", path).body)["company"] == "Acme"
    assert b"<form" in served.ask("GET", "/login").body


def test_a_chunked_body_is_read_or_refused_and_never_empty(served: Served) -> None:
    parts = [BODY[:9], BODY[9:]]
    answer = served.ask("POST", "/api/v1/leads", parts)
    if served.name in DECODES_CHUNKS:
        assert answer.status == 201, answer.body
        path = f"/api/v1/leads/{json.loads(answer.body)['lead_id']}"
        assert json.loads(served.ask("GET", path).body)["name"] == LEAD["name"]
    else:
        assert answer.status == 411
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.body)
        assert (problem["status"], problem["code"]) == (411, "length_required")
    page = served.ask("POST", "/login", [b"phone=%2B380501110001"], FORM)
    assert page.status == (400 if served.name in DECODES_CHUNKS else 411)  # 400: no form token
    assert page.headers["Content-Type"].startswith("text/html")
    assert b"<h1" in page.body


# As uWSGI hands over a chunked body: unread, and without a mark of its end.


@pytest.mark.parametrize("coding", ["chunked", "Chunked", "gzip, chunked", "chunked "])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE", "GET"])
def test_a_body_without_a_known_end_is_refused(crm, api, coding: str, method: str) -> None:
    id = api.create("/leads", **LEAD)
    headers = {"Transfer-Encoding": coding, "Authorization": f"Bearer {api.key}"}
    answer = speak(crm, method, f"/api/v1/leads/{id}", headers)
    assert (answer.status, answer.json["code"]) == (411, "length_required")
    assert answer.headers["X-Request-Id"] == answer.json["request_id"]
    assert len(api.read("/leads")) == 1
    page = speak(crm, "POST", "/leads", headers)
    assert (page.status, page.headers["Content-Type"]) == (411, "text/html; charset=utf-8")


def test_another_coding_or_an_unknown_host_is_not_its_matter(crm, api) -> None:
    headers = {"Transfer-Encoding": "identity", "Authorization": f"Bearer {api.key}"}
    assert speak(crm, headers=headers).status == 200
    chunked = {"Transfer-Encoding": "chunked"}
    assert speak(crm, "POST", headers=chunked, host="nobody.localhost").status == 404
