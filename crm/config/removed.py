"""Settings and commands that are gone, and what to do instead of each."""

REMOVED = {
    "CRM_OPEN_FILES": "use CRM_MAX_IDLE_CONNECTIONS, an upper bound",
    "backup drill": "use `backup test-restore`",
    "user add": "use `user create`",
}


def describe_removed(name: str) -> str | None:
    """Return the line for the operator who uses a name that is gone, None for any other name."""
    return f"{name} is gone: {REMOVED[name]}" if name in REMOVED else None
