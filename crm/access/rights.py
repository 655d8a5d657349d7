"""Authentication of API keys, and their rights (D12): `<resource>:read|write`, `leads:create` for
website forms, `*`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from crm.errors import Forbidden, Invalid, Unauthorized
from crm.storage.session import current_session, now, remembered_row, time_before, try_execute

ALL_SCOPES = "*"
FORM_SCOPE = "leads:create"
APPLY_SCOPE = "agents:apply"  # to apply a proposal oneself
ASSISTANT = "assistant"  # the preset of keys for assistants
RESOURCES: dict[str, str] = {}  # those with rights of their own: {name: label}
SCOPES = [ALL_SCOPES, APPLY_SCOPE, FORM_SCOPE]  # all that a key may have, sorted
OFFERED_SCOPES = [*SCOPES]  # those that an operation needs: not `users:write`
# Of who may see own records only: no settings, whatever else a key names.
OWN_SCOPES = frozenset(
    f"{name}:{right}"
    for name in ("leads", "clients", "deals", "tasks", "products", "papers", "views")
    for right in ("read", "write")
) | {FORM_SCOPE, "pipelines:read", "users:read"}
KEY_CHARACTERS = len("crm_") + 40 + 6
LAST_USE_INTERVAL_SECONDS = 600  # a write for every read would double the work of a key

FIND = """
    SELECT api_key.id, api_key.user_id, api_key.scopes, api_key.origins,
           api_key.expires_at, api_key.revoked_at, api_key.last_used_at, api_key.preset,
           "user".active, tenant.plan, tenant.suspended_at,
           CASE WHEN "user".role = 'seller' THEN 1 ELSE api_key.own END, tenant.fields_digest
    FROM api_key JOIN "user" ON "user".id = api_key.user_id JOIN tenant ON tenant.id = 1
    WHERE api_key.hash = ?
"""
# The hot path of the API: one query finds the key, its user and the tenant's plan.
FIND_KEY = f"{FIND} AND api_key.export IS NULL"
FIND_EXPORT_LINK = f"{FIND} AND api_key.export IS NOT NULL"  # a key for one export


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request: a key, its user and scopes, and the tenant's plan."""

    key_id: int
    user_id: int
    scopes: frozenset[str]
    origins: tuple[str, ...]
    plan: str
    preset: str | None

    @property
    def is_form(self) -> bool:
        return is_form_key(self.scopes)

    @property
    def group(self) -> str:
        """The callers that together have half of the tenant's requests (D12); empty: none."""
        if self.is_form:
            return "forms"
        return "assistants" if self.preset == ASSISTANT else ""


def authenticate(secret: str, find: str = FIND_KEY) -> Caller:
    """Return the caller of a key, and note it as the actor of the current session.

    `find` is the query of ordinary keys, or that of export links, which are no keys of the API.
    Raises the same Unauthorized for every key that is not valid at this tenant, and Forbidden if
    the tenant is suspended.
    """
    values = remembered_row(find, (hash_key(secret),)) if len(secret) == KEY_CHARACTERS else None
    if values is None:
        raise Unauthorized
    key_id, user_id, scopes, origins, expires, revoked, used, preset, *rest = values
    active, plan, suspended, own, fields_digest = rest
    if revoked or not active or (expires and expires <= now()):
        raise Unauthorized
    if suspended:
        raise Forbidden("this account is suspended", "tenant_suspended")
    # Noted now and then, and only if no other process writes: a request must not wait for it.
    if used is None or used < time_before(LAST_USE_INTERVAL_SECONDS):
        try_execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now(), key_id))
    session = current_session()
    session.user_id, session.key_id, session.scopes = user_id, key_id, _split_scopes(scopes)
    session.fields_digest = fields_digest
    if own:
        limit_to_own_records()
    return Caller(key_id, user_id, session.scopes, split_origins(origins), plan, preset)


def limit_to_own_records() -> None:
    """Let the current session read the records alone that are its user's, and no settings.

    Of the leads of nobody as the tenant's settings say.
    """
    session = current_session()
    setting = remembered_row("SELECT sellers_see_unassigned FROM tenant")
    session.own_user_id, session.sees_unassigned = session.user_id, setting == (1,)
    if session.scopes is None or ALL_SCOPES in session.scopes:
        session.scopes = OWN_SCOPES
    elif not is_form_key(session.scopes):
        session.scopes &= OWN_SCOPES


def require_all_records() -> None:
    """Raise Forbidden `own_records_only` if the actor may read its own records only."""
    if current_session().own_user_id is not None:
        raise Forbidden("you have access to your own records only", "own_records_only")


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


def require(needed: Iterable[str]) -> None:
    """Raise Forbidden naming the first scope of `needed` that the actor lacks."""
    scopes = granted()
    for scope in needed:
        if not allows(scopes, scope):
            raise Forbidden(f"this key lacks the scope {scope}", "missing_scope", scope=scope)


def granted() -> frozenset[str]:
    """Return the scopes of the current session's key.

    Actors without a key have all: users of the cabinet, the command line, an embedding site.
    """
    scopes = current_session().scopes
    return frozenset([ALL_SCOPES]) if scopes is None else scopes


def can_read(resource: str) -> bool:
    """Return whether the actor of the current session may read a resource such as `deals`."""
    return allows(granted(), f"{resource}:read")


def require_any(scopes: Mapping[str, str], detail: str) -> list[str]:
    """Return the names in `{name: scope}` whose scope the actor has; raises Forbidden if none.

    What an actor may do who has some of them depends on a record. One without any must not learn
    which records exist.
    """
    names = [name for name, scope in scopes.items() if allows(granted(), scope)]
    if not names:
        raise Forbidden(detail, "missing_scope", scope=next(iter(scopes.values())))
    return names


def is_form_key(scopes: frozenset[str]) -> bool:
    """Return whether these are the scopes of a website form's key, which only creates leads."""
    return scopes == {FORM_SCOPE}


def hash_key(secret: str) -> bytes:
    """Return the hash that is stored of a key, and looked up.

    Without salt or iterations: a key is random, so it cannot be guessed from its hash.
    """
    return hashlib.sha256(secret.encode()).digest()


@lru_cache(maxsize=1024)  # there are few different texts, and every request has one
def _split_scopes(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def split_origins(text: str) -> tuple[str, ...]:
    """Return the origins of a stored text."""
    return tuple(text.split(",")) if text else ()
