"""A PostgreSQL server for one test module, in a temporary folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests import external_programs
from tests.server_process import find_free_port

TIMEOUT_SECONDS = 60


@contextmanager
def start_postgres() -> Iterator[str]:
    """Run a server in a `with` block; gives the address of its database `postgres`."""
    # Debian puts no server into the path; the client's programs find theirs.
    programs = Path(external_programs.found("postgresql", "psql")).resolve().parent
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    programs = servers[-1] if servers else programs
    folder = Path(tempfile.mkdtemp(prefix="crm-translated-"))
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None  # it refuses to run as root
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    port = find_free_port()
    words = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", *words],
        check=True,
        cwd="/",
        stdout=subprocess.DEVNULL,
        **as_user,
    )
    settings = ["-p", str(port), "-k", str(folder), "-F", "-c", "listen_addresses=127.0.0.1"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *settings],
            cwd="/",
            stdout=log,
            stderr=log,
            **as_user,
        )
    try:
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
        shutil.rmtree(folder)


def _wait(process: subprocess.Popen, address: str) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)
