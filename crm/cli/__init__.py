"""The command line: `python app.py …`, `crm …` when installed, `flask --app app crm …`.

Every command works beside a running server, calls the same verbs as the API, prints the data folder
it uses on stderr (`webhook listen` has none), and ends with 0, with 1 and one line for an error, or
with 2 for wrong usage.
"""

from crm.cli import (
    backups,
    deployment,
    doctor,
    litestream,
    migrate,
    moving,
    serving,
    tenant_lifecycle,
    tenants,
    webhooks,
)
from crm.cli.commands import group

__all__ = [
    "backups",
    "doctor",
    "group",
    "tenant_lifecycle",
    "litestream",
    "main",
    "moving",
    "deployment",
    "serving",
    "tenants",
    "migrate",
    "webhooks",
]


def main() -> None:
    """Run the command line and end the process."""
    group()
