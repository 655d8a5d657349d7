"""Settings: the own profile for everybody, and for owners how the whole business works here."""

from crm.cabinet.settings import (
    api_keys,
    company,
    forms,
    overview,
    pipelines,
    plan,
    profile,
    users,
    webhooks,
)
from crm.cabinet.settings.sections import pages

__all__ = [
    "api_keys",
    "company",
    "forms",
    "overview",
    "pages",
    "pipelines",
    "plan",
    "profile",
    "users",
    "webhooks",
]
