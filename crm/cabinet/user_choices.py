"""Colleagues by name, for whoever shows or chooses one."""

from flask import g

from crm.tenancy.database import rows


def names() -> dict[str, str]:
    """Names of the active users by id, as texts, the longest here first."""
    if "people" not in g:
        found = rows("SELECT id, name FROM user WHERE active ORDER BY id")
        g.people = {str(id): name for id, name in found}
    return g.people


def everyone() -> dict[str, str]:
    """Names of all users by id, also of those who left: for what they did once."""
    if "everyone" not in g:
        g.everyone = {str(id): name for id, name in rows("SELECT id, name FROM user")}
    return g.everyone


def choices(kept: str | None = None) -> list[tuple[str, str]]:
    """Whom to choose from: the active ones, and `kept`, who has it already."""
    left = {kept: everyone()[kept]} if kept in everyone() else {}
    return list({**names(), **left}.items())
