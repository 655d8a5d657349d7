"""kill -9 at each commit of a content that is being stored, and a disk that becomes full."""

import hashlib
import io
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from crm import create_app
from crm.errors import StorageFull
from crm.installation.tenants import Tenants
from crm.resources.files import record as files
from crm.storage.session import current_session, rows
from tests.concurrency import ForkServer
from tests.faults.killing import kill
from tests.faults.test_full_disk import mounted
from tests.faults.test_killed_imports import at
from tests.installations import config_for, copy_installation
from tests.tenancy.test_contents import DATA, DAY, LEAD, add, delete_unused, is_there, read, stored

pytestmark = [pytest.mark.process, pytest.mark.slow]

SHA256 = hashlib.sha256(DATA).hexdigest()


def be_killed(data: str, moment: float, number: int, when: str) -> None:
    """Add a file in a process that is killed before or after the n-th commit of its content."""
    tenants, numbers = Tenants(config_for(Path(data)), at(moment)), count(1)
    with tenants.session("acme", sweeps_expired=False) as session:
        store: Any = session.source.contents
        begin = store._transaction

        @contextmanager
        def transaction(connection: Any, syncs: bool = False) -> Iterator[None]:
            is_last = next(numbers) == number
            with begin(connection, syncs):
                yield
                if is_last and when == "before":
                    kill(os.getpid())
            if is_last:
                kill(os.getpid())

        store._transaction = transaction
        files.add("lead", 1, io.BytesIO(DATA), "x")


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_killed_at_any_commit_leaves_nothing_that_is_visible(crm, api, clock, when):
    api.create("/leads", **LEAD)
    with ForkServer(__name__) as worker:
        for number in count(1):
            ended = worker.call("be_killed", crm.tenants.config.data, clock.moment, number, when)
            with crm.tenants.session("acme", sweeps_expired=False) as session:
                assert session.source.contents.list_missing() == []
                assert not is_there(SHA256) or read(SHA256) == DATA
                if not ended:
                    break
                assert ended == -signal.SIGKILL
                assert rows("SELECT 1 FROM file") == []
                for _ in range(2):
                    delete_unused()
                    clock.tick(DAY + 1)
                delete_unused()
                assert stored() == (0, 0)
    assert number == 8  # commits: looked for, begun, four chunks, completed
    with crm.tenants.session("acme", sweeps_expired=False):
        assert read(SHA256) == DATA and stored() == (1, 4)


@pytest.mark.files
def test_on_a_full_disk_nothing_half_is_visible_and_all_goes_on_once_there_is_room(
    furnished, tmp_path, clock
):
    with mounted(tmp_path / "disk", "24m") as disk:
        data = copy_installation(furnished[0], disk.path / "data")
        app = create_app(config_for(data), clock, sends=False)
        with app.tenants.session("acme", sweeps_expired=False):
            there = add(b"there")
            disk.fill()
            os.truncate(disk.path / "filler", (disk.path / "filler").stat().st_size - (1 << 20))
            large = os.urandom(4 << 20)
            for _ in range(3):
                with pytest.raises(StorageFull):
                    current_session().source.contents.add(io.BytesIO(large))
                assert read(there) == b"there"
                assert not is_there(hashlib.sha256(large).hexdigest())
            disk.free()
            assert read(add(large)) == large
            clock.tick(DAY + 1)
            delete_unused()
            assert stored() == (2, 17)
        app.tenants.forget_idle()
