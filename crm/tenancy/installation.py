"""All tenants of an installation, by its settings: in files, or with CRM_DATABASE in schemas."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from crm.config import Config, ConfigError
from crm.tenancy.tenants import Tenants

if TYPE_CHECKING:
    from crm.tenancy.engines.moves import Moved


def open_tenants(
    config: Config,
    clock: Callable[[], float] = time.time,
    uptime: Callable[[], float] | None = None,
) -> Tenants:
    """Return the tenants of an installation; nothing is opened or connected yet.

    `clock` and `uptime` are as for Tenants. Raises ConfigError if CRM_DATABASE needs a package that
    is not installed.
    """
    if not config.database:
        return Tenants(config, clock, uptime)
    try:  # only here: without CRM_DATABASE no driver is imported
        from crm.tenancy.engines import moves
        from crm.tenancy.engines.schema_tenants import SchemaTenants
    except ImportError as error:
        raise ConfigError(
            "CRM_DATABASE: it needs the extra `postgres`: pip install 'crm[postgres]', or a single"
            f" file with it ({error})"
        ) from error
    tenants = SchemaTenants(config, clock, uptime)
    tenants.resolve_move = partial(moves.resolve, tenants)
    return tenants


def move_tenant(tenants: Tenants, label: str, to: str) -> "Moved":
    """Move a tenant of an installation with CRM_DATABASE: see engines.moves.move()."""
    from crm.tenancy.engines import moves
    from crm.tenancy.engines.schema_tenants import SchemaTenants

    assert isinstance(tenants, SchemaTenants)
    return moves.move(tenants, label, to)
