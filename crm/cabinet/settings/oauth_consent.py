"""OAuth 2.1 for hosted assistants: the page on which an owner lets one in (api/oauth.py)."""

from urllib.parse import urlencode, urlsplit

from flask import request
from werkzeug.wrappers import Response

from crm.access import api_keys, oauth_grants
from crm.api.oauth import AUTHORIZE, issuer
from crm.cabinet.app import current_app
from crm.cabinet.rendering import me
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid

SENT = ("client_id", "redirect_uri", "code_challenge", "state")
CHALLENGE_CHARACTERS = 43  # of a SHA-256 in base64


@pages.get(AUTHORIZE)
def ask_consent() -> Response:
    name, sent = _find_client()
    return show(
        "oauth.html",
        name=name,
        host=urlsplit(sent["redirect_uri"]).netloc,
        scopes=",".join(api_keys.ASSISTANT_SCOPES),
        days=api_keys.ASSISTANT_DAYS,
        sent=sent,
        declined=_back(sent, error="access_denied"),
    )


@pages.post(AUTHORIZE)
def accept_client() -> Response:
    name, sent = _find_client()
    *about, _ = sent.values()
    with identity.proven_change():
        code = oauth_grants.create_grant(name, me().user_id, *about)
    address = _back(sent, code=code)
    response = show("oauth_accepted.html", name=name, address=address)
    # No redirect: browsers let a form lead only to where `form-action` allows.
    response.headers["Refresh"] = f"0; url={address}"
    return response


def _find_client() -> tuple[str, dict[str, str]]:
    """The name of the client, and what it has sent.

    Raises Invalid: whoever has not registered an address gets no visitors.
    """
    sent = {name: request.values.get(name, "") for name in SENT}
    name = oauth_grants.find_client(current_app.secret_key, sent["client_id"], sent["redirect_uri"])
    if name is None:
        raise Invalid.field("client_id", "invalid_client", "this program has not registered here")
    is_s256 = request.values.get("code_challenge_method", "S256") == "S256"
    if not is_s256 or len(sent["code_challenge"]) != CHALLENGE_CHARACTERS:
        raise Invalid.field("code_challenge", "invalid_request", "must be of S256")
    return name, sent


def _back(sent: dict[str, str], **answer: str) -> str:
    """The address of the client with the answer (RFC 6749, 9207)."""
    uri = sent["redirect_uri"]
    query = urlencode({**answer, "state": sent["state"], "iss": issuer()})
    return f"{uri}{'&' if '?' in uri else '?'}{query}"
