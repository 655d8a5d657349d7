"""Which statements read a large table as a whole: those whose work grows with it.

Everything is asked of one tenant. What SQLite plans to scan a large table for (EXPLAIN QUERY PLAN)
is executed once more there and in a tenant with five times as many records, and the instructions
of both are counted: they are no times, and the same in each run. A write that scans one counts as
growing. What is found by an index is not looked at.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from crm import CRMApp
from crm.storage.session import current_session
from crm.storage.sqlite import connection
from tests.benchmarks.growth.data import RECORDS, Size
from tests.benchmarks.growth.walk import Request, Tenant

SIZES = {"few": Size(8_000, 2_500, 4_000, 800), "many": Size(40_000, 12_500, 20_000, 4_000)}
LARGE = frozenset(
    [record.noun for record in RECORDS]
    + [f"{record.noun}_tag" for record in RECORDS if record.is_tagged]
    + ["contact", "deal_item", "note", "paper", "file", "event", "audit_entry", "stage_move"]
    + ["custom_text", "custom_number"]
)
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b")  # no write begins by WITH
STATEMENT = re.compile(rf"{WRITES.pattern}|\s*(SELECT|WITH)\b")
SCAN = re.compile(r"SCAN (?:main\.)?(\w+)")
FIRST_ROWS = 100  # of what is read a part at a time
STEP = 50  # instructions of SQLite that are counted as one
MIN_STEPS = 20  # fewer are taken as so many
MOST_GROWTH = 2.5  # times, of five times as many records


class Statement(NamedTuple):
    """A statement with parameters and the first request that executed it."""

    sql: str
    params: Sequence[Any]
    is_streamed: bool
    request: Request


class Recorder(connection.FileConnection):
    """Notes each statement that it executes for a request."""

    statements: dict[str, Statement] = {}
    tenant: Tenant | None = None

    def execute(self, sql: str, params: Sequence[Any] = (), /) -> Any:
        self.note(sql, params, False)
        return super().execute(sql, params)

    def stream(self, sql: str, params: Sequence[Any] = ()) -> Any:
        self.note(sql, params, True)
        return super().execute(sql, params)

    def note(self, sql: str, params: Sequence[Any], is_streamed: bool) -> None:
        request = self.tenant and self.tenant.request
        if request and sql not in self.statements:
            self.statements[sql] = Statement(sql, params, is_streamed, request)


def record(crm: CRMApp, label: str) -> list[Statement]:
    """The different statements of everything that is asked of a tenant."""
    Recorder.statements, connection.FileConnection = {}, Recorder
    crm.tenants.forget_idle()
    Recorder.tenant = Tenant(crm, label)
    try:
        for request, answer in Recorder.tenant.walk():
            assert answer.status < "500", (request, answer.status)
    finally:
        Recorder.tenant, connection.FileConnection = None, Recorder.__base__
        crm.tenants.forget_idle()
    return [*Recorder.statements.values()]


def growing(crm: CRMApp) -> Iterator[tuple[Statement, str]]:
    """The statements of tenants of SIZES that read more the more records there are, and why."""
    for statement in record(crm, [*SIZES][0]):
        if STATEMENT.match(statement.sql) and (why := growth_of(crm, statement)):
            yield statement, why


def growth_of(crm: CRMApp, statement: Statement) -> str:
    """Why a statement takes longer the more records there are; empty if it doesn't."""
    steps = []
    for label in SIZES:
        with crm.tenants.session(label, sweeps_expired=False):
            scans = list_scans(statement)
            if not scans or WRITES.match(statement.sql):
                return ", ".join(scans)
            steps.append(count_steps(statement))
    few, many = steps
    return (
        f"{', '.join(scans)}: {few} and {many} steps"
        if many > MOST_GROWTH * max(few, MIN_STEPS)
        else ""
    )


def list_scans(statement: Statement) -> list[str]:
    """The parts of a statement's plan that scan a large table or an index of one."""
    names = re.findall(r"\b(\w+) AS (\w+)", statement.sql)
    tables = LARGE.union(alias for table, alias in names if table in LARGE)
    sql = f"EXPLAIN QUERY PLAN {statement.sql}"
    plan = current_session().connection.execute(sql, statement.params).fetchall()
    return [text for *_, text in plan if (match := SCAN.match(text)) and match[1] in tables]


def count_steps(statement: Statement) -> int:
    """How many times STEP instructions a query takes."""
    opened, steps = current_session().connection, 0

    def step() -> None:
        nonlocal steps
        steps += 1

    opened.set_progress_handler(step, STEP)
    try:
        with closing(opened.execute(statement.sql, statement.params)) as cursor:
            cursor.fetchmany(FIRST_ROWS) if statement.is_streamed else cursor.fetchall()
    finally:
        opened.set_progress_handler(None, 0)
    return steps
