"""What the CRM keeps: one module per noun of the specification. Adding one is one line here."""

from crm.resources import users
from crm.resources.leads import endpoints as leads
from crm.rest.openapi import Api


def register(api: Api) -> None:
    """All endpoints, in the specification's order."""
    for module in (leads, users):
        api.register_blueprint(module.blueprint)
