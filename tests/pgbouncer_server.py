"""A PgBouncer for tests, before a PostgreSQL that they have started."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests import external_programs
from tests.postgres_server import SUPERUSER, Databases, Postgres
from tests.server_process import find_free_port

TIMEOUT_SECONDS = 30  # to start, and to stop
CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = {pool_mode}
default_pool_size = {pool_size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits,options
"""


class PgBouncer(Databases):
    """A PgBouncer on a free port of 127.0.0.1, with a pool for each database of a server.

    It ends with the thread that started it. Use it as a context manager.
    """

    def __init__(self, server: Postgres, *, pool_mode: str = "transaction", pool_size: int = 20):
        """`pool_mode` is `session`, `transaction` or `statement`; `pool_size` is the number of
        connections to each database."""
        self.program = external_programs.found("pgbouncer")
        self.port = find_free_port()
        super().__init__(f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres")
        self.server = server
        self.folder = Path(tempfile.mkdtemp(prefix="crm-pgbouncer-"))
        self.log = self.folder / "log"
        (self.folder / "users").write_text(f'"{SUPERUSER}" ""\n')
        text = CONFIGURATION.format(
            server_port=server.port,
            port=self.port,
            folder=self.folder,
            pool_mode=pool_mode,
            pool_size=pool_size,
        )
        (self.folder / "pgbouncer.ini").write_text(text)
        if server.user:  # like PostgreSQL, it refuses root
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, server.user.pw_uid, server.user.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises RuntimeError with the end of its log if it ends instead or takes too long.
        """
        assert self.process is None, "it is running"
        words = self.server.command_as_user("--pdeathsig", "TERM")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*words, self.program, "-q", str(self.folder / "pgbouncer.ini")],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    log_end = self.log.read_text("utf-8", "replace")[-2000:]
                    raise RuntimeError(f"PgBouncer does not start:\n{log_end}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop it at once, with all its connections. Does nothing if it is not running."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)  # SIGINT waits for transactions
            self.process.wait(TIMEOUT_SECONDS)
            self.process = None

    def __enter__(self) -> "PgBouncer":
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)
