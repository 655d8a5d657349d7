"""What others wait beside clients that pipeline: `python -m tests.benchmarks.pipelines`.

The real server on loopback. One client reads a lead again and again on a kept connection: alone,
then beside 60 and 200 connections whose clients send `GET /livez` without an end and read all
answers. Prints its latencies in milliseconds, and how many times the undisturbed median they are.
"""

import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.neighbours import ROOT, fill
from tests.server_process import run_server

SECONDS = float(os.environ.get("SECONDS", 8))
WORKERS = int(os.environ.get("WORKERS", 1))
REQUESTS = b"GET /livez HTTP/1.1\r\nHost: acme.localhost\r\n\r\n" * 200


def flood(port: int, connections: int) -> None:
    """Send requests on so many connections, whatever was answered, until the process is ended."""
    waiting = selectors.DefaultSelector()
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        waiting.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [REQUESTS])
    print("flooding", flush=True)
    while True:
        for key, events in waiting.select():
            try:
                if events & selectors.EVENT_READ and not key.fileobj.recv(1 << 18):
                    waiting.unregister(key.fileobj)
                elif events & selectors.EVENT_WRITE:
                    sent = key.fileobj.send(key.data[0])
                    key.data[0] = key.data[0][sent:] or REQUESTS
            except OSError:
                waiting.unregister(key.fileobj)


@contextmanager
def flooded(port: int, connections: int) -> Iterator[None]:
    """Another process floods the server for as long as the block lasts."""
    command = [sys.executable, "-m", __spec__.name, str(port), str(connections)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(1)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def latencies(port: int, key: str) -> list[float]:
    """Milliseconds that each request of the other client took."""
    request = (
        "GET /api/v1/leads/1 HTTP/1.1\r\nHost: globex.localhost\r\n"
        f"Authorization: Bearer {key}\r\n\r\n"
    ).encode()
    taken, until = [], time.monotonic() + SECONDS
    with socket.create_connection(("127.0.0.1", port)) as sock:
        while time.monotonic() < until:
            began = time.perf_counter()
            sock.sendall(request)
            assert sock.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
    return sorted(taken)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        key = fill(Path(folder))["globex"]
        with run_server(Path(folder), workers=WORKERS, CRM_PLANS="business=0") as port:
            alone = latencies(port, key)
            base = statistics.median(alone)
            print(f"alone: median {base:.2f}, longest {alone[-1]:.1f}, {len(alone)} requests")
            for connections in (60, 200):
                with flooded(port, connections):
                    taken = latencies(port, key)
                median = statistics.median(taken)
                print(
                    f"beside {connections}: median {median:.2f} ({median / base:.1f} times),"
                    f" longest {taken[-1]:.1f}, {len(taken)} requests"
                )


if __name__ == "__main__":
    flood(*map(int, sys.argv[1:])) if sys.argv[1:] else main()
