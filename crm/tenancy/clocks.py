"""Times of the tenant visited by the steady clock, for what a wrong clock must not decide.

`database.now()` is the machine's clock: for what is told to people and other programs.
"""

from crm.tenancy.database import current_session, time_text


def steady_now() -> str:
    """The time that no step of the machine's clock moves: for schedules and what soon ends."""
    return time_text(int(current_session().keeper.steady.now()))


def steady_before(seconds: int) -> str:
    """The time `seconds` before steady_now()."""
    return time_text(int(current_session().keeper.steady.now()) - seconds)


def erasing_before(seconds: int) -> str:
    """The time `seconds` ago by the clock that may let something go for good."""
    return time_text(int(current_session().keeper.steady.for_erasing()) - seconds)


def steady_seconds() -> float:
    """steady_now() in epoch seconds."""
    return current_session().keeper.steady.now()


def uptime() -> float:
    """Seconds that the machine has been running: for windows of minutes, and nothing else."""
    return current_session().keeper.steady.uptime()
