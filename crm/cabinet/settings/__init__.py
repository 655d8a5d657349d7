"""Settings: the profile of each user, and for owners those of the whole business."""

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
