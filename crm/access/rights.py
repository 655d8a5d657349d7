"""Rights of an API key: `<resource>:read|write`, `leads:create` for website forms, `*` (D12)."""

from collections.abc import Iterable

from crm.errors import Forbidden, Invalid
from crm.tenancy.database import current_session

ALL_SCOPES = "*"
FORM_SCOPE = "leads:create"
RESOURCES: dict[str, str] = {}  # those with rights of their own: {name: label}
SCOPES = [ALL_SCOPES, FORM_SCOPE]  # all that a key may have, sorted
OFFERED_SCOPES = [ALL_SCOPES, FORM_SCOPE]  # those that an operation needs: not `users:write`


def add_resources(labels: dict[str, str], needed: set[str]) -> None:
    """Register the scopes `<name>:read` and `<name>:write` of each resource.

    labels: {name: what people call its records, marked by N_()}, in the order of forms.
    needed: the scopes that operations need; forms and messages name no others.
    """
    RESOURCES.update(labels)
    added = [f"{name}:{right}" for name in labels for right in ("read", "write")]
    SCOPES.extend(added)
    SCOPES.sort()
    OFFERED_SCOPES.extend(scope for scope in added if scope in needed)
    OFFERED_SCOPES.sort()


def parse_scopes(text: str) -> frozenset[str]:
    """Return the scopes of a text such as `leads:read,leads:write`. Raises Invalid."""
    scopes = frozenset(part.strip() for part in text.replace(" ", ",").split(",") if part.strip())
    if not scopes:
        raise Invalid.field("scopes", "required", "name at least one scope")
    if unknown := sorted(scopes.difference(SCOPES)):
        raise Invalid.field(
            "scopes", "unknown_scope", f"{unknown[0]!r} is none of {', '.join(OFFERED_SCOPES)}"
        )
    return scopes


def allows(scopes: frozenset[str], needed: str) -> bool:
    """Return whether the scopes include `needed`.

    Writing does not imply reading; it implies `leads:create`.
    """
    return (
        needed in scopes
        or ALL_SCOPES in scopes
        or (needed == FORM_SCOPE and "leads:write" in scopes)
    )


def require(scopes: frozenset[str], needed: Iterable[str]) -> None:
    """Raise Forbidden naming the first scope of `needed` that is missing."""
    for scope in needed:
        if not allows(scopes, scope):
            raise Forbidden(f"this key lacks the scope {scope}", "missing_scope", scope=scope)


def can_read(resource: str) -> bool:
    """Return whether the actor of the current session may read a resource such as `deals`.

    Actors without a key may: users of the cabinet, the command line, an embedding site.
    """
    scopes = current_session().scopes
    return scopes is None or allows(scopes, f"{resource}:read")


def is_form_key(scopes: frozenset[str]) -> bool:
    """Return whether these are the scopes of a website form's key, which only creates leads."""
    return scopes == {FORM_SCOPE}
