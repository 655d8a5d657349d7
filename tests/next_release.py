"""A release to come: the code of this one with one more step.

`python -m tests.next_release migrate` is its command line.
"""

import pytest

from crm import start
from crm.storage.postgres import schema
from crm.storage.sqlite import migrations
from tests.tenancy.engines.translate_migrations import statements_of

STEP = ("9999_next.sql", ["CREATE TABLE next (id INTEGER PRIMARY KEY AUTOINCREMENT) STRICT"])


def add_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code of this process know the step."""
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, STEP])
    monkeypatch.setattr(schema, "statements_of", statements_of)


if __name__ == "__main__":
    add_step(pytest.MonkeyPatch())
    start.main()
