"""The alerts of users: added in the transaction of the change that causes them, read, and seen.

Users are not told of what they have done themselves; what a program does with an API key is not
done by its user. Of what an import or an undo changes nobody is told record by record; that an
import names a user without access is told.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from crm.alerts.kinds import ASSIGNED, BELL, CHANNELS, EMAIL, KINDS, TASK_DUE, TELEGRAM
from crm.errors import NotFound
from crm.json import integer_id
from crm.records.retention import delete_after
from crm.storage import own_rows
from crm.storage.clocks import steady_now
from crm.storage.dialect import by_index
from crm.storage.session import (
    current_session,
    execute,
    notify_after_commit,
    now,
    one_row,
    remembered_row,
    row,
    rows,
    settings,
    time_before,
    transaction,
)

MAX_LISTED = 200
DAILY_SECONDS = 12 * 3600  # at least between two daily alerts
HAS_ADDRESS = {  # SQL conditions, by channel
    EMAIL: "email IS NOT NULL",
    TELEGRAM: "EXISTS (SELECT 1 FROM telegram_chat WHERE user_id = addressee.id)",
}
NEVER = "FALSE"
ADD = """
    INSERT INTO alert (user_id, kind, noun, record_id, due_at, seen_at, channels, send_at)
    SELECT id, ?, ?, ?, ?, CASE WHEN instr(chosen, 'bell') = 0 THEN ? END, chosen,
        CASE WHEN {is_sent} THEN ? END
    FROM (
        SELECT "user".id, "user".email, coalesce(alert_choice.channels, ?) AS chosen
        FROM "user" LEFT JOIN alert_choice
            ON alert_choice.user_id = "user".id AND alert_choice.kind = ?
        WHERE "user".active = 1 AND "user".id <> ? AND {whose}
    ) AS addressee WHERE chosen <> '' ORDER BY id
"""


class Alert(NamedTuple):
    """An alert as stored. `noun` and `record_id` name the record that it is about, if it is."""

    id: int
    user_id: int
    kind: str
    noun: str | None
    record_id: int | None
    due_at: str
    seen_at: str | None
    channels: str


COLUMNS = ", ".join(Alert._fields)
_conditions: dict[str, str] = {}  # by kind


def visible(user_id: int) -> str:
    """An SQL condition: the user may see the record that an alert is about, and it still waits.

    It is asked whenever alerts are counted, shown or sent. Sellers see their own records only.
    """
    limits = remembered_row(
        'SELECT "user".role, tenant.sellers_see_unassigned FROM "user" JOIN tenant ON tenant.id = 1'
        ' WHERE "user".id = ?',
        (user_id,),
    )
    assert limits is not None
    role, unassigned = limits
    conditions = [
        "TRUE",
        *(f"(alert.kind <> '{kind}' OR {sql})" for kind, sql in _conditions.items()),
    ]
    if role == "seller":  # SELLER of crm/access, which this package does not import
        conditions.append(own_rows.record_condition("alert", user_id, bool(unassigned)))
    return f"({' AND '.join(conditions)})"


def show_where(kind: str, condition: str) -> None:
    """Show and send alerts of a kind only where an SQL condition on `alert.record_id` is true."""
    _conditions[kind] = condition


def add(
    kind: str,
    noun: str | None = None,
    record_id: int | None = None,
    *,
    to: int | None = None,
    due_at: str | None = None,
) -> None:
    """Alert the user `to`, or without one those of the kind's roles; inside a transaction.

    due_at: from when on the alert is shown and sent, by default now.
    """
    session = current_session()
    if session.is_undo or (session.is_import and noun != "user"):
        return
    declared = KINDS[kind]
    is_person = not (session.key_id or session.is_program)
    actor = session.user_id if is_person and not declared.tells_actor else None
    is_sent = _is_sent(tuple(installed_channels()))
    send_at = None if is_sent == NEVER else due_at or steady_now()
    shown_at, channels = due_at or now(), ",".join(declared.channels)
    params = (
        *(kind, noun, record_id, shown_at, shown_at, send_at),
        *(channels, kind, actor or 0, to or ",".join(declared.roles)),
    )
    whose = '"user".id = ?' if to else 'instr(?, "user".role) > 0'
    added = execute(ADD.format(is_sent=is_sent, whose=whose), params)
    if added.rowcount and send_at:
        notify_after_commit()


def add_assigned(record: Any) -> None:
    """Alert the user who has become responsible for a record, if there is one."""
    if record.assigned_to is not None:
        add(ASSIGNED, record.noun, record.id, to=record.assigned_to)


def set_reminder(task_id: int, user_id: int | None, at: str | None) -> None:
    """Remind a user of a task at a time, and not at the one set before; inside a transaction.

    A time that is over, such as of an imported task, reminds nobody.
    """
    execute(
        "DELETE FROM alert WHERE kind = 'task_due' AND record_id = ? AND due_at > ?",
        (task_id, now()),
    )
    if user_id and at and at > now():
        add(TASK_DUE, "task", task_id, to=user_id, due_at=at)


def add_daily(kind: str, user_ids: Iterable[int], due_at: str) -> None:
    """Alert users, at a time of today, of what goes on: yesterday's alerts of the kind go.

    Who was alerted today is not alerted again; inside a transaction.
    """
    since = time_before(DAILY_SECONDS)
    execute("DELETE FROM alert WHERE kind = ? AND due_at < ?", (kind, since))
    alerted = {id for (id,) in rows("SELECT user_id FROM alert WHERE kind = ?", (kind,))}
    for user_id in user_ids:
        if user_id not in alerted:
            add(kind, to=user_id, due_at=due_at)


def exists(kind: str, record_id: int, unseen: bool = False) -> bool:
    """Return whether anybody was alerted of this kind about a record; `unseen`: and not yet saw."""
    sql = "SELECT 1 FROM alert WHERE kind = ? AND record_id = ?"
    return row(sql + " AND seen_at IS NULL" * unseen, (kind, record_id)) is not None


def find(user_id: int, id: int | str) -> Alert:
    """Return an alert that the user may see. Raises NotFound."""
    values = row(f"SELECT {COLUMNS} {_of(user_id)} AND id = ?", (user_id, now(), integer_id(id)))
    if values is None:
        raise NotFound
    return Alert(*values)


def list_newest(user_id: int) -> list[Alert]:
    """Return the user's alerts, the newest first, at most MAX_LISTED."""
    sql = f"SELECT {COLUMNS} {_of(user_id)} ORDER BY due_at DESC, id DESC LIMIT {MAX_LISTED}"
    return [Alert(*values) for values in rows(sql, (user_id, now()))]


def count_unseen(user_id: int, limit: int) -> int:
    """Return how many alerts the user has not seen, counting up to `limit`."""
    unseen = f"SELECT 1 {_of(user_id)} AND seen_at IS NULL LIMIT ?"
    return one_row(f"SELECT count(*) FROM ({unseen}) AS unseen", (user_id, now(), limit))[0]


def mark_seen(user_id: int, id: int | None = None) -> None:
    """Mark one alert of the user as seen, or all that are shown by now."""
    moment = now()
    with transaction():
        execute(
            "UPDATE alert SET seen_at = ? WHERE user_id = ? AND seen_at IS NULL AND due_at <= ?"
            " AND id = coalesce(?, id)",
            (moment, user_id, moment, id),
        )


def mark_record_seen(user_id: int, noun: str, record_id: int) -> None:
    """Mark the alerts of the user about a record as seen: it is open now, or done."""
    sql = "FROM alert WHERE user_id = ? AND seen_at IS NULL AND noun = ? AND record_id = ?"
    sql, params = f"{sql} AND due_at <= ?", (user_id, noun, record_id, now())
    if row(f"SELECT 1 {sql} LIMIT 1", params):
        with transaction():
            execute(f"UPDATE alert SET seen_at = ? WHERE id IN (SELECT id {sql})", (now(), *params))


def newest_unseen(user_id: int) -> Alert | None:
    """Return the alert shown last that the user has not seen."""
    unseen = f"{_of(user_id, by_index('alert', 'alert_unseen'))} AND seen_at IS NULL"
    sql = f"SELECT {COLUMNS} {unseen} ORDER BY due_at DESC, id DESC LIMIT 1"
    values = row(sql, (user_id, now()))
    return None if values is None else Alert(*values)


def installed_channels() -> list[str]:
    """Return the channels that the installation has."""
    config = settings()
    return [BELL, *[EMAIL] * (config.mail is not None), *[TELEGRAM] * bool(config.telegram_token)]


def cancel_messages(until: str | None = None) -> None:
    """Send no alert that is due until then, by default now; inside a transaction.

    For a copy of a tenant: the original may have sent them.
    """
    execute("UPDATE alert SET send_at = NULL WHERE send_at <= ?", (until or steady_now(),))


def chosen_channels(user_id: int) -> dict[str, list[str]]:
    """Return the channels of each kind for a user."""
    chosen = dict(rows("SELECT kind, channels FROM alert_choice WHERE user_id = ?", (user_id,)))
    default = {kind: ",".join(declared.channels) for kind, declared in KINDS.items()}
    return {kind: text.split(",") if text else [] for kind, text in {**default, **chosen}.items()}


def choose_channels(user_id: int, chosen: dict[str, list[str]]) -> None:
    """Set the channels of some kinds for a user; those that are not known are left out."""
    with transaction():
        for kind, names in chosen.items():
            params = user_id, kind, ",".join(name for name in CHANNELS if name in names)
            execute("DELETE FROM alert_choice WHERE user_id = ? AND kind = ?", params[:2])
            execute("INSERT INTO alert_choice (user_id, kind, channels) VALUES (?, ?, ?)", params)


def _of(user_id: int, source: str = "alert") -> str:
    return f"FROM {source} WHERE user_id = ? AND due_at <= ? AND {visible(user_id)}"


@cache
def _is_sent(channels: tuple[str, ...]) -> str:
    """An SQL condition: the user has an address of a chosen channel, one of these but the bell."""
    chosen = (f"({HAS_ADDRESS[name]} AND instr(chosen, '{name}') > 0)" for name in channels[1:])
    return " OR ".join(chosen) or NEVER


delete_after("alert", "due_at")
