"""Login through the site that embeds the cabinet: its users need no second login.

The site names the user and the role for each page, so the cabinet stores no session of its own.
A visitor who is not logged in at the site may still have a session of the cabinet's own login.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import request

from crm.access import links
from crm.access.sessions import Session
from crm.errors import Forbidden, Invalid
from crm.resources import tenant, users
from crm.storage.session import current_session, now, settings

SITE = "crm.site"  # the Site that passes a request on, in the environ: no client can put it there
MAX_ID_CHARACTERS = 255


class SiteError(RuntimeError):
    """The site's `current_user` returned unusable data. It is the site's fault, and logged.

    The text of the error has no data of the person, because logs must not have any.
    """


@dataclass(frozen=True, slots=True)
class Site:
    """The embedding site, as one request needs it.

    `ask()` returns the user who is logged in at the site ({id, name, role, email, phone}, each a
    text or None), or None if there is no such user. `login_url` is the address of the site's login
    page, None to use the cabinet's own. `home` is the page that is opened after logging out.
    `logout_fields(response)` returns None if a GET opens that page, else the hidden fields of the
    form that the site accepts there by POST; it may set a cookie of the site in the response.
    """

    ask: Callable[[], dict[str, Any] | None]
    login_url: str | None
    home: str
    logout_fields: Callable[[Any], dict[str, str] | None]

    def login(self, path: str) -> str:
        """Return the address of the site's login, with `path` of the cabinet as the page to return
        to: as a path, or as a whole address if the login is on another host."""
        login_url = self.login_url or ""
        joint = "&" if "?" in login_url else "?"
        is_elsewhere = urlsplit(login_url).netloc not in ("", request.host)
        home = settings().url_of(current_session().label) if is_elsewhere else request.root_path
        return f"{login_url}{joint}{urlencode({'next': home + path})}"

    def origins(self) -> str:
        """Return the site's origins in the syntax of Content-Security-Policy `form-action`."""
        parts = (urlsplit(url or "") for url in (self.login_url, self.home))
        origins = {f"{part.scheme}://{part.netloc}": None for part in parts if part.netloc}
        return "".join(f" {origin}" for origin in origins)


def find_session(site: Site) -> Session | None:
    """Return a session for the site's current user; None if nobody is logged in at the site.

    Raises Forbidden for a user without a role or a deactivated one, and SiteError.
    """
    answer = site.ask()
    if not answer:
        return None
    if tenant.about()["suspended_at"]:
        raise Forbidden("this account is suspended", "tenant_suspended")
    if not answer.get("role"):
        raise Forbidden("your account of this site has no role here", "no_access")
    id, person = _person(answer)
    user = users.find_or_create_for_site(id, person)
    if not user.active:
        raise Forbidden("this user has no access any more", "no_access")
    links.record_entry(user.id)
    moment = now()
    # The role comes from the site, even where the last owner keeps that role in the database.
    # A negative id, because no stored session has one.
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
        return id, users.USER_IN.parse(
            {"name": name[:MAX_ID_CHARACTERS], "role": answer["role"], **reach}
        )
    except Invalid as error:
        names = ", ".join(fault.where.strip("/") for fault in error.faults)
        roles = ", ".join(users.ROLES)
        raise SiteError(f"current_user: {names} does not fit; a role is one of {roles}") from None


def _fitting(name: str, value: Any) -> str | None:
    try:
        return users.USER_IN.parse({"name": name, name: value})[name] if value else None
    except Invalid:
        return None
