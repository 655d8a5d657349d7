"""What waits for a user, the board and the counts of the menu: the same for sellers as in plain SQL
over their own records, and by indexes that have no more than what waits."""

import random

import pytest

from crm.access import rights
from crm.resources import agenda, task_figures, tenant, users
from crm.resources.deals import figures
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.pipelines.record import Pipeline
from crm.storage.session import execute_many, one_row, rows, transaction
from tests.conftest import OLENA, TARAS
from tests.tables import traced_statements

SELLER = 3
NOON, MIDNIGHT = "2026-03-02T12:00:00Z", "2026-03-03T00:00:00Z"
TIMES = (None, "2026-03-01T09:00:00Z", NOON, "2026-03-02T18:00:00Z", MIDNIGHT)
DAYS = (None, "2026-03-01", "2026-03-05", "2026-03-09")
DELETED = "2026-03-01T00:00:00Z"
RESPONSIBLE = (OLENA, TARAS, SELLER, None)
OWN = f"(assigned_to = {SELLER} OR created_by = {SELLER})"
OPEN_LEAD = "status IN ('new', 'in_progress', 'qualified') AND deleted_at IS NULL"


@pytest.fixture
def office(crm):
    """Being at acme, with 300 leads, deals and tasks of three users and of nobody."""
    dice = random.Random(7)

    def insert(table, names, made):
        names = (*names, "assigned_to", "created_by", "deleted_at", "created_at", "updated_at")
        marks = ", ".join("?" * len(names))
        people = (
            (
                *one,
                dice.choice(RESPONSIBLE),
                dice.choice(RESPONSIBLE),
                dice.choice((None, None, DELETED)),
            )
            for one in made
        )
        values = [(*one, DELETED, dice.choice(TIMES[1:])) for one in people]
        execute_many(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", values)

    with crm.tenants.session("acme") as session:
        assert users.create({"name": "Solomiya", "role": "seller"}).id == SELLER
        stages = [(stage.id, stage.type) for stage in Pipeline.default().list_stages()]
        with transaction():
            statuses = ("new", "in_progress", "qualified", "unqualified")
            leads = [(f"Lead {n}", "a@b.example", dice.choice(statuses), "UAH") for n in range(300)]
            insert("lead", ("name", "email", "status", "currency"), leads)
            made = []
            for n in range(300):
                stage, kind = dice.choice(stages)
                closed = None if kind == "open" else NOON
                deal = (f"Deal {n}", Pipeline.default().id, stage, kind, closed, n * 100, "manual")
                currency, moved = dice.choice(("UAH", "USD")), dice.choice(TIMES[1:])
                made.append((*deal, currency, moved, dice.choice(DAYS)))
            names = "title pipeline_id stage_id status closed_at amount amount_mode currency"
            insert("deal", (*names.split(), "stage_changed_at", "expected_close_date"), made)
            statuses = ("open", "in_progress", "done", "cancelled")
            made = [
                (f"Task {n}", dice.choice(statuses), "normal", dice.choice(TIMES), *dice.choice(
                    ((n + 1, None), (None, n + 1), (None, None))
                ))
                for n in range(300)
            ]  # fmt: skip
            insert("task", ("title", "status", "priority", "due_at", "lead_id", "deal_id"), made)
        yield session


def as_seller(session):
    session.user_id = SELLER
    rights.limit_to_own_records()


def ids(records):
    return [int(record["id"]) for record in records]


def live_tasks():
    """The undone tasks of no deleted record, by plain SQL: (id, assigned_to, due_at)."""
    return rows(
        "SELECT id, assigned_to, due_at FROM task WHERE status IN ('open', 'in_progress')"
        " AND deleted_at IS NULL"
        " AND coalesce(lead_id, 0) NOT IN (SELECT id FROM lead WHERE deleted_at IS NOT NULL)"
        " AND coalesce(deal_id, 0) NOT IN (SELECT id FROM deal WHERE deleted_at IS NOT NULL)"
        " ORDER BY due_at, id"
    )


def test_open_records_are_counted_once_each(office):
    own = {"lead": OWN, "deal": OWN}
    for allows in (False, True):
        tenant.update(sellers_see_unassigned=allows)
        if allows:
            own["lead"] = f"({OWN} OR assigned_to IS NULL)"
        office.own_user_id = None
        for noun, condition in (
            ("lead", OPEN_LEAD),
            ("deal", "closed_at IS NULL AND deleted_at IS NULL"),
        ):

            def expected(own, noun=noun, condition=condition):
                return one_row(
                    f"SELECT count(*), count(CASE WHEN assigned_to = {SELLER} THEN 1 END),"
                    " count(CASE WHEN assigned_to IS NULL THEN 1 END)"
                    f" FROM {noun} WHERE {condition} AND {own}"
                )

            of_all, of_own = expected("TRUE"), expected(own[noun])
            assert of_all > of_own > (0, 0, 0)
            assert agenda.count_open(noun, SELLER, 999) == of_all
            assert agenda.count_open(noun, SELLER, 5)[0] == 5
            as_seller(office)
            assert agenda.count_open(noun, SELLER, 999) == of_own
            office.own_user_id = None


def test_the_tasks_due_are_those_of_plain_sql(office):
    for user, is_seller in ((OLENA, False), (TARAS, False), (SELLER, True)):
        if is_seller:
            as_seller(office)
        of_user = [
            (id, due) for id, responsible, due in live_tasks() if responsible == user and due
        ]
        due = [id for id, at in of_user if at < MIDNIGHT]
        assert due and ids(agenda.due_tasks(user, MIDNIGHT, 999)) == due
        late = len([at for _, at in of_user if at < NOON])
        assert task_figures.count_own(user, NOON, MIDNIGHT, 999) == (late, len(due) - late)
        assert task_figures.count_own(user, NOON, MIDNIGHT, 2) == (
            min(late, 2),
            min(len(due) - late, 2),
        )
    office.own_user_id = None
    due = [id for id, _, at in live_tasks() if at and at < MIDNIGHT]
    assert ids(agenda.due_tasks(None, MIDNIGHT, 999)) == due


def test_deals_of_today_are_in_order_and_without_those_of_others(office):
    of_steps = "SELECT deal_id FROM task WHERE status IN ('open', 'in_progress')"
    by_deal = {deal for (deal,) in rows(f"{of_steps} AND deleted_at IS NULL")}
    deals = rows(
        "SELECT id, assigned_to, stage_changed_at, expected_close_date FROM deal"
        " WHERE closed_at IS NULL AND deleted_at IS NULL"
    )
    for user in (None, OLENA, TARAS):
        of_user = [one for one in deals if user in (None, one[1])]
        idle = sorted((one[2], one[0]) for one in of_user if one[0] not in by_deal)
        assert idle and ids(agenda.deals_without_step(user, 999)) == [id for _, id in idle]
        closing = sorted((one[3], one[0]) for one in of_user if (one[3] or "9999") <= "2026-03-05")
        assert closing and ids(agenda.deals_closing(user, "2026-03-05", 999)) == [
            id for _, id in closing
        ]
    as_seller(office)
    closing = sorted(
        (one[3], one[0]) for one in deals if one[1] == SELLER and (one[3] or "9999") <= "2026-03-05"
    )
    assert closing and ids(agenda.deals_closing(SELLER, "2026-03-05", 999)) == [
        id for _, id in closing
    ]


def test_the_board_of_a_seller_is_of_own_deals(office):
    pipeline = Pipeline.default().id
    for own in ("TRUE", OWN):
        counts = rows(
            "SELECT stage_id, status, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
            f" WHERE deleted_at IS NULL AND {own} GROUP BY 1, 2, 3"
        )
        of_stage = (
            f"SELECT id FROM deal WHERE stage_id = ? AND status = 'open' AND deleted_at IS NULL"
            f" AND {own} ORDER BY stage_changed_at DESC, id DESC LIMIT 9"
        )
        stages = {stage for stage, status, *_ in counts if status == "open"}
        newest = {stage: [id for (id,) in rows(of_stage, (stage,))] for stage in stages}
        if own == OWN:
            as_seller(office)
        shown = figures.of_pipeline(pipeline)
        assert sorted(
            (int(stage), *one) for stage, many in shown.items() for one in many
        ) == sorted(counts)
        for stage, expected in newest.items():
            assert expected and ids(figures.newest_in_stage(stage, 9)) == expected
            assert ids(figures.newest_in_stage(stage, 999, is_all=True))[:9] == expected
        for flag in ("true", "false"):
            condition = DEAL_FILTER.fields["has_open_task"].condition([flag], "id")
            (count,) = one_row(
                f"SELECT count(*) FROM deal WHERE deleted_at IS NULL AND {condition.sql}"
            )
            shown = figures.of_pipeline(pipeline, [condition])
            assert 0 < count == sum(one[2] for many in shown.values() for one in many)


@pytest.mark.files
def test_what_every_page_asks_reads_no_records_that_do_not_wait(office):
    """Each of its statements begins in an index that has open records alone, or is of a user."""
    stage = Pipeline.default().list_stages()[0].id
    for is_seller in (False, True):
        if is_seller:
            as_seller(office)
        with traced_statements() as statements:
            for noun in agenda.OPEN:
                agenda.count_open(noun, SELLER, 999)
            task_figures.count_own(SELLER, NOON, MIDNIGHT, 999)
            agenda.due_tasks(SELLER, MIDNIGHT, 9)
            agenda.deals_without_step(SELLER, 9)
            agenda.deals_closing(SELLER, "2026-03-05", 9)
            figures.newest_in_stage(stage, 9)
            figures.newest_in_stage(stage, 9, is_all=True)
            figures.of_pipeline(1)
        for sql in statements:
            steps = [step for *_, step in office.connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
            reads = [
                step
                for step in steps
                if step.startswith(("SCAN main.", "SCAN deal", "SCAN lead", "SCAN task"))
            ]
            assert all("deal_waiting" in step for step in reads), (sql, reads)
