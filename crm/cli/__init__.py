"""The command line: `python app.py …`, `crm …` when installed, `flask --app app crm …`.

Every command works beside a running server, calls the same verbs as the API, prints the data folder
it uses on stderr (`webhook listen` has none), and ends with 0, with 1 and one line for an error, or
with 2 for wrong usage.
"""

from crm.cli import (
    backups,
    doctor,
    leaving,
    litestream,
    moving,
    operating,
    serving,
    tenants,
    upgrading,
    webhooks,
)
from crm.cli.frame import group

__all__ = [
    "backups",
    "doctor",
    "group",
    "leaving",
    "litestream",
    "main",
    "moving",
    "operating",
    "serving",
    "tenants",
    "upgrading",
    "webhooks",
]


def main() -> None:
    """Run the command line and end the process."""
    group()
