"""Addresses of several servers, and an address that leads to a standby for a while."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.config import Config, readers
from crm.errors import StorageReadOnly
from crm.installation.opening import open_tenants
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create as create_lead
from crm.storage.session import one_row
from tests.concurrency import run_in_threads
from tests.postgres_server import Postgres
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

LEAD = {"name": "Марія", "phone": "+380501234567"}
CRM_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crm'"


class Relay:
    """A virtual address: new connections go to the server at `target`, old ones stay."""

    def __init__(self, target: int):
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A server, and its standby."""
    with Postgres() as primary:
        standby = Postgres()
        try:
            standby.follow(primary)
            standby.start()
            yield primary, standby
        finally:
            standby.remove()


def open_at(folder: Path, address: str) -> Tenants:
    assert readers.databases(address) == (address,)
    tenants = open_tenants(Config(data=folder, database=(address,)))
    return tenants


def add_lead(tenants: Tenants) -> None:
    with tenants.session("acme"):
        create_lead(LEAD)


def count_leads(tenants: Tenants) -> int:
    with tenants.session("acme"):
        return one_row("SELECT count(*) FROM lead")[0]


def test_of_several_servers_the_one_that_writes_is_used(pair, tmp_path):
    primary, standby = pair
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
    address = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
    tenants = open_at(tmp_path, address)
    tenant.open_tenant(tenants, "several")
    assert standby.execute(CRM_CONNECTIONS) == [(0,)]
    assert tenants.labels() == ["several"]
    tenants.forget_idle()


def test_a_node_leaves_a_standby_that_it_was_led_to(pair, tmp_path):
    primary, standby = pair
    relay = Relay(primary.port)
    direct = open_at(tmp_path / "direct", primary.url())
    tenants = open_at(tmp_path / "node", f"postgresql://postgres@127.0.0.1:{relay.port}/postgres")
    tenant.open_tenant(direct, "acme")
    wait_for(lambda: standby.execute("SELECT 1 FROM crm.tenant WHERE label = 'acme'"), 10)
    relay.target = standby.port
    run_in_threads(4, lambda _: count_leads(tenants))  # by several connections
    with pytest.raises(StorageReadOnly):
        add_lead(tenants)
    assert count_leads(tenants) == 0
    relay.target = primary.port

    def is_added() -> bool:
        """Each connection to the standby is found out by a write; one may just have been made."""
        with contextlib.suppress(StorageReadOnly):
            add_lead(tenants)
            return True
        return False

    wait_for(is_added, 5)
    assert count_leads(tenants) == count_leads(direct) > 0
    run_in_threads(4, lambda _: wait_for(is_added, 5))
    wait_for(lambda: standby.execute(CRM_CONNECTIONS) == [(0,)], 10)
    for item in (direct, tenants):
        item.forget_idle()
    relay.close()
