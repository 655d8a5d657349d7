"""A PostgreSQL server for tests: its programs are the machine's, its data is in a temporary folder.

Debian's server is what is looked for.
"""

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests import external_programs
from tests.memory_folder import memory_folder
from tests.server_process import find_free_port

TIMEOUT_SECONDS = 60  # to start, and to stop
SUPERUSER = "postgres"
UNPRIVILEGED_USER = "postgres"  # who runs the server if root runs the tests: it refuses root
PREFIX = "crm-postgres-"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_min_messages": "warning",
    "jit": "off",
}
# What makes a server forget its last commits in a power cut, and tests fast. Autovacuum would also
# stand in the way of a copy of the database that it works on.
FAST_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
}


_fresh_data: list[Path] = []  # the data of a new server, once one was made


class Databases:
    """The databases of a running server, by the address of one of them."""

    def __init__(self, address: str):
        """`address` is `postgresql://user@host:port/database`; the database is not used."""
        self.address = address

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, which need not exist."""
        return f"{self.address.rpartition('/')[0]}/{database}"

    def execute(self, statement: Any, database: str = "postgres") -> list[tuple]:
        """Run a statement in a connection of its own, outside a transaction; return its rows."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def names(self) -> set[str]:
        """Return the names of the databases that tests have made."""
        names = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
        return {name for (name,) in self.execute(names)}

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create a database as a copy of another, and return its address.

        Connections to the template are ended, because it must have none. Does nothing if the
        database exists.
        """
        # Copying files takes 15 to 25 ms where fsync is off; the log takes three times as long.
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        if template != "template1":
            self.disconnect(template)  # PostgreSQL waits 5 s for them to end by themselves
        with contextlib.suppress(
            psycopg.errors.DuplicateDatabase,
            psycopg.errors.UniqueViolation,  # another process makes it at this moment
        ):
            self.execute(statement)
        return self.url(name)

    def disconnect(self, database: str) -> None:
        """End all connections to a database."""
        self.execute(
            sql.SQL(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = {}"
            ).format(sql.Literal(database))
        )

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and end its connections."""
        self.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


class Postgres(Databases):
    """A server of its own on a free port of 127.0.0.1 and a Unix socket in its folder.

    Any user may log in without a password. It ends with the thread that started it, so that a
    killed test run leaves no server; its folder is then removed by the next run.
    """

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None):
        """`durable` keeps what is committed in a power cut, and the data on the disk.

        `settings` are more lines of postgresql.conf, by name.
        """
        self.programs = Path(external_programs.found("postgresql", "postgres")).resolve().parent
        self.settings = SETTINGS | ({} if durable else FAST_SETTINGS) | dict(settings or {})
        self.user = pwd.getpwnam(UNPRIVILEGED_USER) if os.geteuid() == 0 else None
        place = Path(tempfile.gettempdir()) if durable else memory_folder()
        _remove_abandoned(place)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.port = find_free_port()
        super().__init__(f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres")
        self.process: subprocess.Popen[bytes] | None = None
        self._make_data()

    def _make_data(self) -> None:
        """Copy the data that the first server of this process has made: initdb takes a second."""
        if not _fresh_data:
            # LC_CTYPE must know Cyrillic letters: by C, pg_trgm sees none of them.
            words = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
            self.run("initdb", "-D", str(self.data), *words)
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=memory_folder()))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            subprocess.run(["cp", "-a", self.data, folder], check=True)
            _fresh_data.append(folder / self.data.name)
        else:
            subprocess.run(["cp", "-a", _fresh_data[0], self.data], check=True)

    def run(self, program: str, *words: str) -> str:
        """Run another of PostgreSQL's programs as the server's user; return what it printed.

        Raises CalledProcessError, with its error output in a note.
        """
        command = [*self.command_as_user(), str(self.programs / program), *words]
        try:
            ran = subprocess.run(
                command, cwd="/", capture_output=True, text=True, timeout=120, check=True
            )
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise
        return ran.stdout

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises RuntimeError with the end of its log if it ends instead or takes too long.
        """
        assert self.process is None, "it is running"
        options = {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        words = [f"--{name}={value}" for name, value in (self.settings | options).items()]
        command = [*self.command_as_user("--pdeathsig", "QUIT"), str(self.programs / "postgres")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "-D", str(self.data), *words],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl+C is for the tests, which then stop it
            )
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.kill()
                    log_end = self.log.read_text("utf-8", "replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL does not start:\n{log_end}") from error
                time.sleep(0.02)

    def follow(self, primary: "Postgres") -> None:
        """Replace the data by a copy of a running server's, to follow it as its standby.

        Raises CalledProcessError.
        """
        assert self.process is None, "it is running"
        shutil.rmtree(self.data)
        address = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} application_name=standby"
        self.run("pg_basebackup", "-d", address, "-D", str(self.data), "-R", "-c", "fast")

    def promote(self) -> None:
        """Make a standby a primary, and wait until it is. Raises CalledProcessError."""
        self.run("pg_ctl", "promote", "-D", str(self.data), "--wait")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; `mode` is pg_ctl's `smart`, `fast` or `immediate`.

        Does nothing if it is not running. Raises RuntimeError if it takes too long.
        """
        if self.process is None:
            return
        signals = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
        self.process.send_signal(signals[mode])
        try:
            self.process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"PostgreSQL does not stop: {mode}") from None
        self.process = None

    def kill(self) -> None:
        """End the server and all its backends by SIGKILL, as a crash of the machine would.

        `start()` recovers it. Does nothing if it is not running.
        """
        if self.process is None:
            return
        backends = self.pids[1:]
        self.process.kill()  # first, or it would start to recover
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        # While one of them lives, the shared memory is in use and a new server refuses to start.
        until = time.monotonic() + TIMEOUT_SECONDS
        while any(map(_is_running, backends)) and time.monotonic() < until:
            time.sleep(0.01)

    @property
    def pids(self) -> list[int]:
        """The ids of the server's processes, its main process first; empty if it is stopped."""
        if self.process is None:
            return []
        main = self.process.pid
        children = Path(f"/proc/{main}/task/{main}/children")
        return [main, *map(int, children.read_text().split())] if children.exists() else [main]

    def remove(self) -> None:
        """Stop the server and remove its data."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def __enter__(self) -> "Postgres":
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def command_as_user(self, *options: str) -> list[str]:
        """Return the words before a command that run it as the server's user, with more options
        of setpriv."""
        user = (
            [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups"]
            if self.user
            else []
        )
        return ["setpriv", *user, *options] if user or options else []


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of test runs that were killed."""
    for folder in place.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not _is_running(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"  # an orphan that nobody has waited for yet
