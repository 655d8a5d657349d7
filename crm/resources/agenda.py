"""What waits for a user, or for everybody: tasks due, new leads, deals without a next step.

Each query takes the id of the user whose records count, None for those of all users, and `limit`,
the most records that it returns. Deleted records don't count.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from crm import values
from crm.alerts import alerts
from crm.alerts.kinds import NO_NEXT_STEP
from crm.json import dumps
from crm.records.conditions import EVERY_ROW, Condition
from crm.records.list_plans import own_alternatives
from crm.resources import tenant
from crm.resources.deals.figures import OPEN as OPEN_DEAL
from crm.resources.deals.record import DEAL
from crm.resources.leads.figures import OPEN as OPEN_LEAD
from crm.resources.leads.record import LEAD
from crm.resources.task_figures import STEP_OF_DEAL, UNDONE, UNDONE_OF_RECORD
from crm.resources.tasks import DUE, TASK
from crm.storage import sweeps
from crm.storage.dialect import among, by_index
from crm.storage.session import now, remembered_row, rows, rows_of_all

MORNING_HOUR = 9
# Its own, or that of its primary contact.
PHONE_OF_CLIENT = (
    "coalesce(client.phone, (SELECT contact.phone FROM contact"
    " WHERE contact.client_id = client.id AND contact.phone IS NOT NULL"
    " ORDER BY contact.is_primary DESC, contact.id LIMIT 1))"
)
OPEN = {
    "lead": f"{by_index('lead', 'lead_status')} WHERE {OPEN_LEAD}",
    "deal": f"{by_index('deal', 'deal_waiting')} WHERE {OPEN_DEAL}",
}


class TaskSubject(NamedTuple):
    """Whom a task concerns: the client of the task or of its deal, else its lead.

    resource, id: the record to open. phone: that of the record or of its primary contact. deal: the
    title of the task's deal; of a deal without a client the record is the deal itself.
    """

    resource: str
    id: int
    name: str
    phone: str | None = None
    deal: str | None = None


def due_tasks(user_id: int | None, before: str, limit: int) -> list[dict[str, Any]]:
    """The tasks due before a moment, the earliest first."""
    own, params = _own(user_id)
    source = by_index("task", "task_waiting" if own else "task_due_at")
    order = f"ORDER BY {DUE}, id"
    sql = f"SELECT id FROM {source} WHERE {own}{UNDONE} AND {DUE} < ? {order} LIMIT ?"
    return TASK.every(f"id IN ({sql}) {order}", *params, before, limit)


def new_leads(user_id: int | None, limit: int) -> list[dict[str, Any]]:
    """The leads that nobody has answered, the newest first; a user's own and those of nobody."""
    own = "" if user_id is None else "coalesce(assigned_to, ?) = ? AND "
    params = () if user_id is None else (user_id, user_id)
    return LEAD.every(
        f"{own}status = 'new' AND deleted_at IS NULL ORDER BY id DESC LIMIT ?", *params, limit
    )


def deals_without_step(user_id: int | None, limit: int) -> list[dict[str, Any]]:
    """The open deals that have no task to do, those longest in their stage first."""
    own, params = _own(user_id)
    waiting = f"{by_index('deal', 'deal_waiting')} WHERE {own}{OPEN_DEAL}"
    order = "ORDER BY stage_changed_at, id"
    sql = f"SELECT id FROM {waiting} AND NOT EXISTS ({STEP_OF_DEAL}) {order} LIMIT ?"
    return DEAL.every(f"id IN ({sql}) {order}", *params, limit)


def deals_closing(user_id: int | None, last_day: str, limit: int) -> list[dict[str, Any]]:
    """The open deals that are expected to close by a day, `YYYY-MM-DD`, the earliest first."""
    own, params = _own(user_id)
    under_way = f"{by_index('deal', 'deal_under_way')} WHERE {own}{OPEN_DEAL}"
    day = "coalesce(expected_close_date, '9999')"
    sql = f"SELECT id FROM {under_way} AND {day} <= ? ORDER BY {day}, id LIMIT ?"
    return DEAL.every(f"id IN ({sql}) ORDER BY {day}, id", *params, last_day, limit)


def next_steps(deal_ids: Iterable[str]) -> dict[str, str]:
    """When the next open task of each deal is due, by the deal's id; "" for one without a time.

    Tasks of the leads that became the deals count. Deals without an open task are not there.
    """
    steps = rows(
        "SELECT deal_id, min(due_at) FROM ("
        f"SELECT deal_id, due_at FROM task WHERE {among('deal_id')} AND {UNDONE_OF_RECORD}"
        " UNION ALL SELECT lead.deal_id, task.due_at FROM lead JOIN task ON task.lead_id = lead.id"
        f" WHERE lead.deleted_at IS NULL AND {among('lead.deal_id')} AND {UNDONE_OF_RECORD}"
        ") AS step GROUP BY deal_id",
        [_as_json(deal_ids)] * 2,
    )
    return {str(id): due_at or "" for id, due_at in steps}


def people_of(tasks: Iterable[dict[str, Any]]) -> dict[str, TaskSubject]:
    """Whom each of the actor's tasks concerns, by its id; tasks that concern nobody are not there.

    A seller sees who the client is also if that is a colleague's: the record to open is another.
    """
    concerned = rows(
        "SELECT task.id, coalesce(task.client_id, deal.client_id), client.id, lead.id, lead.name,"
        " lead.phone, deal.id, deal.title FROM task"
        " LEFT JOIN deal ON deal.id = task.deal_id AND deal.deleted_at IS NULL"
        " LEFT JOIN client ON client.id = coalesce(task.client_id, deal.client_id)"
        " LEFT JOIN lead ON lead.id = task.lead_id AND lead.deleted_at IS NULL"
        f" WHERE {among('task.id')}",
        [_as_json(task["id"] for task in tasks)],
    )
    clients = _clients(row[1] for row in concerned)
    people = {}
    for id, client_id, own_client_id, lead_id, lead, lead_phone, deal_id, deal in concerned:
        if client_id in clients:
            opened = [("clients", own_client_id), ("deals", deal_id), ("tasks", id)]
            resource, opened_id = next(pair for pair in opened if pair[1] is not None)
            people[str(id)] = TaskSubject(resource, opened_id, *clients[client_id], deal)
        elif lead_id is not None:
            people[str(id)] = TaskSubject("leads", lead_id, lead, lead_phone, deal)
        elif deal_id is not None:
            people[str(id)] = TaskSubject("deals", deal_id, deal)
    return people


def count_open(noun: str, user_id: int, limit: int) -> tuple[int, int, int]:
    """How many leads or deals are open, the user's and those of nobody, of the first `limit`."""
    parts = own_alternatives(noun) or [Condition(EVERY_ROW)]
    selects = [f"SELECT assigned_to FROM {OPEN[noun]} AND {part.sql}" for part in parts]
    counts = remembered_row(
        "SELECT count(*), count(CASE WHEN assigned_to = ? THEN 1 END),"
        " count(CASE WHEN assigned_to IS NULL THEN 1 END)"
        f" FROM ({' UNION ALL '.join(selects)} LIMIT ?) AS counted",
        (user_id, *(value for part in parts for value in part.params), limit),
    )
    assert counts is not None  # a count always gives a row
    return counts[0], counts[1], counts[2]


def phones_of_clients(ids: Iterable[str | None]) -> dict[str, str]:
    """The phone of each of the clients, or of its primary contact, by the client's id.

    ids: those of clients or deals that the actor sees; a client may be a colleague's.
    """
    clients = _clients(int(id) for id in ids if id)
    return {str(id): phone for id, (_, phone) in clients.items() if phone}


def _clients(ids: Iterable[int | None]) -> dict[int, tuple[str, str | None]]:
    """{id: (name, phone)} of live clients, whoever is responsible for them."""
    found = rows_of_all(
        f"SELECT client.id, client.name, {PHONE_OF_CLIENT} FROM client"
        f" WHERE {among('client.id')} AND client.deleted_at IS NULL",
        [_as_json(filter(None, ids))],
    )
    return {id: (name, phone) for id, name, phone in found}


@sweeps.register
def alert_of_missing_steps(_: int) -> int:
    """Alert once a day, in the morning, who is responsible for deals without a next step."""
    local = datetime.fromisoformat(now()).astimezone(ZoneInfo(tenant.about()["time_zone"]))
    due_at = values.moment(max(local, local.replace(hour=MORNING_HOUR, minute=0, second=0)))
    responsible = rows(
        f"SELECT DISTINCT assigned_to FROM deal WHERE {OPEN_DEAL} AND assigned_to IS NOT NULL"
        f" AND NOT EXISTS ({STEP_OF_DEAL})"
    )
    alerts.add_daily(NO_NEXT_STEP, [user_id for (user_id,) in responsible], due_at)
    return 0


def _own(user_id: int | None) -> tuple[str, tuple[int, ...]]:
    return ("", ()) if user_id is None else ("assigned_to = ? AND ", (user_id,))


def _as_json(ids: Iterable[Any]) -> str:
    return dumps([int(id) for id in ids]).decode()
