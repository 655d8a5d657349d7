"""Settings: the profile of each user, and for owners those of the whole business.

Each module adds its pages to the blueprint.
"""

from crm.cabinet.settings import (  # noqa: F401
    api_keys,
    company,
    custom_fields,
    inbound_hooks,
    oauth_consent,
    pipelines,
    profile,
    users,
    webhooks,
    website_forms,
)
from crm.cabinet.settings.sections import pages as pages
