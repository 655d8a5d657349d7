"""The tasks of a user as a calendar that programs subscribe to: iCalendar (RFC 5545, RFC 7986).

A task with a due time is an event of half an hour, because most programs show no to-dos of a
subscription. It stays there for 30 days, done or not; a cancelled task is not there. Of more than
MAX_TASKS those still to come are there first, the next ones before all, then the latest others.

Times are in UTC, which each program shows in the zone of its user; the rules of a zone (VTIMEZONE)
are not read alike. Alarms are relative to their events, because khal knows no others. A task of the
year 9999, which stands for no date in other programs, is not there: the end of its event is a time
that programs cannot compute, and some refuse the whole calendar for it.

Of a task that repeats the next times are events of their own, because a rule would be one of UTC,
which has other days and no summer time.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Any

from crm import values
from crm.records.retention import KEPT_SECONDS
from crm.resources.tasks import DUE, OF_LIVE, TASK
from crm.storage.dialect import by_index
from crm.storage.session import now, tenant_zone, time_before
from crm.values.content_lines import basic_time, escape_text, fold_lines

MAX_TASKS, MAX_REPEATS = 1000, 10
EVENT_DURATION, ALARM_BEFORE, REFRESH_INTERVAL = "PT30M", "-PT15M", "PT1H"
LISTED = (
    f"id IN (SELECT id FROM {by_index('task', 'task_due_at')} WHERE assigned_to = ?"
    f" AND {DUE} >= ? AND {DUE} < '9999' AND status <> 'cancelled' AND deleted_at IS NULL"
    f" AND {OF_LIVE}"
    " ORDER BY CASE WHEN due_at >= ? AND status <> 'done' THEN due_at ELSE '~' END, due_at DESC, id"
    " LIMIT ?)"
)


def list_tasks(user_id: int) -> list[dict[str, Any]]:
    """The tasks of a user that are in the calendar, the earliest first."""
    tasks = TASK.every(LISTED, user_id, time_before(KEPT_SECONDS), now(), MAX_TASKS)
    return sorted(tasks, key=itemgetter("due_at"))


def write(tasks: Iterable[dict[str, Any]], name: str, home: str) -> bytes:
    """Write a calendar of tasks.

    name: that of the calendar. home: the address of the business, where the pages of the tasks are.
    """
    lines = [
        "BEGIN:VCALENDAR",
        "PRODID:-//CRM//Tasks//EN",
        "VERSION:2.0",
        f"NAME:{escape_text(name)}",
        f"X-WR-CALNAME:{escape_text(name)}",  # as programs of before RFC 7986 call it
        f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH_INTERVAL}",
        f"X-PUBLISHED-TTL:{REFRESH_INTERVAL}",
    ]
    for task in tasks:
        times = [task["due_at"]]
        if task["repeat"] and task["status"] != "done":
            following = values.times_after(task["repeat"], task["due_at"], tenant_zone())
            times += islice(following, MAX_REPEATS)
        for time in times:
            lines += _event(task, time, home)
    lines.append("END:VCALENDAR")
    return fold_lines(lines)


def _event(task: dict[str, Any], time: str, home: str) -> Iterable[str]:
    changed_at, starts_at = basic_time(task["updated_at"]), basic_time(time)
    is_done, title = task["status"] == "done", escape_text(task["title"])
    path = f"{home}/tasks/{task['id']}"
    yield "BEGIN:VEVENT"
    yield f"UID:{path}" if time == task["due_at"] else f"UID:{path}#{time[:10]}"
    yield f"DTSTAMP:{changed_at}"
    yield f"LAST-MODIFIED:{changed_at}"
    yield f"SEQUENCE:{task['version']}"
    yield f"DTSTART:{starts_at}"
    yield f"DURATION:{EVENT_DURATION}"
    yield f"SUMMARY:{'✓ ' * is_done}{title}"
    if task["description"]:
        yield f"DESCRIPTION:{escape_text(task['description'])}"
    yield f"URL:{path}"
    if not is_done:
        yield from ("BEGIN:VALARM", "ACTION:DISPLAY", f"DESCRIPTION:{title}")
        yield f"TRIGGER:{_alarm(task) if task['remind_at'] else ALARM_BEFORE}"
        yield "END:VALARM"
    yield "END:VEVENT"


def _alarm(task: dict[str, Any]) -> str:
    """When the user is reminded of a task, from its due time on."""
    remind_at, due_at = (datetime.fromisoformat(task[name]) for name in ("remind_at", "due_at"))
    duration = abs(remind_at - due_at)
    return f"{'-' if remind_at < due_at else ''}P{duration.days}DT{duration.seconds}S"
