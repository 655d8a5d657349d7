"""Which alerts are to be sent now, by leases in their rows, and what came of it.

A sender claims what makes one message. An alert whose sender died is sent once more and no oftener:
the dead one may have sent it. In an hour a user gets MAX_PER_HOUR messages; what is more comes
together, as a digest.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from crm import values
from crm.alerts.alerts import COLUMNS, Alert, visible
from crm.alerts.kinds import EMAIL, TELEGRAM
from crm.storage.clocks import steady_before, steady_now
from crm.storage.dialect import by_index
from crm.storage.session import current_session, execute, execute_many, one_row, row, transaction

LEASE_SECONDS = 120
HOUR_SECONDS, MAX_PER_HOUR = 3600, 60
RETRY_DELAYS_SECONDS = (60, 300, 1800, 7200, 21_600)

ANY_PENDING = "EXISTS (SELECT 1 FROM alert WHERE send_at IS NOT NULL)"
NEXT_DUE = """
    SELECT min(at) FROM (
        SELECT min(send_at) AS at FROM alert WHERE send_at IS NOT NULL AND leased_until IS NULL
        UNION ALL SELECT min(leased_until) FROM alert
            WHERE send_at IS NOT NULL AND leased_until IS NOT NULL) AS due
    WHERE (SELECT suspended_at FROM tenant) IS NULL
"""
END_LEASES = """
    UPDATE alert SET lease = NULL, leased_until = NULL, is_repeated = 1,
        send_at = CASE WHEN is_repeated = 0 THEN send_at END
    WHERE send_at IS NOT NULL AND leased_until IS NOT NULL
        AND (leased_until < ? OR lease <> coalesce(?, lease))
"""
FIRST_USER = """
    SELECT user_id FROM alert WHERE send_at IS NOT NULL AND leased_until IS NULL AND send_at <= ?
        AND (SELECT suspended_at FROM tenant) IS NULL
    ORDER BY send_at LIMIT 1
"""
# Neither all that is due nor all alerts of the user are read.
BY_USER = by_index("alert", "alert_to_send_user")
DUE_OF_USER = "user_id = ? AND leased_until IS NULL AND send_at <= ?"
COUNT_SENT = """
    SELECT count(*), max(sent_at) FROM alert
    WHERE user_id = ? AND (sent_at > ? OR leased_until IS NOT NULL)
"""
RELEASE = "UPDATE alert SET lease = NULL, leased_until = NULL"


class ClaimedAlerts(NamedTuple):
    """An alert that the claimer must send, or several as one digest.

    addresses: of the user, by channel.
    """

    language: str | None
    addresses: Mapping[str, str]
    alerts: list[Alert]
    lease: str


def next_due() -> str | None:
    """When an alert of the tenant is to be sent, or a lease ends; None if there is none.

    Those of a suspended tenant wait.
    """
    return one_row(NEXT_DUE)[0]


def claim(lease: str) -> ClaimedAlerts | None:
    """Claim what the next message has; None if nothing is due.

    `lease` is the random name of the sender. Where one sends at a time, leases by other names have
    ended: their sender is dead.
    """
    has_one_sender = current_session().source.has_one_sender
    with transaction():
        moment = steady_now()
        execute(END_LEASES, (moment, lease if has_one_sender else None))
        while user := row(FIRST_USER, (moment,)):
            if claimed := _claim_of_user(user[0], moment, lease):
                return claimed
    return None


def _claim_of_user(user_id: int, moment: str, lease: str) -> ClaimedAlerts | None:
    """Claim what is due of a user; None if it has to wait, or is not to be sent any more."""
    due = (user_id, moment)
    active, language, email, chat_id, quiet_from, quiet_until, zone = one_row(
        'SELECT "user".active, "user".language, "user".email, chat_id, quiet_from, quiet_until,'
        ' time_zone FROM "user" JOIN tenant ON tenant.id = 1'
        ' LEFT JOIN telegram_chat ON user_id = "user".id WHERE "user".id = ?',
        (user_id,),
    )
    # What was seen in the workspace meanwhile needs no message.
    is_void = f"(seen_at > due_at OR NOT {visible(user_id)})" if active else "TRUE"
    execute(f"UPDATE {BY_USER} SET send_at = NULL WHERE {DUE_OF_USER} AND {is_void}", due)
    (count,) = one_row(f"SELECT count(*) FROM {BY_USER} WHERE {DUE_OF_USER}", due)
    sent, last_sent_at = one_row(COUNT_SENT, (user_id, steady_before(HOUR_SECONDS)))
    if ends := _end_of_quiet(moment, quiet_from, quiet_until, zone):
        _postpone(due, ends)
        return None
    if count and sent >= MAX_PER_HOUR:
        _postpone(due, _later(last_sent_at or moment, HOUR_SECONDS))
        return None
    is_digest = count > MAX_PER_HOUR - sent
    ids = f"SELECT id FROM {BY_USER} WHERE {DUE_OF_USER} ORDER BY send_at, id LIMIT ?"
    claimed = execute(
        f"UPDATE alert SET lease = ?, leased_until = ? WHERE id IN ({ids}) RETURNING {COLUMNS}",
        (lease, steady_before(-LEASE_SECONDS), *due, count if is_digest else 1),
    ).fetchall()
    if not claimed:
        return None
    addresses = {EMAIL: email, TELEGRAM: chat_id}
    known = {channel: address for channel, address in addresses.items() if address}
    alerts = [Alert(*columns) for columns in sorted(claimed)]
    return ClaimedAlerts(language, known, alerts, lease)


def record_outcome(claimed: ClaimedAlerts, failed: Mapping[int, list[str]]) -> None:
    """Store what came of claimed alerts.

    failed: the channels by which another try may succeed, by the id of the alert.
    """
    moment, lease = steady_now(), claimed.lease
    sent = [alert.id for alert in claimed.alerts if alert.id not in failed]
    with transaction():
        execute_many(
            f"{RELEASE}, sent_at = ?, send_at = NULL WHERE id = ? AND lease = ?",
            [(moment, id, lease) for id in sent],
        )
        for id, channels in failed.items():
            tried = row("SELECT tries FROM alert WHERE id = ? AND lease = ?", (id, lease))
            if tried:
                delays = RETRY_DELAYS_SECONDS[tried[0] : tried[0] + 1]
                send_at = _later(moment, delays[0]) if delays else None
                execute(
                    f"{RELEASE}, tries = tries + 1, channels = ?, send_at = ? WHERE id = ?",
                    (",".join(channels), send_at, id),
                )


def _postpone(due: tuple[int, str], to: str) -> None:
    execute(f"UPDATE {BY_USER} SET send_at = ? WHERE {DUE_OF_USER}", (to, *due))


def _later(moment: str, seconds: int) -> str:
    return values.moment(datetime.fromisoformat(moment) + timedelta(seconds=seconds))


def _end_of_quiet(moment: str, quiet_from: str | None, until: str | None, zone: str) -> str | None:
    """When the quiet hours end that a moment is in; None if it is in none.

    They are from HH:MM until HH:MM in a time zone, perhaps over midnight.
    """
    if not quiet_from or not until:
        return None
    local = datetime.fromisoformat(moment).astimezone(ZoneInfo(zone))
    time, is_over_midnight = f"{local:%H:%M}", quiet_from > until
    is_after, is_before = time >= quiet_from, time < until
    if not (is_after or is_before if is_over_midnight else is_after and is_before):
        return None
    ends = datetime.combine(local, datetime.strptime(until, "%H:%M").time(), local.tzinfo)
    return values.moment(ends + timedelta(days=ends <= local))
