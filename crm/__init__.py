"""A lightweight, embeddable, multi-tenant CRM: one process, one SQLite file per tenant."""

import gc

# The objects of modules stay for good: looking for garbage among them takes a tenth of the import.
_is_enabled = gc.isenabled()
gc.disable()

from crm.embedding import CRM  # noqa: E402
from crm.wsgi import CRMApp, create_app  # noqa: E402

gc.freeze()
if _is_enabled:
    gc.enable()

__all__ = ["CRM", "CRMApp", "create_app"]
__version__ = "0.2.0.dev0"
