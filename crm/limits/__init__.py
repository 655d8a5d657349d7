"""Counts that limits are decided by: of requests, failed tries, pages, e-mails and SMS.

A `windows.Store` has three operations, each atomic: take, read and reset. `file_store` keeps the
counts of all processes of a machine in a file, `redis_store` those of all machines in a Redis
(`CRM_LIMITS`). What is limited, and how much of it, is for the callers in `crm.access` to say.

The package `limits` of PyPI does not do: it has no store that the processes of a machine share, and
no operation that adds to several counts or to none.
"""

from collections.abc import Callable
from pathlib import Path

from crm.config import RedisAddress
from crm.limits.file_store import FileStore
from crm.limits.windows import Store


def open_store(address: RedisAddress | None, folder: Path, secret: Callable[[], bytes]) -> Store:
    """Return the counts in a Redis, or without an address those in the data folder.

    Nothing is opened before the first count. `secret` returns the installation's key, with which
    names are digested.
    """
    local = FileStore(folder, secret)
    if address is None:
        return local
    from crm.limits.redis_server import RedisServer  # needs the extra `redis`
    from crm.limits.redis_store import RedisStore

    return RedisStore(RedisServer(address, local), local, secret)
