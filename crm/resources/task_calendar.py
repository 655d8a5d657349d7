"""The tasks of a user as a calendar (RFC 5545), by the extra `calendar`."""

from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any
from zoneinfo import ZoneInfo

from crm.resources import tenant
from crm.resources.tasks import UNDONE, Task
from crm.storage.session import current_session, settings

MAX_TASKS = 1000  # the earliest
DURATION = timedelta(minutes=30)
REFRESH_INTERVAL = timedelta(minutes=15)
ALARM_BEFORE = timedelta(minutes=-15)  # of a task without a reminder


def is_installed() -> bool:
    """Whether this installation has the extra `calendar`."""
    return find_spec("icalendar") is not None


def write_calendar(user_id: int) -> bytes:
    """Return the tasks of a user that are to be done and have a due time."""
    import icalendar  # the extra `calendar`

    about = tenant.about()
    calendar = icalendar.Calendar()
    calendar.add("prodid", "-//CRM//tasks//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", about["name"])
    calendar.add("refresh-interval", REFRESH_INTERVAL, {"value": "DURATION"})
    calendar.add("x-published-ttl", icalendar.vDuration(REFRESH_INTERVAL))
    marks = ", ".join("?" * len(UNDONE))
    condition = f"assigned_to = ? AND status IN ({marks}) AND due_at IS NOT NULL"
    order = f"ORDER BY due_at, id LIMIT {MAX_TASKS}"
    for task in Task.every(f"{condition} {order}", user_id, *UNDONE):
        calendar.add_component(_event(icalendar, task, ZoneInfo(about["time_zone"])))
    calendar.add_missing_timezones()
    return calendar.to_ical()


def _event(icalendar: Any, task: Task, zone: ZoneInfo) -> Any:
    home = settings().url_of(current_session().label)
    event, alarm = icalendar.Event(), icalendar.Alarm()
    event.add("uid", f"task-{task.id}@{home.partition('//')[2]}")
    event.add("dtstamp", datetime.fromisoformat(task.updated_at))
    event.add("sequence", task.version)
    event.add("dtstart", datetime.fromisoformat(task.due_at).astimezone(zone))
    event.add("duration", DURATION)
    event.add("summary", task.title)
    if task.description:
        event.add("description", task.description)
    event.add("url", f"{home}/tasks/{task.id}")
    alarm.add("action", "DISPLAY")
    alarm.add("description", task.title)
    remind_at = task.remind_at and datetime.fromisoformat(task.remind_at)
    alarm.add("trigger", remind_at or ALARM_BEFORE)
    event.add_component(alarm)
    return event
