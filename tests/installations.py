"""The installations that tests make, on the engine that the whole run is for.

`pytest --database postgres` runs the suite on PostgreSQL. Whoever makes a Config, starts a process
or runs a command on a data folder takes its settings from here: on PostgreSQL each folder has a
database of its own, whose name follows from the folder's path, in whatever process.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crm.config import Config

if TYPE_CHECKING:
    from tests.postgres_server import Databases

# The address of the server of this run, also for the processes that tests start; not set: SQLite.
SERVER_VARIABLE = "TEST_CRM_DATABASE"

_made: dict[Path, str] = {}  # the databases that this process has made, by folder


def on_postgres() -> bool:
    """Whether this run is on PostgreSQL."""
    return bool(os.environ.get(SERVER_VARIABLE))


def settings_for(data: Path | str) -> dict[str, Any]:
    """Return the settings of the installation in a data folder, by their names in Config."""
    folder = Path(data)
    if not on_postgres():
        return {"data": folder}
    return {"data": folder, "database": _database_url(folder)}


def config_for(data: Path | str, **settings: Any) -> Config:
    """Return the Config of the installation in a data folder, with more settings."""
    return Config(**settings_for(data), **settings)


def config_on(address: str, data: Path | str, **settings: Any) -> Config:
    """Return the Config of a node: a data folder on a database that the test has made itself."""
    return Config(data=Path(data), database=address, **settings)


def environ_for(data: Path | str) -> dict[str, str]:
    """Return what the environment of a process needs beside the data folder, which is not in it."""
    return {"CRM_DATABASE": _database_url(Path(data))} if on_postgres() else {}


def copy_installation(source: Path, target: Path) -> Path:
    """Copy an installation that nobody uses at the moment to a new folder, and return that."""
    shutil.copytree(source, target)
    if on_postgres():
        _database_url(source)  # it may be a folder that nobody has used yet
        _database_url(target, template=_name_for(source))
    return target


def drop_databases(below: Path) -> None:
    """Drop the databases of the folders in a folder, and of itself."""
    _drop([folder for folder in _made if folder.is_relative_to(below)])


def drop_all_databases() -> None:
    """Drop all databases that this process has made."""
    _drop(list(_made))


def _database_url(folder: Path, template: str = "template1") -> str:
    """Return the address of the folder's database, which is made if there is none."""
    folder = folder.absolute()
    if folder not in _made:
        _made[folder] = _server().create_database(_name_for(folder), template)
    return _made[folder]


def _name_for(folder: Path) -> str:
    path = os.fsencode(folder.absolute())
    return f"installation_{hashlib.sha256(path).hexdigest()[:20]}"


def _server() -> "Databases":
    from tests.postgres_server import Databases  # psycopg is needed for PostgreSQL alone

    return Databases(os.environ[SERVER_VARIABLE])


def _drop(folders: Iterable[Path]) -> None:
    for folder in folders:
        del _made[folder]
        _server().drop_database(_name_for(folder))
