"""Several nodes for tests: `serve` on one PostgreSQL, with nginx before them.

Each node is a process with a port and a data folder of its own, as on machines of their own.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.test import Client

from crm import cli
from tests import log_leaks
from tests.nginx_server import EXPECTED, NODE_FAILED, needed, printed, run_nginx
from tests.server_process import ROOT, find_free_port, wait_until_listening

TIMEOUT_SECONDS = 40  # to end
LABELS = ("acme", *(f"tenant{number}" for number in range(20)))
# The databases' own faults, which tests cause.
DATABASE_FAILED = r"the database \S+ cannot be used|could not be recorded: it will be sent again"


class Node:
    """One `serve`. Its output goes to files in its data folder."""

    def __init__(
        self,
        folder: Path,
        environ: dict[str, str],
        expected: str = DATABASE_FAILED,
        workers: int = 1,
    ):
        """`expected` is what errors in its log may match; `workers` are its processes."""
        self.folder, self.port = folder, find_free_port()
        self.output, self.log = folder / "output", folder / "log"
        self._environ, self._expected, self._workers = environ, expected, workers
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir()

    def start(self) -> None:
        """Start it and wait until it listens."""
        assert self._process is None, "it is running"
        command = ["serve", "--data", str(self.folder), "--port", str(self.port)]
        command += ["--workers", str(self._workers)]
        with self.output.open("a") as output, self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "app.py", *command],
                cwd=ROOT,
                env=self._environ,
                stdout=output,
                stderr=log,
                text=True,
            )
        wait_until_listening(self.port, self._process)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it by SIGKILL with all of its processes, as a crash of its machine would."""
        assert self._process is not None
        parent = self._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in (parent, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Stop it as an operator does; it must end well. Does nothing if it was killed."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert process.returncode == 0, self.log.read_text()

    def check_log(self) -> None:
        """Fail if it has logged an error that was not expected."""
        text = self.log.read_text("utf-8")
        log_leaks.heard("server", text)
        for line in text.splitlines():
            is_error = json.loads(line)["level"] == "error" if line.startswith("{") else True
            assert not is_error or re.search(self._expected, line), line

    def last_code(self, phone: str) -> str:
        """Return the code of the last SMS to a phone."""
        matches = re.findall(
            rf"SMS to {re.escape(phone)}: .*?\b(\d{{6}})\b", self.output.read_text()
        )
        return matches[-1]

    @property
    def sms_count(self) -> int:
        return self.output.read_text().count("SMS to ")


class Nodes:
    """The nodes of one installation, and the port of the nginx before them."""

    def __init__(self, folder: Path, port: int, environ: dict[str, str], count: int, workers: int):
        self.folder, self.port, self.environ = folder, port, environ
        folders = [folder / f"node-{name}" for name in "abcdefgh"[:count]]
        self.nodes = [Node(folder, environ, workers=workers) for folder in folders]

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def node_of(self, label: str) -> int:
        """Ask nginx; return the number of the node to which it sends the requests of a host."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        with contextlib.closing(link):
            link.request("GET", "/livez", headers={"Host": f"{label}.localhost"})
            address = link.getresponse().headers["X-Node"].split()[-1]  # the last one that it tried
        return [node.address for node in self.nodes].index(address)

    def find_labels(self, candidates: Sequence[str] = LABELS) -> list[str]:
        """Return for each node the first label whose requests nginx sends there."""
        node_of = {label: self.node_of(label) for label in candidates}
        return [
            next(label for label in candidates if node_of[label] == number)
            for number in range(len(self.nodes))
        ]

    def command(self, *words: object, node: int = 0) -> str:
        """Run the command line on a node's data folder; return what it printed on stdout."""
        others = {name: None for name in os.environ if name.startswith("CRM_")}
        command = [*map(str, words), "--data", str(self[node].folder)]
        result = CliRunner().invoke(cli.group, command, env=others | self.environ)
        assert result.exit_code == 0, result.output
        return result.stdout

    def create_tenant(self, label: str, *words: str, node: int = 0) -> str:
        """Create a tenant and a key by the command line; return the key."""
        self.command("tenant", "create", label, *words, node=node)
        return self.command("key", "create", label, "--name", "tests", node=node).split()[-1]


@contextlib.contextmanager
def run_nodes(
    folder: Path,
    database: str,
    *,
    count: int = 2,
    workers: int = 1,
    prepare: Callable[[Nodes], None] = lambda nodes: None,
    **settings: str,
) -> Iterator[Nodes]:
    """Run nodes behind an nginx until the block ends.

    `prepare` is called before they start; `settings` are more environment variables. Fails if a
    node that was not killed ends with an error, or if one logs an error but of its database.
    """
    front = f"127.0.0.1:{(port := find_free_port())}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    environ = plain | needed(printed("--plain", front)) | {"CRM_DATABASE": database}
    environ |= {"CRM_PLANS": "business=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8"} | settings
    nodes = Nodes(folder, port, environ, count, workers)
    prepare(nodes)
    upstreams = [word for node in nodes.nodes for word in ("--upstream", node.address)]
    location = "    location / {\n"
    text = printed("--plain", front, *upstreams)
    text = text.replace(location, f"{location}        add_header X-Node $upstream_addr always;\n")
    with contextlib.ExitStack() as stack:
        for node in nodes.nodes:
            stack.callback(node.stop)
            node.start()
        stack.enter_context(run_nginx(folder, text, port, f"{EXPECTED}|{NODE_FAILED}"))
        yield nodes
    for node in nodes.nodes:
        node.check_log()


class PagesOfNodes:
    """Stands for the app in a `page_client.Person`: each request goes to the node of `port`."""

    def __init__(self, port: int):
        self.port = port

    def test_client(self) -> Client:
        """Return a client as an app does."""
        return Client(self._forward)

    def _forward(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        options = {
            "target": f"http://127.0.0.1:{self.port}",
            "remove_prefix": False,
            "host": None,  # as the client sent it
            "headers": {},
            "ssl_context": None,
        }
        forward = ProxyMiddleware(self._forward, {}).proxy_to(options, environ["PATH_INFO"], "/")
        return forward(environ, start_response)
