"""One run of wrk, the load generator (Debian package `wrk`), and what it counted."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ID = "{id}"  # stands in a path or body where a number goes that differs from request to request
TIMEOUT_SECONDS = 30  # of one request; wrk's default of 2 s would hide slow ones
PRIME = 7919  # the step from one id to the next, so that neighbours in time are none in the file
SCRIPT = """\
local requests, rows = {{ {requests} }}, {rows}
local number, turn = {first}, {first}

function request()
  number = (number + {step}) % rows
  turn = turn + 1
  local before, form, after = unpack(requests[turn % #requests + 1])
  return before .. string.format(form, number + 1) .. after
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\\nFIGURES {{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, ',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
  io.write(string.format('"errors": %d}}\\n',
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


class MissingProgram(Exception):
    """A program is not installed; the text says how to install it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that wrk sends, ID in its path or body being replaced each time."""

    method: str
    path: str
    headers: dict[str, str]
    body: str = ""
    id_format: str = "%d"  # in a body of constant length, e.g. "%08d"

    def text(self, id: int) -> bytes:
        """The request on the wire."""
        number = self.id_format % id
        body = self.body.replace(ID, number).encode()
        head = [f"{self.method} {self.path.replace(ID, number)} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in self.headers.items()]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*head, "", ""]).encode() + body

    def parts(self) -> tuple[bytes, bytes]:
        """The request before and after the number."""
        if ID not in self.path + self.body:
            return self.text(0), b""
        mark = self.id_format % 98765432
        before, _, after = self.text(98765432).rpartition(mark.encode())
        return before, after


@dataclass(frozen=True, slots=True)
class Run:
    """What wrk counted in one run. `errors` has refused, cut, late and non-2xx answers."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int


def find_wrk() -> str:
    if path := shutil.which("wrk"):
        return path
    raise MissingProgram("wrk is missing: apt-get install wrk")


def find_wrk_version() -> str:
    # It prints its version and then fails for want of an address.
    ran = subprocess.run([find_wrk(), "-v"], capture_output=True, text=True, check=False)
    return " ".join(ran.stdout.split()[:2])


def run_wrk(
    requests: Sequence[Request],
    port: int,
    connections: int,
    seconds: int,
    rows: int,
    first: int,
    folder: Path,
) -> Run:
    """Repeat the requests in turn on kept connections for that time, ids between 1 and `rows`.

    The first request and the first id depend on `first`.
    """
    tables = []
    for request in requests:
        before, after = request.parts()
        has_id = ID in request.path + request.body
        form = request.id_format.encode() if has_id else b""
        tables.append(f"{{ {', '.join(map(_lua_string, (before, form, after)))} }}")
    script = folder / "requests.lua"
    script.write_text(
        SCRIPT.format(requests=", ".join(tables), rows=rows, first=first % rows, step=PRIME),
        "utf-8",
    )
    command = [find_wrk(), "--threads=1", f"--connections={connections}", f"--duration={seconds}s"]
    command += [f"--timeout={TIMEOUT_SECONDS}s", f"--script={script}", f"http://127.0.0.1:{port}/"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return Run(**json.loads(ran.stdout.partition("FIGURES ")[2]))


def _lua_string(text: bytes) -> str:
    return '"' + "".join(f"\\{byte:03}" for byte in text) + '"'
