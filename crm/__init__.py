"""A lightweight, embeddable, multi-tenant CRM: one process, one SQLite file per tenant."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crm.embedding import CRM
    from crm.wsgi import CRMApp, create_app

__all__ = ["CRM", "CRMApp", "create_app"]
__version__ = "0.2.0.dev0"

# Imported when they are asked for, so that a command can prepare it (start.py).
_MODULES = {"CRM": "crm.embedding", "CRMApp": "crm.wsgi", "create_app": "crm.wsgi"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
