"""The users of a tenant by name, to show and to choose from."""

from flask import g

from crm.tenancy.database import rows


def names() -> dict[str, str]:
    """Names of the active users by id (as text), in the order in which they were added."""
    # Kept for the request: the fields of a page look users up again and again.
    if "people" not in g:
        active = rows('SELECT id, name FROM "user" WHERE active = 1 ORDER BY id')
        g.people = {str(id): name for id, name in active}
    return g.people


def everyone() -> dict[str, str]:
    """Names of all users by id (as text), deactivated ones too."""
    if "everyone" not in g:
        g.everyone = {str(id): name for id, name in rows('SELECT id, name FROM "user"')}
    return g.everyone


def choices(selected_id: str | None = None) -> list[tuple[str, str]]:
    """(id, name) of the active users, and of the user `selected_id` even if deactivated."""
    selected = {selected_id: everyone()[selected_id]} if selected_id in everyone() else {}
    return list({**names(), **selected}.items())
