"""A Redis, or Valkey, that may be away: scripts run there, or nowhere, within a bounded time.

`RedisServer.run()` never fails: without an answer it returns None, and its caller counts on this
machine instead. After a failure nobody tries for RETRY_SECONDS, then one thread does, so that a
server that hangs costs few requests TIMEOUT_SECONDS. What was sent to it may be counted when it
goes on, so in both places. A name that must be resolved first may take longer, which depends on
the machine's resolver.

The log gets a line when Redis cannot be used, once in LOG_SECONDS of all processes of the machine,
and one when it can be used again. No line and no error contains the password.

This module and those that import it are the only ones that import redis-py: without `CRM_LIMITS`
they are not imported. Of redis-py only the connection is used: its client takes twice as long
(`tests/benchmarks/around.py`).
"""

import hashlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError
from redis.retry import Retry

from crm.config import RedisAddress
from crm.tenancy.counters import REQUESTS, Counters
from crm.tenancy.steady_clock import boot_seconds

TIMEOUT_SECONDS = 0.25  # to connect, and to answer
RETRY_SECONDS = 5.0
LOG_SECONDS = 60
MAX_REASON_CHARACTERS = 200
# The row of the local counters that has the time of the last line of the log, and whether it said
# that Redis is away. No tenant can have this label. Its window never ends.
LOG_ROW, LOG_WINDOW = "redis: log", 0

log = logging.getLogger("crm")


class Script:
    """A script in Lua that is sent once, and then called by its digest."""

    def __init__(self, text: str):
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisServer:
    """Connections to one server, for all threads of this process."""

    def __init__(self, address: RedisAddress, local: Counters):
        """`local` counts the lines of the log for the processes of this machine."""
        self.address = address
        self._local = local
        self._reset()
        _instances.add(self)

    def run(self, script: Script, keys: Sequence[str], *values: Any) -> list[int] | None:
        """Run a script, which returns whole numbers; None while the server cannot be used."""
        if self._retry_at and not self._may_retry():
            return None
        try:
            reply = [int(number) for number in self._run(script, keys, values)]
        except Exception as error:  # whatever the server answers, and whatever it is
            self._note_failure(error)
            return None
        if self._retry_at:
            self._note_return()
        return reply

    def read(self, script: Script, keys: Sequence[str], *values: Any) -> list[int] | None:
        """Run a script once, whatever happened before; None if that fails, without a line."""
        try:
            return [int(number) for number in self._run(script, keys, values)]
        except Exception:
            return None

    def close(self) -> None:
        """Close the connections that are idle; they are opened again when needed."""
        with suppress(IndexError):  # other threads take some meanwhile
            while True:
                self._idle.pop().disconnect()

    def forget_connections(self) -> None:
        """Leave the connections to the parent after a fork: a child must not read its answers."""
        self._reset()

    def _reset(self) -> None:
        self._idle: list[redis.Connection] = []  # the last used one is the last
        self._retry_at = 0.0  # by time.monotonic(); 0 while the server can be used
        self._retrying = threading.Lock()

    def _may_retry(self) -> bool:
        """Whether this thread is the one that tries again now."""
        with self._retrying:
            if time.monotonic() < self._retry_at:
                return False
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return True

    def _run(self, script: Script, keys: Sequence[str], values: Sequence[Any]) -> list[Any]:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection, is_new = connect(self.address), True
            else:
                is_new = False
            try:
                reply = _evaluate(connection, script, keys, values)
            except redis.ConnectionError as error:
                connection.disconnect()
                # A server that was restarted, or closes idle connections, has closed this one.
                if is_new or type(error) is not redis.ConnectionError:
                    raise
            except BaseException:
                connection.disconnect()  # its next answer may be this one's
                raise
            else:
                self._idle.append(connection)
                return reply

    def _note_failure(self, error: Exception) -> None:
        with self._retrying:
            self._retry_at = time.monotonic() + RETRY_SECONDS
        self.close()
        if self._change_log_row(is_away=True):
            log.warning(
                "limits are counted by each machine for itself: Redis at %s cannot be used: %s",
                self.address,
                describe(error, self.address),
            )

    def _note_return(self) -> None:
        with self._retrying:
            self._retry_at = 0.0
        if self._change_log_row(is_away=False):
            log.warning("limits are counted in Redis at %s again", self.address)

    def _change_log_row(self, is_away: bool) -> bool:
        """Return whether this process is to write a line now."""
        table, now = self._local.tables[REQUESTS], int(boot_seconds())
        with table.lock(LOG_ROW):
            _, written_at, said_away = table.get(LOG_ROW, LOG_WINDOW)
            if is_away:
                is_due = not (written_at and 0 <= now - written_at < LOG_SECONDS)
                if is_due:
                    table.put(LOG_ROW, LOG_WINDOW, now, 1)
            else:
                is_due = said_away > 0
                if is_due:
                    table.put(LOG_ROW, LOG_WINDOW, written_at, 0)
        return is_due


def _evaluate(
    connection: redis.Connection, script: Script, keys: Sequence[str], values: Sequence[Any]
) -> Any:
    try:
        connection.send_command("EVALSHA", script.digest, len(keys), *keys, *values)
        return connection.read_response()
    except NoScriptError:  # its first use since the server was started
        connection.send_command("EVAL", script.text, len(keys), *keys, *values)
        return connection.read_response()


def connect(address: RedisAddress) -> redis.Connection:
    """Return a new connection that is ready for commands. Raises RedisError or OSError."""
    arguments: dict[str, Any] = {"db": address.db}
    kind: Any = redis.SSLConnection if address.tls else redis.Connection
    if address.password:
        arguments |= {"username": address.user or None, "password": address.password}
    if address.path:
        kind, arguments["path"] = redis.UnixDomainSocketConnection, address.path
    else:
        arguments |= {"host": address.host, "port": address.port, "socket_keepalive": True}
    connection = kind(
        **arguments,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,  # which every server speaks
        driver_info=None,  # else it introduces itself by two commands
    )
    connection.connect()
    return connection


def describe(error: Exception, address: RedisAddress) -> str:
    """Return why the server cannot be used, as one line without the password."""
    if isinstance(error, MovedError):
        return "it is a node of a Redis Cluster, which is not supported"
    if isinstance(error, ReadOnlyError):
        return "it is a replica that can only be read: CRM_LIMITS must name the primary"
    text = " ".join((str(error) or type(error).__name__).split())
    text = text.partition(" script: ")[0]  # what follows says where in the script
    if address.password:
        text = text.replace(address.password, "…")
    return text[:MAX_REASON_CHARACTERS]


_instances: "weakref.WeakSet[RedisServer]" = weakref.WeakSet()


def _forget_connections() -> None:
    for server in _instances:
        server.forget_connections()


os.register_at_fork(after_in_child=_forget_connections)
