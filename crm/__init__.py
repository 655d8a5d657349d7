"""A lightweight, embeddable, multi-tenant CRM: one process, one SQLite file per tenant."""

from crm.embedding import CRM
from crm.wsgi import CRMApp, create_app

__all__ = ["CRM", "CRMApp", "create_app"]
__version__ = "0.2.0.dev0"
