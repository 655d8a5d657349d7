"""Divide the number of files that a process may have open (RLIMIT_NOFILE).

Clients, idle connections to tenants' databases and everything else share the limit. If it is low,
fewer of each are kept open, so that no request fails for lack of a file.
"""

import resource
from typing import NamedTuple

MAX_FILES = 65_536  # used where there is no limit
FILES_PER_DATABASE = 3  # the file, its log, the log's index
# For all else: listeners, locks, running requests, webhooks and e-mails in flight, uploads.
OTHER_FILES = 256


class OpenFileLimits(NamedTuple):
    """The numbers of client connections and of idle connections to tenants' databases."""

    clients: int
    databases: int


def divide_open_files(databases: int) -> OpenFileLimits:
    """Divide this process's limit; `databases` is the wanted number of idle connections."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], MAX_FILES)
    if limit < 0:  # RLIM_INFINITY
        limit = MAX_FILES
    available = limit - min(OTHER_FILES, limit // 4)
    databases = min(databases, max(1, available // 2 // FILES_PER_DATABASE))
    return OpenFileLimits(max(16, available - databases * FILES_PER_DATABASE), databases)


def raise_limit(files: int = 8192) -> None:
    """Raise the soft limit of this process to `files`, or as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
