"""Times of the current tenant by the steady clock, for what a wrong clock must not decide.

`session.now()`, and `today()`, are by the machine's clock, for what is shown to people and other
programs.
"""

from datetime import date, datetime

from crm.storage.session import current_session, now, tenant_zone, time_text


def today() -> date:
    """Return the present day in the tenant's time zone."""
    return datetime.fromisoformat(now()).astimezone(tenant_zone()).date()


def steady_now() -> str:
    """Return the time that no step of the machine's clock moves: for schedules and expiry."""
    return time_text(int(current_session().source.steady_clock.now()))


def steady_before(seconds: int) -> str:
    """Return the time `seconds` before steady_now()."""
    return time_text(int(current_session().source.steady_clock.now()) - seconds)


def erasing_before(seconds: int) -> str:
    """Return the time `seconds` ago by the clock that may delete something for good."""
    return time_text(int(current_session().source.steady_clock.erasing_now()) - seconds)


def steady_seconds() -> float:
    """Return steady_now() in epoch seconds."""
    return current_session().source.steady_clock.now()


def uptime() -> float:
    """Return the seconds that the machine has been running: for windows of minutes only."""
    return current_session().source.steady_clock.uptime()
