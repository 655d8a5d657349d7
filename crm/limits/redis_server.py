"""A Redis, or Valkey, that may be away: scripts run there, or nowhere, within a bounded time.

`RedisServer.run()` never fails: without an answer it returns None, and its caller counts on this
machine instead. After a failure nobody tries for RETRY_SECONDS, then one thread does, so that a
server that hangs costs few requests TIMEOUT_SECONDS. What was sent to it may be counted when it
goes on, so in both places. A name that must be resolved first may take longer, which depends on
the machine's resolver.

The log gets a line when Redis cannot be used, one a minute of all processes of the machine, and one
when it can be used again. No line and no error contains the password.

This module and those that import it are the only ones that import redis-py: without `CRM_LIMITS`
they are not imported. Of redis-py only the connection is used: its client takes twice as long
(`tests/benchmarks/around.py`).
"""

import hashlib
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError
from redis.retry import Retry

from crm.config import RedisAddress
from crm.limits.windows import LOG_LINES, LOG_STATE, Limit, Store

TIMEOUT_SECONDS = 0.25  # to connect, and to answer
RETRY_SECONDS = 5.0
MAX_REASON_CHARACTERS = 200
# Counted locally: a line about a failure, and until the next line that Redis was said to be away.
FAILURE_LINE, SAID_AWAY = Limit(LOG_LINES, "away", 1), Limit(LOG_STATE, "away", sys.maxsize)

log = logging.getLogger("crm")


class Script:
    """A script in Lua that is sent once, and then called by its digest."""

    def __init__(self, text: str):
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisServer:
    """Connections to one server, for all threads of this process."""

    def __init__(
        self,
        address: RedisAddress,
        local: Store,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        """`local` counts the lines of the log for the processes of this machine."""
        self.address, self._local, self._monotonic = address, local, monotonic
        self._retry_at = 0.0  # by `monotonic`; 0 while the server can be used
        self.forget_connections()
        _instances.add(self)

    def run(
        self, script: Script, keys: Sequence[str], values: Sequence[int], quietly: bool
    ) -> list[int] | None:
        """Run a script, which returns whole numbers; None while the server cannot be used.

        `quietly`: a failure is not noted, and writes no line.
        """
        if self._retry_at and not self._may_retry():
            return None
        try:
            reply = [int(number) for number in self._run(script, keys, values)]
        except Exception as error:  # whatever the server answers, and whatever it is
            if not quietly:
                self._note_failure(error)
            return None
        if self._retry_at:
            self._retry_at = 0.0
            if self._local.reset([SAID_AWAY]):
                log.warning("limits are counted in Redis at %s again", self.address)
        return reply

    def close(self) -> None:
        """Close the connections that are idle; they are opened again when needed."""
        with suppress(IndexError):  # other threads take some meanwhile
            while True:
                self._idle.pop().disconnect()

    def forget_connections(self) -> None:
        """Leave the connections to the parent after a fork: a child must not read its answers."""
        self._idle: list[redis.Connection] = []  # the last used one is the last
        self._retry_at = 0.0
        self._retrying = threading.Lock()

    def _may_retry(self) -> bool:
        """Whether this thread is the one that tries again now."""
        with self._retrying:
            if self._monotonic() < self._retry_at:
                return False
            self._retry_at = self._monotonic() + RETRY_SECONDS
            return True

    def _run(self, script: Script, keys: Sequence[str], values: Sequence[int]) -> list[Any]:
        while True:
            try:
                connection, is_new = self._idle.pop(), False
            except IndexError:
                connection, is_new = connect(self.address), True
            try:
                reply = _evaluate(connection, script, keys, values)
            except BaseException as error:
                connection.disconnect()  # its next answer may be this one's
                # A server that was restarted, or closes idle connections, has closed this one.
                if is_new or type(error) is not redis.ConnectionError:
                    raise
            else:
                self._idle.append(connection)
                return reply

    def _note_failure(self, error: Exception) -> None:
        self._retry_at = self._monotonic() + RETRY_SECONDS
        self.close()
        if self._local.take([FAILURE_LINE, SAID_AWAY], self._monotonic()).allowed:
            log.warning(
                "limits are counted by each machine for itself: Redis at %s cannot be used: %s",
                self.address,
                describe(error, self.address),
            )


def _evaluate(
    connection: redis.Connection, script: Script, keys: Sequence[str], values: Sequence[int]
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
