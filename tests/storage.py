"""Places for continuous copies: a folder, a real SFTP server, a server that speaks S3's protocol.

Also Litestream itself, with the configuration that the command line prints.
"""

import getpass
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests import external_programs
from tests.server_process import ROOT, find_free_port, wait_until_listening

LITESTREAM = str(Path(sys.executable).parent / "litestream")
PATIENCE = 30  # seconds
BUCKET = "copies"
S3_ENVIRON = {"AWS_ACCESS_KEY_ID": "crm", "AWS_SECRET_ACCESS_KEY": "top-secret"}
SSHD = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


@dataclass
class Storage:
    """Where copies go: its URL, more options of the command line, and what the environment has."""

    url: str
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    stop: Callable[[], None] = lambda: None
    restored_from: str = ""  # its URL where Litestream needs no key, if that is another one

    def restore(self, label: str, to: Path) -> bool:
        """Let Litestream restore a tenant's file; return whether there was a copy."""
        parts = urlsplit(self.restored_from or self.url)
        url = parts._replace(path=f"{parts.path}/tenants/{label}.db").geturl()
        words = ["restore", "-if-replica-exists", "-o", str(to), url]
        done = subprocess.run(
            [LITESTREAM, *words], capture_output=True, text=True, env=_environ() | self.environ
        )
        assert done.returncode == 0, done.stderr
        return to.exists()


@contextmanager
def folder(place: Path) -> Iterator[Storage]:
    yield Storage(f"file://{place}/copies")


@contextmanager
def sftp(place: Path) -> Iterator[Storage]:
    """OpenSSH's server, for this user and one key."""
    sshd = external_programs.found("openssh-server", "sshd")
    keygen = external_programs.found("openssh-client", "ssh-keygen")
    place.mkdir()
    for name in ("host", "user"):
        command = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(command, check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # an unprivileged half of it is kept in there
    port = find_free_port()
    (place / "config").write_text(SSHD.format(port=port, folder=place))
    kind, key, *_ = (place / "host.pub").read_text().split()
    with _process([sshd, "-D", "-e", "-f", str(place / "config")], port) as server:
        yield Storage(
            f"sftp://{getpass.getuser()}@127.0.0.1:{port}{place}/copies",
            ("--sftp-key", str(place / "user"), "--sftp-host-key", f"{kind} {key}"),
            stop=lambda: _end(server),
            restored_from=f"file://{place}/copies",
        )


@contextmanager
def s3(place: Path) -> Iterator[Storage]:
    """moto's server, with one bucket."""
    port = find_free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _process(command, port) as server:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as link:
            link.request("PUT", f"/{BUCKET}")
            assert link.getresponse().status == 200
        query = f"endpoint=http://127.0.0.1:{port}&region=us-east-1"
        yield Storage(f"s3://{BUCKET}/crm?{query}", environ=S3_ENVIRON, stop=lambda: _end(server))


STORAGES = {"folder": folder, "sftp": sftp, "s3": s3}


def command(data: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command of the real command line, ended."""
    program = [sys.executable, "-W", "error", str(ROOT / "app.py"), *words, "--data", str(data)]
    return subprocess.run(
        program, capture_output=True, text=True, timeout=120, env=_environ() | environ
    )


def _environ() -> dict[str, str]:
    """This process's, without what others have set for the CRM or for S3."""
    mine = ("CRM_", "AWS_")
    return {name: text for name, text in os.environ.items() if not name.startswith(mine)}


@contextmanager
def litestream(data: Path, storage: Storage) -> Iterator[subprocess.Popen[str]]:
    """Litestream at work on a data folder; what it says is in `litestream.log` beside it."""
    printed = command(data, "litestream", "config", "--to", storage.url, *storage.options)
    assert printed.returncode == 0, printed.stderr
    file = data.with_name(f"{data.name}-litestream.yml")
    file.write_text(printed.stdout)
    words = [LITESTREAM, "replicate", "-config", str(file), "-no-expand-env"]
    with open(data.with_name("litestream.log"), "a", encoding="utf-8") as log:
        running = subprocess.Popen(
            words, stdout=log, stderr=log, text=True, env=_environ() | storage.environ
        )
        try:
            _wait_for_socket(data / "litestream.sock", running)
            yield running
        finally:
            _end(running)


def _wait_for_socket(path: Path, running: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE
    while running.poll() is None:
        try:
            with socket.socket(socket.AF_UNIX) as tried:
                tried.connect(str(path))
            return
        except OSError:
            assert time.monotonic() < until, "Litestream does not listen"
            time.sleep(0.05)
    raise AssertionError(f"Litestream ended with {running.returncode}")


@contextmanager
def _process(words: list[str], port: int) -> Iterator[subprocess.Popen[str]]:
    server = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    try:
        wait_until_listening(port, server)
        yield server
    finally:
        _end(server)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
