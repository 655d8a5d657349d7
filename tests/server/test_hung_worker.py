"""A worker that hangs is killed by its parent."""

import contextlib
import http.client
import inspect
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from crm import create_app, server
from tests.database_cases import UNLIMITED, open_tenant
from tests.http_calls import ask
from tests.installations import config_for
from tests.server.test_processes import holder_of
from tests.server_process import ROOT, find_free_port, run_listening_process
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

HUNG_SECONDS = 4
SERVE = """
import sys
from pathlib import Path
from crm import create_app, server
from tests.database_cases import UNLIMITED
from tests.installations import config_for
data, port, hung_seconds = sys.argv[1:]
load = lambda: create_app(config_for(Path(data), plans=UNLIMITED), sends=False)
server.serve(load, Path(data), port=int(port), workers=2, hung_seconds=int(hung_seconds))
"""


def test_a_worker_without_a_sign_of_life_is_killed_within_a_minute() -> None:
    default = inspect.signature(server.serve).parameters["hung_seconds"].default
    assert default == server.HUNG_SECONDS <= 60 - 5  # the parent looks each second, kills by two


def stop_holder(lock: Path) -> int | None:
    """Stop the process that holds the lock of a file, and return its id; None if it has let go."""
    holder = holder_of(lock)
    if holder:
        os.kill(holder, signal.SIGSTOP)
        if holder_of(lock) == holder:
            return holder
        os.kill(holder, signal.SIGCONT)
    return None


@pytest.mark.files
def test_a_worker_that_stops_with_a_writer_lock_is_killed_and_others_write(tmp_path: Path) -> None:
    data, port = tmp_path / "data", find_free_port()
    crm = create_app(config_for(data, plans=UNLIMITED), sends=False)
    key = open_tenant(crm, "acme")
    crm.tenants.forget_idle()
    rows = "".join(f"S-{number},Стіл {number},1\n" for number in range(40_000))
    part = 'Content-Disposition: form-data; name="file"; filename="a.csv"'
    file = f"--x\r\n{part}\r\n\r\nsku,name,price\n{rows}\r\n--x--\r\n".encode()
    kind = "multipart/form-data; boundary=x"

    def import_file() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(port, "POST", "/api/v1/products/import", file, key, Content_Type=kind)

    command = [sys.executable, "-c", SERVE, str(data), str(port), str(HUNG_SECONDS)]
    with run_listening_process(command, port, cwd=ROOT):
        assert ask(port, "GET", "/api/v1/leads", key=key).status == 200
        thread = threading.Thread(target=import_file)
        thread.start()
        stopped = wait_for(lambda: stop_holder(data / "tenants/acme.lock"))
        began = time.monotonic()
        lead = {"name": "Марія", "phone": "+380671234567"}

        def is_created() -> bool:
            # The worker may have accepted one more connection before all its threads stopped.
            with contextlib.suppress(OSError, http.client.HTTPException):
                return ask(port, "POST", "/api/v1/leads", lead, key).status == 201
            return False

        wait_for(is_created)
        assert time.monotonic() - began > HUNG_SECONDS - 2  # its last sign may be a second old
        thread.join()
        wait_for(lambda: not Path(f"/proc/{stopped}").exists())
        # Another one is in its place.
        assert ask(port, "GET", "/api/v1/leads", key=key).status == 200
