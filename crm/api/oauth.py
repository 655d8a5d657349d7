"""OAuth 2.1 for hosted assistants, as far as programs ask: metadata, registration and tokens.

RFC 9728 and RFC 8414 say where everything is, RFC 7591 how a client registers. The page on which an
owner lets a client in is cabinet/settings/oauth_consent.py, the rules are access/oauth_grants.py.
"""

from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, request

from crm.access import api_keys, oauth_grants
from crm.api.bodies import read_body
from crm.api.operations import JSON, PREFIX, read_json_body
from crm.errors import Invalid, NotFound
from crm.json import dumps
from crm.storage.clocks import uptime
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.session import current_session

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZE, TOKEN, REGISTER = "/oauth/authorize", "/oauth/token", "/oauth/register"
GRANT_TYPES = ["authorization_code", "refresh_token"]
MAX_FORM_BYTES = 1 << 14


def install(app: Any) -> None:
    """Serve the endpoints of programs at tenants' hosts; `app` is a CRMApp."""
    blueprint = Blueprint("oauth", __name__)

    @blueprint.before_request
    def count_request() -> None:
        label = current_session().label
        if label == BASE_HOST_FILE:
            raise NotFound
        app.limiter.count_page(label, None, request.remote_addr or "", uptime())

    @blueprint.get(RESOURCE_METADATA)
    @blueprint.get(f"{RESOURCE_METADATA}{PREFIX}/mcp")
    def describe_resource() -> Response:
        resource = {"resource": f"{issuer()}{PREFIX}/mcp", "bearer_methods_supported": ["header"]}
        return _answer({**resource, "authorization_servers": [issuer()]})

    @blueprint.get(SERVER_METADATA)
    def describe_server() -> Response:
        root = issuer()
        return _answer(
            {
                "issuer": root,
                "authorization_endpoint": f"{root}{AUTHORIZE}",
                "token_endpoint": f"{root}{TOKEN}",
                "registration_endpoint": f"{root}{REGISTER}",
                "response_types_supported": ["code"],
                "grant_types_supported": GRANT_TYPES,
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    @blueprint.post(REGISTER)
    def register_client() -> Response:
        sent = read_json_body(request)
        sent = sent if isinstance(sent, dict) else {}
        about = {name: sent.get(name) for name in ("client_name", "redirect_uris")}
        try:
            id = oauth_grants.register_client(app.secret_key, *about.values())
        except Invalid as error:
            (fault,) = error.faults
            return _refuse(fault.code, fault.detail)
        about |= {"grant_types": GRANT_TYPES, "token_endpoint_auth_method": "none"}
        return _answer({"client_id": id, **about}, 201)

    @blueprint.post(TOKEN)
    def issue_tokens() -> Response:
        sent = dict(parse_qsl(read_body(request, MAX_FORM_BYTES).decode("utf-8", "replace")))
        client = [sent.get(name, "") for name in ("client_id", "redirect_uri", "code_verifier")]
        match sent.get("grant_type"):
            case "authorization_code":
                issued = oauth_grants.exchange_code(sent.get("code", ""), *client)
            case "refresh_token":
                issued = oauth_grants.refresh(sent.get("refresh_token", ""), client[0])
            case _:
                return _refuse("unsupported_grant_type", "see the grant types of the metadata")
        if issued is None:
            return _refuse("invalid_grant", "this has ended, was used, or is of another client")
        tokens = dict(zip(("access_token", "refresh_token"), issued, strict=True))
        scopes = " ".join(api_keys.ASSISTANT_SCOPES)
        expiry = {"token_type": "Bearer", "expires_in": oauth_grants.KEY_SECONDS}
        return _answer({**tokens, **expiry, "scope": scopes})

    app.register_blueprint(blueprint)


def issuer() -> str:
    """The address of the tenant as the client has written it, which names the server."""
    return request.url_root.rstrip("/")


def _answer(body: dict[str, Any], status: int = 200) -> Response:
    return Response(dumps(body), status, mimetype=JSON)


def _refuse(code: str, detail: str) -> Response:
    return _answer({"error": code, "error_description": detail}, 400)
