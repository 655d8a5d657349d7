"""The printed configurations of nginx and Caddy, in the real programs before a real server, on
loopback."""

import gzip
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crm import cli
from crm.api.request_limits import MAX_FAILED_KEYS
from tests import external_programs
from tests.installations import copy_installation
from tests.nginx_server import (
    EXPECTED,
    NODE_FAILED,
    certify,
    needed,
    nginx_path,
    printed,
    printed_for_tls,
    run_nginx,
)
from tests.server_process import TIMEOUT_SECONDS, find_free_port, run_server, wait_until_listening
from tests.waiting import wait_for

pytestmark = pytest.mark.process


@dataclass
class Front:
    """What clients see: an address, and hosts behind it."""

    port: int
    keys: dict[str, str]
    direct: int  # the server's own port, which no client of the real thing can reach
    tls: ssl.SSLContext | None = None
    told: dict[str, str] = field(default_factory=dict)
    log: Path = Path("/dev/null")  # of the proxy

    def ask(
        self,
        path: str,
        host: str = "acme.localhost",
        *,
        method: str = "GET",
        key: str = "olena",
        body: bytes = b"",
        source: str = "127.0.0.1",
        port: int = 0,
        **headers: str,
    ) -> http.client.HTTPResponse:
        options: dict[str, Any] = {"timeout": 30, "source_address": (source, 0)}
        sent = {"Host": host, "Authorization": f"Bearer {self.keys.get(key, key)}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        line = http.client.HTTPConnection("127.0.0.1", port or self.port, **options)
        if self.tls:
            line.connect()
            line.sock = self.tls.wrap_socket(line.sock, server_hostname=host)
        line.request(method, path, body or None, sent)
        answer = line.getresponse()
        answer.body = answer.read()
        answer.text = answer.body.decode("utf-8", "replace")
        line.close()
        return answer

    def read(self, path: str, host: str, **more: Any) -> Any:
        answer = self.ask(path, host, **more)
        assert answer.status == 200, answer.text
        return json.loads(answer.text)


@pytest.fixture(scope="module")
def front(furnished, tmp_path_factory):
    nginx_path()
    folder, port = tmp_path_factory.mktemp("plain"), find_free_port()
    copy_installation(furnished[0], folder / "data")
    place = f"127.0.0.1:{port}"
    settings = needed(printed("--plain", place))
    with run_server(folder / "data", **settings) as behind:
        text = printed("--plain", place, "--upstream", f"127.0.0.1:{behind}")
        with run_nginx(folder, text, port):
            yield Front(port, furnished[1], behind, told=settings, log=folder / "access.log")


def test_a_host_reaches_its_tenant(front):
    assert front.read("/api/v1/users/me", "acme.localhost")["tenant"]["name"] == "Acme"
    port = f"globex.localhost:{front.port}"
    assert front.read("/api/v1/users/me", port, key="ivan")["tenant"]["name"] == "globex"
    assert front.ask("/api/v1/users/me", "globex.localhost").status == 401
    for host in ("nobody.localhost", "evil.example", "a.acme.localhost"):
        assert front.ask("/api/v1/users/me", host).status == 404
    assert "/signup" in front.ask("/", "localhost").text


def test_the_proxy_can_ask_for_its_health(front):
    for path in ("/livez", "/readyz"):
        assert front.read(path, "10.0.0.7") == {"status": "ok"}


def test_only_the_proxy_itself_learns_which_hosts_there_are(front):
    ask = "/tls-ask?domain=acme.localhost"
    assert front.ask(ask, f"127.0.0.1:{front.direct}", port=front.direct).status == 200
    for headers in ({}, {"X_Forwarded_For": "127.0.0.1"}, {"X_Forwarded_For": ""}):
        assert front.ask(ask, "127.0.0.1", **headers).status == 404


def test_a_clients_address_is_the_one_that_the_proxy_saw(front):
    def guess(source: str, number: int) -> int:
        forged = f"198.51.100.{number}"
        headers = {"X_Forwarded_For": f"{forged}, {forged}", "X_Real_IP": forged}
        return front.ask("/api/v1/leads", key="wrong", source=source, **headers).status

    # As many as fit into two minutes, of which one may end in between.
    assert 429 in (guess("127.0.0.2", number) for number in range(2 * MAX_FAILED_KEYS + 1))
    assert guess("127.0.0.3", 1) == 401  # another client is not held to account for it
    assert front.ask("/api/v1/leads", source="127.0.0.2").status == 200


def test_nothing_that_a_client_says_of_the_proxy_is_believed(front):
    forged = {
        "X_Forwarded_Host": "globex.localhost",
        "X_Forwarded_Prefix": "/evil",
        "X_Forwarded_Proto": "https",
        "X_Forwarded_Port": "1",
        "Forwarded": "for=198.51.100.1;host=globex.localhost;proto=https",
    }
    assert front.read("/api/v1/users/me", "acme.localhost", **forged)["tenant"]["name"] == "Acme"
    page = front.ask("/leads", key="", **forged)
    assert (page.status, page.headers["Location"]) == (302, "/login?next=/leads")
    page = front.ask("/login", key="", **forged)
    assert "evil" not in page.text
    assert "__Host-" not in page.headers["Set-Cookie"]


def test_a_list_of_hosts_is_no_host(front):
    for host in ("evil.example,acme.localhost", "evil.example, acme.localhost", ",acme.localhost"):
        for port in (front.port, front.direct):
            assert front.ask("/api/v1/users/me", host, port=port).status in (400, 404)


def upload(front: Front, rows: bytes, path: str = "/api/v1/products/import") -> Any:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    kind = {"Content_Type": "multipart/form-data; boundary=b"}
    return front.ask(path, method="POST", body=head + rows + b"\r\n--b--\r\n", **kind)


def test_what_is_too_large_is_told_by_the_service_itself(front):
    answer = upload(front, b"x" * (50 * 1024 * 1024 + 1))
    assert (answer.status, json.loads(answer.text)["code"]) == (413, "too_large")
    assert upload(front, b"x" * (53 * 1024 * 1024)).status == 413


def test_lists_and_exports_are_compressed_for_who_takes_that(front):
    lead = {"name": "Марія", "phone": "+380671234567", "comment": "довго " * 400}
    made = front.ask(
        "/api/v1/leads", method="POST", body=json.dumps(lead).encode(),
        Content_Type="application/json", Prefer="return=representation",
    )  # fmt: skip
    assert made.status == 201, made.text
    for path in ("/api/v1/leads", "/api/v1/leads/export"):
        plain, packed = front.ask(path), front.ask(path, Accept_Encoding="gzip")
        assert plain.headers["Content-Encoding"] is None
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in packed.headers["Vary"]
        assert gzip.decompress(packed.body) == plain.body


def test_a_compressed_answer_never_costs_a_record_its_etag(front):
    lead = {"name": "Марія", "email": "m@example.com", "comment": "довго " * 400}
    sent = {"Content_Type": "application/json", "Accept_Encoding": "gzip"}
    body = json.dumps(lead).encode()
    made = front.ask("/api/v1/leads", method="POST", body=body, **sent)
    path = f"/api/v1/leads/{json.loads(made.text)['lead_id']}"
    record = front.ask(path, Accept_Encoding="gzip")
    etag = record.headers["ETag"]
    assert len(record.body) > 1024 and etag.startswith('"')
    assert front.ask(path, If_None_Match=etag, Accept_Encoding="gzip").status == 304
    change = front.ask(path, method="PATCH", body=b'{"name":"M"}', If_Match=etag, **sent)
    assert change.status == 200, change.text


# Logs and headers

SECRET = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF"
LINKED = (
    "/reset/",
    "/invite/",
    "/i/",
    "/enter/",
    "/email/",
    "/open/",
    "/Reset/",
    "//reset/",
    "/%72eset/",
)


def browse_links(front: Front) -> None:
    """Ask for one-time links, and for a file from each of their pages."""
    for door in LINKED:
        path = f"{door}{SECRET}"
        assert front.ask(path, key="").status in (200, 404)
        assert front.ask(f"{path}?a={SECRET}", key="").status in (200, 404)
        address = f"http://acme.localhost{path}"
        assert front.ask("/cabinet/cabinet.css", key="", Referer=address).status in (200, 404)


def logged(log: Path, text: str) -> str:
    """The log once it has that text."""
    wait_for(lambda: text in log.read_text(), TIMEOUT_SECONDS, text)
    return log.read_text()


def test_no_one_time_link_comes_into_the_log(front):
    browse_links(front)
    front.ask("/api/v1/leads?q=0671234567&the=last")
    lines = logged(front.log, "GET /api/v1/leads HTTP")
    assert SECRET not in lines and "0671234567" not in lines
    assert lines.count('"GET - HTTP/1.1"') == 2 * len(LINKED)
    assert '"GET /cabinet/cabinet.css HTTP/1.1"' in lines


def test_none_comes_into_the_log_of_errors(tmp_path):
    port = find_free_port()
    text = printed("--plain", f"127.0.0.1:{port}", "--upstream", f"127.0.0.1:{find_free_port()}")
    with run_nginx(tmp_path, text, port):  # which finds every complaint
        front = Front(port, {}, 0)
        for door in LINKED:
            answer = front.ask(f"{door}{SECRET}", key="")
            assert (answer.status, answer.headers["X-Content-Type-Options"]) == (502, "nosniff")


def certified(folder: Path) -> ssl.SSLContext:
    """Put a certificate of the hosts there, and give what a client needs to believe it."""
    client = ssl.create_default_context()
    certify(folder).configure_trust(client)
    return client


def test_by_tls_the_service_knows_of_it(furnished, tmp_path):
    nginx_path()
    copy_installation(furnished[0], tmp_path / "data")
    client = certified(tmp_path)
    plain, secure = find_free_port(), find_free_port()
    with run_server(tmp_path / "data", **needed(printed())) as behind:
        text = printed_for_tls(tmp_path, behind, plain, secure)
        with run_nginx(tmp_path, text, secure):
            front = Front(secure, furnished[1], behind, client)
            assert front.read("/api/v1/users/me", "acme.localhost")["name"] == "Olena"
            cookie = front.ask("/login", key="").headers["Set-Cookie"]
            assert cookie.startswith("__Host-") and "Secure" in cookie
            for path in ("/login", "/api/v1/leads", "/livez", "/nowhere"):
                headers = front.ask(path).headers
                assert headers.get_all("Strict-Transport-Security") == ["max-age=31536000"], path
                assert headers.get_all("X-Content-Type-Options") == ["nosniff"], path
            onward = Front(plain, furnished[1], behind).ask(f"/reset/{SECRET}?q=a")
            address = f"https://acme.localhost/reset/{SECRET}?q=a"
            assert (onward.status, onward.headers["Location"]) == (301, address)
            assert onward.headers["X-Content-Type-Options"] == "nosniff"
            assert onward.headers["Strict-Transport-Security"] is None
        assert SECRET not in (tmp_path / "access.log").read_text()
        assert '"GET - HTTP/1.1" 301' in (tmp_path / "access.log").read_text()


# Caddy

CADDY_HOME = """
{
    admin off
    auto_https disable_redirects
    skip_install_trust
    http_port %d
    https_port %d
    storage file_system %s
"""


@contextmanager
def caddying(folder: Path, text: str, port: int, *ports: int) -> Iterator[Path]:
    """A Caddy with that configuration, and its log; it listens on `port`, of `ports` those for
    plain http and for TLS."""
    caddy = external_programs.found("caddy")
    options = CADDY_HOME % (*ports, folder / "storage")
    text = text.replace("\n{\n", options, 1)
    (folder / "Caddyfile").write_text(text)
    environ = os.environ | {"HOME": str(folder)}
    with (folder / "log").open("w") as log:
        started = subprocess.Popen(
            [caddy, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")],
            stderr=log, env=environ,
        )  # fmt: skip
        try:
            wait_until_listening(port, started)
            yield folder / "log"
        finally:
            started.terminate()
            started.wait(TIMEOUT_SECONDS)
    assert started.returncode == 0, (folder / "log").read_text()


def printed_for_caddy(*words: str) -> str:
    result = CliRunner().invoke(
        cli.group, ["proxy", "caddy", *words], env={"CRM_BASE_DOMAIN": "localhost"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_caddy_serves_and_logs_no_link(furnished, tmp_path):
    copy_installation(furnished[0], tmp_path / "data")
    port, other = find_free_port(), find_free_port()
    with run_server(tmp_path / "data", **needed(printed_for_caddy())) as behind:
        text = printed_for_caddy("--upstream", f"127.0.0.1:{behind}")
        client = certified(tmp_path)
        own = "\ttls {\n\t\ton_demand\n\t}"
        assert own in text
        names = f"{tmp_path}/fullchain.pem {tmp_path}/privkey.pem"
        text = text.replace(own, f"\tbind 127.0.0.1\n\ttls {names}")
        # An access log is the operator's choice: it must be as safe as the log of errors.
        text = text.replace("\trequest_body", "\tlog\n\trequest_body")
        with caddying(tmp_path, text, port, other, port) as log:
            front = Front(port, furnished[1], behind, client)
            assert front.read("/api/v1/users/me", "acme.localhost")["name"] == "Olena"
            for path in ("/login", "/api/v1/leads", "/livez", "/nowhere"):
                headers = front.ask(path).headers
                assert headers.get_all("X-Content-Type-Options") == ["nosniff"], path
                assert headers.get_all("Strict-Transport-Security") == ["max-age=31536000"], path
            browse_links(front)
            forged = front.ask("/leads", key="", X_Forwarded_Prefix="/evil")
            assert forged.headers["Location"] == "/login?next=/leads"
            front.ask("/api/v1/leads?q=0671234567&the=last")
            lines = logged(log, '"/api/v1/leads"')
            assert SECRET not in lines and "0671234567" not in lines
            assert '"uri":"/reset"' in lines
    # What is behind is gone: the log of errors.
    with caddying(tmp_path, text, port, other, port) as log:
        assert Front(port, {}, behind, client).ask(f"/reset/{SECRET}", key="").status == 502
        lines = logged(log, "connection refused")
        assert "connection refused" in lines and SECRET not in lines


# Names with underscores, which servers such as uWSGI take for those with hyphens


class Noting(BaseHTTPRequestHandler):
    """A service that answers with the header fields that reach it, and its port."""

    def do_GET(self) -> None:
        body = json.dumps(self.headers.items()).encode()
        self.send_response(200)
        self.send_header("X-Port", str(self.server.server_address[1]))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Not on the screen."""


@contextmanager
def noting(port: int = 0) -> Iterator[int]:
    """A service at a port; gives the port."""
    with HTTPServer(("127.0.0.1", port), Noting) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_no_name_with_an_underscore_gets_past_the_proxy(name, tmp_path):
    port = find_free_port()
    with noting() as behind:
        words = ("--plain", f"127.0.0.1:{port}", "--upstream", f"127.0.0.1:{behind}")
        proxy = (
            run_nginx(tmp_path, printed(*words), port)
            if name == "nginx"
            else caddying(tmp_path, printed_for_caddy(*words), port, port, find_free_port())
        )
        with proxy, socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as line:
            line.sendall(
                b"GET / HTTP/1.1\r\nHost: acme.localhost\r\nX_Forwarded_For: 9.9.9.9\r\n"
                b"X_Forwarded-For: 9.9.9.9\r\nx_forwarded_prefix: /evil\r\n_X: 1\r\nX_: 1\r\n"
                b"X-Kept: 1\r\nConnection: close\r\n\r\n"
            )
            with http.client.HTTPResponse(line) as answer:
                answer.begin()
                fields = dict(json.loads(answer.read()))
    names = {field.lower() for field in fields}
    assert "x-kept" in names and not [field for field in names if "_" in field]
    assert fields["X-Forwarded-For"] == "127.0.0.1"


# Several nodes


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_of_several_nodes_each_host_has_one_and_another_while_that_is_away(name, tmp_path):
    port = find_free_port()

    def port_of(host: str) -> int:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        with closing(link):
            link.request("GET", "/", headers={"Host": host})
            answer = link.getresponse()
            assert answer.status == 200
            return int(answer.headers["X-Port"])

    def ports() -> list[int]:
        return [port_of(f"tenant{number}.localhost") for number in range(20)]

    with noting() as first, ExitStack() as stack:
        with noting() as second:
            words = ["--plain", f"127.0.0.1:{port}"]
            words += [f"--upstream=127.0.0.1:{node}" for node in (first, second)]
            stack.enter_context(
                run_nginx(tmp_path, printed(*words), port, f"{EXPECTED}|{NODE_FAILED}")
                if name == "nginx"
                else caddying(tmp_path, printed_for_caddy(*words), port, port, find_free_port())
            )
            before = ports()
            assert set(before) == {first, second}
            assert ports() == before
        assert ports() == [first] * 20
        with noting(second):
            wait_for(lambda: ports() == before)
