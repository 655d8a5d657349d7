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
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any

from crm import values
from crm.records.retention import KEPT_SECONDS
from crm.resources.tasks import DUE, OF_LIVE, TASK
from crm.storage.dialect import by_index
from crm.storage.session import now, tenant_zone, time_before

MAX_TASKS, MAX_REPEATS = 1000, 10
EVENT_DURATION, ALARM_BEFORE = timedelta(minutes=30), timedelta(minutes=15)
REFRESH_INTERVAL = timedelta(hours=1)
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
    import icalendar  # takes 60 ms and 10 MB, of processes that write a calendar alone

    calendar = icalendar.Calendar()
    calendar.add("prodid", "-//CRM//Tasks//EN")
    calendar.add("version", "2.0")
    calendar.add("name", name)
    calendar.add("x-wr-calname", name)  # as programs of before RFC 7986 call it
    calendar.add("refresh-interval", REFRESH_INTERVAL, parameters={"VALUE": "DURATION"})
    calendar.add("x-published-ttl", icalendar.vDuration(REFRESH_INTERVAL))
    for task in tasks:
        times = [task["due_at"]]
        if task["repeat"] and task["status"] != "done":
            following = values.times_after(task["repeat"], task["due_at"], tenant_zone())
            times += islice(following, MAX_REPEATS)
        for time in map(datetime.fromisoformat, times):
            calendar.add_component(_event(icalendar, task, time, home))
    return calendar.to_ical()


def _event(icalendar: Any, task: dict[str, Any], time: datetime, home: str) -> Any:
    changed_at, due_at = map(datetime.fromisoformat, (task["updated_at"], task["due_at"]))
    is_done = task["status"] == "done"
    path = f"{home}/tasks/{task['id']}"
    event = icalendar.Event()
    event.add("uid", path if time == due_at else f"{path}#{time:%Y%m%d}")
    event.add("dtstamp", changed_at)
    event.add("last-modified", changed_at)
    event.add("sequence", task["version"])
    event.add("dtstart", time)
    event.add("duration", EVENT_DURATION)
    event.add("summary", f"✓ {task['title']}" if is_done else task["title"])
    if task["description"]:
        event.add("description", task["description"])
    event.add("url", path)
    if not is_done:
        alarm = icalendar.Alarm()
        alarm.add("action", "DISPLAY")
        alarm.add("description", task["title"])
        remind_at = task["remind_at"] and datetime.fromisoformat(task["remind_at"])
        alarm.add("trigger", remind_at - due_at if remind_at else -ALARM_BEFORE)
        event.add_component(alarm)
    return event
