"""Installations on a PostgreSQL that a test has started, whatever engine the run is for."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner, Result

from crm import CRMApp, cli, create_app
from crm.access import api_keys
from crm.config import PLANS, Config
from crm.resources import tenant, users
from tests.postgres_server import Databases
from tests.server_process import ROOT, find_free_port

UNLIMITED = dict.fromkeys(PLANS, 0)  # requests a minute

_numbers = itertools.count(1)


def new_database(server: Databases, name: str = "crm") -> str:
    """Create a database of a new name, and return the name."""
    name = f"{name}_{next(_numbers)}"
    server.create_database(name)
    return name


def run_command(data: Path, database: str, *words: Any, **settings: str) -> Result:
    """Run a command on a data folder, with CRM_DATABASE and further settings.

    `serve` is run as a process, because it sets the log up; it must fail.
    """
    if words[0] == "serve":
        return _run_process(data, database, *words, **settings)
    others = {name: None for name in os.environ if name.startswith("CRM_")}
    return CliRunner().invoke(
        cli.group,
        [*map(str, words), "--data", str(data)],
        env=others | {"CRM_DATABASE": database} | settings,
    )


def clean_environ() -> dict[str, str]:
    """Return the environment without settings, for a process."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}


def _run_process(data: Path, database: str, *words: Any, **settings: str) -> Any:
    command = [sys.executable, "app.py", *map(str, words), "--data", str(data)]
    ran = subprocess.run(
        [*command, "--port", str(find_free_port())],
        cwd=ROOT,
        env=clean_environ() | {"CRM_DATABASE": database} | settings,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return SimpleNamespace(
        exit_code=ran.returncode,
        stdout=ran.stdout,
        stderr=ran.stderr,
        output=ran.stdout + ran.stderr,
        exception=SystemExit(ran.returncode),
    )


def error_line(result: Result) -> str:
    """Return what the command said as it failed: one line on stderr."""
    assert result.exit_code == 1, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit), result.exception
    (line,) = (
        line for line in result.stderr.splitlines() if not line.startswith(("data folder:", "{"))
    )
    return line


def open_installation(data: Path, address: str = "", **settings: Any) -> CRMApp:
    """Return the app of an installation with this database, or of one without."""
    return create_app(
        Config(data=data, database=address, **{"plans": UNLIMITED, **settings}), sends=False
    )


def open_tenant(crm: CRMApp, label: str) -> str:
    """Create a tenant with an owner, and return a key that may do everything there."""
    tenant.open_tenant(crm.tenants, label, plan="business", owner={"name": "Olena"})
    with crm.tenants.session(label):
        return api_keys.create("tests", "*", users.owner_id())[1]
