"""Freezes a release: a tenant's file with data of every kind, and the API's responses about it.

`python -m tests.releases [VERSION]` writes `VERSION.db.gz` and `VERSION.json` to
`tests/data/releases`; the version is this release's unless named. `tests/tenancy/test_releases.py`
proves for each frozen file that this code brings it up to date and gives the same responses.
"""

import gzip
import hashlib
import json
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import crm
from crm import create_app
from crm.storage.session import write_archive
from tests.full_tenant import (
    LABEL,
    START,
    Caller,
    Clock,
    fill_tenant,
    missing_values,
    seeded_random,
)
from tests.installations import config_for

FOLDER = Path(__file__).parent / "data" / "releases"
ABOUT = (
    "The answers that this release gave about the tenant in the file of the same name, at the time"
    " asked_at. The key stands in that file only and is worth nothing anywhere else."
)
# Beside each address of each GET operation: lists by their filters, and what is not found.
MORE = (
    *("/leads?status=new", "/leads?status=converted", "/leads?q=їжак", "/leads?q=0671234567"),
    *("/leads?assigned_to=me", "/leads?assigned_to=none", "/leads?source=site-form"),
    *("/leads?sort=name", "/leads?sort=-updated_at&total=true", "/leads?external_id=L-1"),
    "/leads?include_deleted=true&updated_since=2026-02-01T00:00:00Z&sort=updated_at",
    *("/leads/1?expand=possible_duplicates", "/leads/9", "/leads/none"),
    *("/clients?type=company", "/clients?tag=опт", "/clients?q=ганна", "/clients?expand=contacts"),
    *("/clients/2?expand=possible_duplicates", "/clients/3"),
    *("/deals?status=won", "/deals?pipeline_id=2", "/deals?stage_id=2", "/deals?client_id=1"),
    *("/deals?sort=-amount", "/deals?sort=expected_close_date", "/deals?q=офіс"),
    *("/products?category=Столи", "/products?active=false", "/products?q=стілець"),
    "/products?include_deleted=true&updated_since=2026-02-01T00:00:00Z&sort=updated_at",
    *("/products/4", "/products/5", "/products/export?dialect=excel"),
    *("/tasks?status=done", "/tasks?type=call", "/tasks?due_before=2026-03-01T00:00:00Z"),
    "/tasks?include_deleted=true&updated_since=2026-02-01T00:00:00Z&sort=updated_at",
    *("/users?active=false", "/users?role=viewer"),
    *(
        "/events?type=deal.won",
        "/events?after=50&limit=200",
        "/webhooks/1/deliveries?status=failed",
    ),
    *("/leads?nonsense=1", "/leads?status=nonsense", "/nonsense"),
)
ENDED_IMPORTS = "SELECT id FROM import_run WHERE state <> 'running'"

LIVE_FILES = "SELECT id FROM file WHERE deleted_at IS NULL"


def main(version: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file, answers = FOLDER / f"{version}.db.gz", FOLDER / f"{version}.json"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.db"
        key, asked_at = build(Path(folder) / "data", made)
        responses = request_all(made, key, asked_at, Path(folder) / "asked")
        file.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    about = {"about": ABOUT, "version": version, "key": key, "asked_at": asked_at}
    text = json.dumps(about | {"answers": responses}, ensure_ascii=False, indent=0, sort_keys=True)
    answers.write_text(text + "\n", "utf-8")
    for path in (file, answers):
        print(path.relative_to(FOLDER.parent.parent.parent), path.stat().st_size)


def build(data: Path, to: Path) -> tuple[str, float]:
    """Fill the tenant in a data folder, copy its file, and return the API key and the time.

    Raises AssertionError naming what the schema has and the file lacks.
    """
    clock = Clock(START)
    app = create_app(config_for(data), clock, sends=False)
    with seeded_random():
        key = fill_tenant(app, clock)
    with app.tenants.session(LABEL):
        write_archive(to)
    app.tenants.forget_idle()
    with closing(sqlite3.connect(to)) as file:
        missing = missing_values(file)
    assert not missing, "tests/full_tenant.py makes none of these yet:\n" + "\n".join(missing)
    return key, clock()


def unpack(version: str, to: Path) -> dict[str, Any]:
    """Write the file of a frozen release to a path; return {key, asked_at, answers, …}."""
    to.write_bytes(gzip.decompress((FOLDER / f"{version}.db.gz").read_bytes()))
    return json.loads((FOLDER / f"{version}.json").read_text("utf-8"))


def install(file: Path, data: Path) -> None:
    """Create a data folder in which the file is the tenant's."""
    (data / "tenants").mkdir(parents=True)
    shutil.copyfile(file, data / "tenants" / f"{LABEL}.db")


def request_all(file: Path, key: str, asked_at: float, data: Path) -> dict[str, Any]:
    """Return {path: {status, body}} for each path of each GET operation, and MORE."""
    install(file, data)
    app = create_app(config_for(data), Clock(asked_at), sends=False)
    caller = Caller(app, key)
    with closing(sqlite3.connect(file)) as opened:
        ids = {
            # To ask for one that runs is to go on with it.
            "/imports": [str(id) for (id,) in opened.execute(ENDED_IMPORTS)],
            "/deliveries": [str(id) for (id,) in opened.execute("SELECT id FROM delivery")],
            "/inbound-calls": ["1", "2"],
            "/files": [str(id) for (id,) in opened.execute(LIVE_FILES)],
        }
        with app.tenants.session(LABEL) as session:  # as where an archive is restored
            session.source.contents.take_from(opened)
    responses = {}
    for path in (*_addresses(app, caller, ids), *MORE):
        responses[path] = response_to(caller, path)
    app.tenants.forget_idle()
    return responses


def response_to(caller: Caller, path: str) -> dict[str, Any]:
    """Request a path and return the status and the body."""
    response = caller.ask("GET", path)
    if response.mimetype in ("application/pdf", "image/png"):
        body = hashlib.sha256(response.data).hexdigest()
    else:
        body = response.json if response.is_json else response.text
    return {"status": response.status_code, "body": body}


def _addresses(app: Any, caller: Caller, ids: dict[str, list[str]]) -> Iterator[str]:
    """Every address of every GET operation of the document: a new one is here by itself, or, when
    no list has its ids, a KeyError."""
    templates = [path for path, item in app.api.document("")["paths"].items() if "get" in item]

    @cache
    def ids_of(path: str) -> list[str]:
        if path in ids:
            return ids[path]
        body = caller.do("GET", f"{path}?limit=200")
        return [record["id"] for record in body["data"]]

    def paths_of(template: str) -> list[str]:
        head, _, tail = template.rpartition("/")
        if not head:
            return [template]
        if not tail.startswith("{"):
            return [f"{path}/{tail}" for path in paths_of(head)]
        if head not in ids and head not in templates:
            raise KeyError(f"where are the ids of {template}?")
        suffix = tail.partition("}")[2]
        return [f"{path}/{id}{suffix}" for path in paths_of(head) for id in ids_of(path)]

    for template in templates:
        result = paths_of(re.sub(r"^.*/api/v1", "", template))
        assert result, f"nothing is there to ask {template} for"
        yield from result


if __name__ == "__main__":
    main(*sys.argv[1:] or [crm.__version__])
