"""The command line: `python app.py …`, `crm …` when installed, `flask --app app crm …`.

Every command works while a server is running, calls the same verbs as the API and prints the data
folder it uses on stderr (`webhook listen` uses none). It exits with 0, with 1 and one line on
stderr for an error, or with 2 for wrong usage.
"""

from crm.cli import (  # noqa: F401  (they register their commands)
    backups,
    deployment,
    doctor,
    install,
    serving,
    spreadsheets,
    tenants,
    webhooks,
)
from crm.cli.commands import group as group
