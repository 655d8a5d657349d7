"""What one client waits beside uploads: `python -m tests.benchmarks.uploads`.

A real server with the application of the tests. One client asks for a short answer again and again:
alone, then while eight others upload 20 MiB each, over and over; as fast as loopback takes it, and
at 50 Mbit/s each. Prints its latencies in milliseconds, and by how many MB the memory has grown.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.test_hostile_load import MIB, memory
from tests.server.test_server import POST, Served, ask, read_one, starting
from tests.server_process import ROOT

SECONDS = float(os.environ.get("SECONDS", 8))
UPLOADS, SIZE, PIECE = 8, 20 * MIB, 64 * 1024


def upload(port: int, bytes_a_second: float) -> None:
    """Upload again and again, until the process is ended."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        while True:
            began, piece = time.monotonic(), os.urandom(PIECE)
            line.sendall(POST + b"Content-Length: %d\r\n\r\n" % SIZE)
            for sent in range(0, SIZE, PIECE):
                line.sendall(piece)
                time.sleep(max(0, began + sent / bytes_a_second - time.monotonic()))
            assert len(read_one(line)) == 64


@contextmanager
def uploading(port: int, bytes_a_second: float) -> Iterator[None]:
    """Another process uploads for as long as the block lasts."""
    command = [sys.executable, "-m", __spec__.name, str(port), str(bytes_a_second)]
    process = subprocess.Popen(command, cwd=ROOT)
    time.sleep(1)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(name: str, served: Served, base: float) -> None:
    taken, peak, until = [], 0.0, time.monotonic() + SECONDS
    with served.connect() as line:
        worker = served.worker
        while time.monotonic() < until:
            began = time.perf_counter()
            line.sendall(ask("/"))
            read_one(line)
            taken.append((time.perf_counter() - began) * 1000)
            peak = max(peak, memory(worker))
            time.sleep(0.01)
    taken.sort()
    median, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    print(f"{name}: median {median:.2f}, p99 {p99:.1f}, longest {taken[-1]:.1f}, {len(taken)}"
          f" requests; memory {peak - base:+.0f} MB", flush=True)  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, starting(Path(folder)) as start:
        served = start()
        base = memory(served.worker)
        measure("alone", served, base)
        for name, bytes_a_second in (
            ("beside uploads of 50 Mbit/s", 50e6 / 8),
            ("at full speed", 1e12),
        ):
            with uploading(served.port, bytes_a_second):
                measure(name, served, base)


if __name__ == "__main__":
    if sys.argv[1:]:
        port, speed = int(sys.argv[1]), float(sys.argv[2])
        threads = [threading.Thread(target=upload, args=(port, speed)) for _ in range(UPLOADS)]
        for thread in threads:
            thread.start()
    else:
        main()
