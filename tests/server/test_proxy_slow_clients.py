"""Slow clients before the printed configurations of nginx and Caddy: the CRM serves all others."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.installations import copy_installation
from tests.nginx_server import needed, printed, run_nginx
from tests.server.test_proxy import Front, caddying, printed_for_caddy
from tests.server_process import TIMEOUT_SECONDS, find_free_port, run_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.deep]

SLOW_CONNECTIONS = 1100
MAX_OF_ONE_CLIENT = 100  # as the printed file says
HEAD = b"GET /livez HTTP/1.1\r\nHost: acme.localhost\r\nX: "
BODY = b"POST /api/v1/leads HTTP/1.1\r\nHost: acme.localhost\r\nContent-Length: 9000\r\n\r\n{"


@contextmanager
def slow_connections(port: int, heads: list[bytes]) -> Iterator[list[socket.socket]]:
    """Open a connection from 127.0.0.1 for each of these beginnings of a request, and send it."""
    connections: list[socket.socket] = []
    try:
        for head in heads:
            # The kernel may be slower than this loop to hand connections over.
            connections.append(socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS))
            connections[-1].sendall(head)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def statuses(connections: list[socket.socket], seconds: float = 3.0) -> list[bytes]:
    """The status of each connection that is answered within that time."""
    until, answers = time.monotonic() + seconds, {}
    while time.monotonic() < until:
        for connection in connections:
            connection.setblocking(False)
            try:
                answers.setdefault(connection, connection.recv(4096)[9:12])
            except BlockingIOError:
                continue
        time.sleep(0.05)
    return list(answers.values())


def assert_another_address_is_served(front: Front) -> None:
    for _ in range(5):
        began = time.monotonic()
        assert front.ask("/api/v1/leads", source="127.0.0.2").status == 200
        assert time.monotonic() - began < 5  # the head of a slow one is waited for 10 s


def count_connections(port: int) -> int:
    """Count the established connections to a local port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    remote = (line.split()[2:4] for line in lines)
    return sum(address.endswith(f":{port:04X}") and state == "01" for address, state in remote)


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_slow_clients_of_one_address_stop_no_other_one(name, furnished, tmp_path):
    copy_installation(furnished[0], tmp_path / "data")
    port, half = find_free_port(), SLOW_CONNECTIONS // 2
    place, printed_for = f"127.0.0.1:{port}", printed if name == "nginx" else printed_for_caddy
    with run_server(tmp_path / "data", **needed(printed_for("--plain", place))) as behind:
        text = printed_for("--plain", place, "--upstream", f"127.0.0.1:{behind}")
        proxy = (
            run_nginx(tmp_path, text, port)
            if name == "nginx"
            else caddying(tmp_path, text, port, port, find_free_port())
        )
        with proxy:
            front = Front(port, furnished[1], behind)
            before = count_connections(behind)
            with (
                slow_connections(port, [BODY] * half) as bodies,
                slow_connections(port, [HEAD] * half),
            ):
                assert_another_address_is_served(front)
                assert count_connections(behind) <= before + 2
                if name == "nginx":
                    assert statuses(bodies) == [b"429"] * (half - MAX_OF_ONE_CLIENT)
                    assert front.ask("/livez").status == 429
                    assert_another_address_is_served(front)
            wait_for(lambda: front.ask("/livez").status == 200, TIMEOUT_SECONDS)
    if name == "caddy":
        (seconds,) = re.findall(r"read_header (\d+)s\n", text)
        assert int(seconds) <= 10
