"""Opening all tenants of an installation, by its settings."""

import time
from collections.abc import Callable

from crm.config import Config
from crm.installation.tenants import Tenants


def open_tenants(
    config: Config,
    clock: Callable[[], float] = time.time,
    uptime: Callable[[], float] | None = None,
) -> Tenants:
    """Return the tenants of an installation; nothing is opened or connected yet.

    `clock` and `uptime` are as for Tenants. Raises ConfigError.
    """
    return Tenants(config, clock, uptime)
