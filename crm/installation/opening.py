"""All tenants of an installation, by its settings: in files, or with CRM_DATABASE in schemas."""

import time
from collections.abc import Callable

from crm.config import Config, ConfigError
from crm.installation.tenants import Tenants
from crm.storage.sqlite import migrations


def open_tenants(
    config: Config,
    clock: Callable[[], float] = time.time,
    uptime: Callable[[], float] | None = None,
) -> Tenants:
    """Return the tenants of an installation; nothing is opened or connected yet.

    `clock` and `uptime` are as for Tenants. Raises ConfigError if CRM_DATABASE needs a package that
    is not installed, and MixedReleases.
    """
    migrations.require_known_steps()
    if not config.database:
        return Tenants(config, clock, uptime)
    try:  # only here: without CRM_DATABASE no driver is imported
        from crm.storage.postgres.engine import PostgresEngine
    except ImportError as error:
        raise ConfigError(
            "CRM_DATABASE: it needs the extra `postgres`: pip install 'crm[postgres]', or a single"
            f" file with it ({error})"
        ) from error
    return Tenants(config, clock, uptime, lambda tenants: PostgresEngine(tenants, tenants.files))
