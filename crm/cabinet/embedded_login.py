"""The login of the site that embeds the cabinet: its users are let in here without another login.

The site names the user and the role at each page, so there is no session of ours. Visitors whom the
site does not know may still have a session of our own login.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import request

from crm.access import links
from crm.access.sessions import Session
from crm.errors import Forbidden, Invalid
from crm.resources import users
from crm.resources.users import USER_IN
from crm.tenancy.database import current_session, now, one_row, settings

SITE = "crm.site"  # in the environ, where no client can put anything
MAX_ID_CHARACTERS = 255


class SiteError(RuntimeError):
    """What the site says of its user is of no use: its mistake, which the log names. The text tells
    nothing of the person."""


@dataclass(frozen=True, slots=True)
class Site:
    """The site as one request needs it.

    `ask()` gives what it says of who is there ({id, name, role, email, phone}, each a text or
    None), None for nobody.
    `login_url` leads to its login, if that is to replace ours; `home` is where who logs out goes.
    """

    ask: Callable[[], dict[str, Any] | None]
    login_url: str | None
    home: str

    def login(self, path: str) -> str:
        """The address of the site's login that leads back to the path of a page here: by a path, or
        from another host by the whole address."""
        login_url = self.login_url or ""
        joint = "&" if "?" in login_url else "?"
        is_elsewhere = urlsplit(login_url).netloc not in ("", request.host)
        home = settings().url_of(current_session().label) if is_elsewhere else request.root_path
        return f"{login_url}{joint}{urlencode({'next': home + path})}"

    def origins(self) -> str:
        """Other origins that a form here may lead to, as a policy writes them."""
        parts = (urlsplit(url or "") for url in (self.login_url, self.home))
        origins = {f"{part.scheme}://{part.netloc}": None for part in parts if part.netloc}
        return "".join(f" {origin}" for origin in origins)


def current_site() -> Site | None:
    """The site that this request came through."""
    return request.environ.get(SITE)


def find_site_session() -> Session | None:
    """The session of whom the site lets in, None when it knows nobody.

    Raises Forbidden for who has no role here or was deactivated, SiteError.
    """
    site = current_site()
    answer = site and site.ask()
    if not answer:
        return None
    if one_row("SELECT suspended_at FROM tenant")[0]:
        raise Forbidden("this account is suspended", "tenant_suspended")
    if not answer.get("role"):
        raise Forbidden("your account of this site has no role here", "no_access")
    id, person = _person(answer)
    user = users.find_or_create_for_site(id, person)
    if not user.active:
        raise Forbidden("this user has no access any more", "no_access")
    links.record_entry(user.id)
    moment = now()
    # The role is the site's word, though the last owner is kept as one. An id that no row has.
    identity = (-user.id, user.id, person["role"], user.name, user.language)
    return Session(*identity, agent="", created_at=moment, last_seen_at=moment, from_site=True)


def _person(answer: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The site's id, and the fields of a user. Of e-mail and phone only what is one."""
    reach = {name: _fitting(name, answer.get(name)) for name in ("email", "phone")}
    name = answer.get("name") or ""
    id = (answer.get("id") or "").strip() or (reach["email"] or "").lower()
    if not id and name:
        id = f"name:{name.strip()}"  # people choose their names: one must not be another's id
    if not 0 < len(id) <= MAX_ID_CHARACTERS or not id.isprintable():
        raise SiteError("current_user: who is there has no id, e-mail or name that can be kept")
    name = name or reach["email"] or reach["phone"] or id
    try:
        return id, USER_IN.parse(
            {"name": name[:MAX_ID_CHARACTERS], "role": answer["role"], **reach}
        )
    except Invalid as error:
        names = ", ".join(fault.where.strip("/") for fault in error.faults)
        roles = ", ".join(users.ROLES)
        raise SiteError(f"current_user: {names} does not fit; a role is one of {roles}") from None


def _fitting(name: str, value: Any) -> str | None:
    try:
        return USER_IN.parse({"name": name, name: value})[name] if value else None
    except Invalid:
        return None
