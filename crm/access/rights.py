"""Rights of an API key: `<resource>:read|write`, `leads:create` for website forms, `*` (D12)."""

from collections.abc import Iterable

from crm.errors import Forbidden, Invalid
from crm.tenancy.database import current_session

RESOURCES = ("leads", "clients", "deals", "products", "tasks", "pipelines", "users", "webhooks")
ALL_SCOPES = "*"
FORM_SCOPE = "leads:create"
SCOPES = frozenset(
    [
        ALL_SCOPES,
        FORM_SCOPE,
        *(f"{noun}:{right}" for noun in RESOURCES for right in ("read", "write")),
    ]
)


def parse_scopes(text: str) -> frozenset[str]:
    """The scopes of a text such as `leads:read,leads:write`; raises Invalid naming a wrong one."""
    found = frozenset(part.strip() for part in text.replace(" ", ",").split(",") if part.strip())
    if not found:
        raise Invalid.field("scopes", "required", "name at least one scope")
    if unknown := sorted(found - SCOPES):
        raise Invalid.field(
            "scopes", "unknown_scope", f"{unknown[0]!r} is none of {', '.join(sorted(SCOPES))}"
        )
    return found


def allows(held: frozenset[str], needed: str) -> bool:
    """Is `needed` among the rights? Writing does not imply reading; it implies `leads:create`."""
    return needed in held or ALL_SCOPES in held or (needed == FORM_SCOPE and "leads:write" in held)


def require(held: frozenset[str], needed: Iterable[str]) -> None:
    """Raise Forbidden naming the first scope that is missing."""
    for scope in needed:
        if not allows(held, scope):
            raise Forbidden(f"this key lacks the scope {scope}", "missing_scope", scope=scope)


def can_read(resource: str) -> bool:
    """Whether who acts in this visit may see stored values of a resource such as `deals`. Who acts
    without a key may: a person in the cabinet, the command line, a site that embeds the CRM."""
    held = current_session().scopes
    return held is None or allows(held, f"{resource}:read")


def is_form_key(held: frozenset[str]) -> bool:
    """Is it a website form's key, which may create leads and nothing else?"""
    return held == {FORM_SCOPE}
