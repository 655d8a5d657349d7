"""How long the reports of a large tenant take: `python -m tests.benchmarks.reports [--postgres]`.

Each report of a month, of a year and of all time, of a tenant with 200,000 deals of two years, each
with three moves on average, as many tasks and half as many leads. PostgreSQL is started by the
benchmark on this machine; its tables are vacuumed, as autovacuum does within a minute.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from crm import CRMApp, create_app
from crm.access import api_keys
from crm.config import Config
from crm.resources import tenant, users
from crm.resources.pipelines.record import Pipeline
from crm.resources.reports.declarations import REPORTS
from crm.storage.dialect import filling
from crm.storage.session import execute_many, time_text, transaction
from tests.benchmarks.hot_path import caller
from tests.benchmarks.processes import describe_machine
from tests.postgres_server import Postgres

DEALS = int(os.environ.get("DEALS", 200_000))
BEGUN, SECONDS = 1_700_000_000, 2 * 365 * 86_400  # from November 2023
PEOPLE, CALLS = 20, 7
CURRENCIES = ("UAH",) * 8 + ("USD", "EUR")
REASONS = ("Too expensive", "Chose a competitor", "No budget", None)
SOURCES = ("site", "phone", "instagram", "exhibition", None)
KINDS = ("call", "call", "meeting", "email", None)
PERIODS = {
    "month": "since=2025-03-01&until=2025-03-31",
    "year": "since=2024-07-01&until=2025-06-30",
    "all": "since=2023-01-01&until=2026-12-31",
}
Rows = list[tuple[Any, ...]]


def rows(stages: list[int]) -> tuple[Rows, Rows, Rows, Rows]:
    """Deals, moves, leads and tasks; `stages` are four open ones, that of won and that of lost."""
    dice = random.Random(7)
    deals: Rows = []
    moves: Rows = []
    leads: Rows = []
    tasks: Rows = []
    for number in range(1, DEALS + 1):
        at = BEGUN + SECONDS * number // DEALS
        created, person = time_text(at), dice.randint(1, PEOPLE)
        path = stages[: dice.randint(1, 4)]
        status = dice.choices(("won", "lost", "open"), (3, 5, 2))[0]
        if status != "open":
            path = [*path, stages[4 if status == "won" else 5]]
        before, stayed = None, None
        for stage in path:
            moves.append((number, before, stage, "to", time_text(at), stayed))
            before, stayed = stage, dice.randrange(3600, 20 * 86_400)
            last, at = at, at + stayed
        moved = time_text(last)
        expected = f"{time_text(last + 30 * 86_400)[:10]}" if dice.random() < 0.8 else None
        deals.append(
            (
                *(f"Deal {number}", path[-1], status, dice.randrange(10**9) * 100),
                *(dice.choice(CURRENCIES), person, expected, dice.choice(SOURCES)),
                dice.choice(REASONS) if status == "lost" else None,
                *(moved, moved if status != "open" else None, created, moved),
            )
        )
        tasks.append(
            ("Task", dice.choice(KINDS), person, moved, dice.randrange(3600), created, moved)
        )
        if number % 2:
            stage = dice.choice(("new", "converted", "unqualified"))
            leads.append(
                ("Lead", "+380501234567", dice.choice(SOURCES), stage, person, created, created)
            )
    return deals, moves, leads, tasks


INSERTS = {
    "deal": "INSERT INTO deal (title, pipeline_id, stage_id, status, amount, amount_mode, currency,"
    " assigned_to, expected_close_date, source, lost_reason, stage_changed_at, closed_at,"
    " created_at, updated_at, search_text)"
    " VALUES (?, 1, ?, ?, ?, 'manual', ?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
    "stage_move": "INSERT INTO stage_move (deal_id, from_stage_id, to_stage_id, to_name, moved_at,"
    " stayed_seconds) VALUES (?, ?, ?, ?, ?, ?)",
    "lead": "INSERT INTO lead (name, phone, source, status, assigned_to, currency, created_at,"
    " updated_at, search_text) VALUES (?, ?, ?, ?, ?, 'UAH', ?, ?, '')",
    "task": "INSERT INTO task (title, type, status, priority, assigned_to, completed_at,"
    " duration_seconds, created_at, updated_at, search_text)"
    " VALUES (?, ?, 'done', 'normal', ?, ?, ?, ?, ?, '')",
}


def furnish(config: Config) -> tuple[CRMApp, str]:
    """The tenant, and a key."""
    crm = create_app(config, sends=False)
    tenant.open_tenant(crm.tenants, "acme", plan="pro")
    with crm.tenants.session("acme"):
        _, key = api_keys.create("benchmark", "*", users.owner_id())
        for number in range(1, PEOPLE):
            users.create({"name": f"User {number}", "role": "manager"})
        stages = [stage.id for stage in Pipeline.default().list_stages()]
        for (table, sql), found in zip(INSERTS.items(), rows(stages), strict=True):
            with transaction(), filling(table):
                execute_many(sql, found)
    return crm, key


def milliseconds(call: Any) -> float:
    """The median of some calls."""
    call()
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1e3


def configs(folder: Path, has_postgres: bool, stack: ExitStack) -> Iterator[tuple[str, Config]]:
    plans = dict.fromkeys(("start", "base", "pro"), 10**9)
    yield "SQLite", Config(data=folder / "files", plans=plans)
    if has_postgres:
        server = stack.enter_context(Postgres(durable=True))
        database = server.create_database("benchmark")
        yield "PostgreSQL", Config(data=folder / "node", plans=plans, database=database)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true", help="measure PostgreSQL too")
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name, config in configs(Path(folder), options.postgres, stack):
            crm, key = furnish(config)
            if config.database:
                with psycopg.connect(config.database, autocommit=True) as connection:
                    connection.execute("VACUUM")
            ask = caller(crm, {"Host": "acme.localhost", "Authorization": f"Bearer {key}"})
            print(f"\n{name}, {DEALS:,} deals, ms".ljust(34), *(f"{of:>8}" for of in PERIODS))
            for report in REPORTS:
                path = f"/api/v1/reports/{report}"
                taken = [
                    milliseconds(partial(ask, "GET", f"{path}?{of}")) for of in PERIODS.values()
                ]
                print(report.ljust(33), *(f"{ms:8.1f}" for ms in taken), flush=True)
            crm.tenants.forget_idle()


if __name__ == "__main__":
    main()
