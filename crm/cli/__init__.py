"""The command line: `python app.py …`, `crm …` when installed, `flask --app app crm …`.

Every command works while a server is running, calls the same verbs as the API and prints the data
folder it uses on stderr (`webhook listen` uses none). It exits with 0, with 1 and one line on
stderr for an error, or with 2 for wrong usage.
"""

from crm.cli import (
    backups,
    deployment,
    doctor,
    litestream,
    migrate,
    serving,
    spreadsheets,
    tenant_lifecycle,
    tenants,
    webhooks,
)
from crm.cli.commands import group

__all__ = [
    "backups",
    "deployment",
    "doctor",
    "group",
    "litestream",
    "main",
    "migrate",
    "spreadsheets",
    "serving",
    "tenant_lifecycle",
    "tenants",
    "webhooks",
]


def main() -> None:
    """Run the command line and exit."""
    group()
