"""How many files a process may have open (RLIMIT_NOFILE), and how they are divided.

Connections of clients, idle connections to tenants' files and everything else share one limit.
Where it is low, fewer of each are kept; a request never fails for the number of others.
"""

import resource
from typing import NamedTuple

MAX_FILES = 65_536  # used where there is no limit
FILES_PER_DATABASE = 3  # the file, its log, the log's index
# For all else: listeners, locks, requests under way, webhooks and mail in flight, uploads.
OTHER_FILES = 256


class OpenFileLimits(NamedTuple):
    """How many connections of clients, and how many idle connections to tenants' files."""

    clients: int
    databases: int


def divide_open_files(databases: int) -> OpenFileLimits:
    """Divide this process's limit; `databases`: how many idle connections are wanted at most."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], MAX_FILES)
    if limit < 0:  # RLIM_INFINITY
        limit = MAX_FILES
    left = limit - min(OTHER_FILES, limit // 4)
    databases = min(databases, max(1, left // 2 // FILES_PER_DATABASE))
    return OpenFileLimits(max(16, left - databases * FILES_PER_DATABASE), databases)


def raise_limit(wanted: int = 8192) -> None:
    """Raise the soft limit of this process, as far as the hard one allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
