"""The Model Context Protocol at `POST /api/v1/mcp`: assistants work with the API by a few tools.

It is stateless, as the protocol of 2026-07-28 is: one POST, one JSON answer, no session. Clients of
older protocols begin by `initialize`, of which nothing is remembered. Key and limit are checked as
for any request (admission.py); mcp_tools.py has the tools. An error of a tool is a result with the
problem, which an assistant can read; a request that is not of the protocol is an error of JSON-RPC.
"""

from typing import Any

from flask import Blueprint, Flask, Request, Response, request

from crm.access import rights
from crm.api import oauth, problems
from crm.api.mcp_tools import DATA, TOOLS, Answer, ToolRunner
from crm.api.operations import JSON, PREFIX, read_json_body
from crm.json import dumps

STATELESS = "2026-07-28"
BY_HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26")
VERSIONS = (STATELESS, *BY_HANDSHAKE)
IN_META = "io.modelcontextprotocol/"  # begins the keys of the protocol in `_meta`
INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
SERVER = {"name": "crm", "version": "v1"}
ABOUT = {"capabilities": {"tools": {}}, "instructions": f"A CRM. {DATA}"}
CACHED = {"ttlMs": 3_600_000, "cacheScope": "private"}
COMPLETE = {"resultType": "complete"}
DISCOVERED = {
    "supportedVersions": [*VERSIONS],
    "_meta": {f"{IN_META}serverInfo": SERVER},
    **ABOUT,
    **CACHED,
    **COMPLETE,
}


class RpcError(Exception):
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str, **data: Any):
        super().__init__(message)
        self.code = code
        self.body = {"code": code, "message": message, **({"data": data} if data else {})}


def install(app: Flask) -> None:
    """Serve the protocol; `app` finds the operations that the tools reach."""
    blueprint = Blueprint("mcp", __name__, url_prefix=PREFIX)

    @blueprint.post("/mcp")
    def answer_message() -> Response:
        return _answer(app, request)

    @blueprint.after_request
    def name_metadata(response: Response) -> Response:
        """Hosted assistants begin by a request without a key, and find OAuth by its refusal."""
        if response.status_code == 401:
            url = f"{oauth.issuer()}{oauth.RESOURCE_METADATA}"
            response.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{url}"'
        return response

    app.register_blueprint(blueprint)


def _answer(app: Any, mcp_request: Request) -> Response:
    readable = {name: f"{name}:read" for name in rights.RESOURCES}
    rights.require_any(readable, "a key for assistants needs a right to read")  # not of forms
    message = read_json_body(mcp_request)
    version = mcp_request.headers.get("MCP-Protocol-Version", BY_HANDSHAKE[-1])
    status = 200
    try:
        _check_message(message)
        _check_version(message, version, mcp_request)
        if "id" not in message:  # a notification
            response = Response(status=202)
            del response.headers["Content-Type"]
            return response
        result = _run(app, mcp_request, message["method"], message.get("params") or {})
        if version == STATELESS:  # clients of older protocols may refuse keys that theirs lacks
            cached = CACHED if message["method"] == "tools/list" else {}
            result = {**COMPLETE, **cached, **result}
        body = {"result": result}
    except RpcError as error:
        body = {"error": error.body}
        # Clients by handshake take any other status for the end of the connection.
        if version not in BY_HANDSHAKE or error.code == INVALID_REQUEST:
            status = 404 if error.code == METHOD_NOT_FOUND else 400
    id = message.get("id") if isinstance(message, dict) else None
    return Response(dumps({"jsonrpc": "2.0", "id": id, **body}), status, mimetype=JSON)


def _check_message(message: Any) -> None:
    """Raise RpcError unless it is one request or notification of JSON-RPC."""
    if not (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("params", {}), dict)
        and type(message.get("id", 0)) in (int, str)
    ):
        raise RpcError(INVALID_REQUEST, "send one request or notification of JSON-RPC 2.0")


def _check_version(message: dict[str, Any], version: str, mcp_request: Request) -> None:
    """Raise RpcError for a version that is not served, and for headers that differ from the body.

    Proxies decide by the headers of a stateless request, so both must say the same.
    """
    if version not in VERSIONS:
        known = {"supported": [*VERSIONS], "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "this version of the protocol is not served", **known)
    if version == STATELESS and "id" in message:
        params, headers = message.get("params", {}), mcp_request.headers
        meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
        sent = meta.get(f"{IN_META}protocolVersion"), message["method"], params.get("name")
        if sent != (version, headers.get("Mcp-Method"), headers.get("Mcp-Name")):
            raise RpcError(HEADER_MISMATCH, "the headers of the protocol differ from the body")


def _run(app: Any, mcp_request: Request, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request. Raises RpcError."""
    match method:
        case "initialize":
            wanted = params.get("protocolVersion")
            version = wanted if wanted in BY_HANDSHAKE else BY_HANDSHAKE[0]
            return {"protocolVersion": version, "serverInfo": SERVER, **ABOUT}
        case "server/discover":
            return DISCOVERED
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [*TOOLS.values()]}
        case "tools/call":
            return _call(app, mcp_request, params)
    raise RpcError(METHOD_NOT_FOUND, "there is no such method")


def _call(app: Any, mcp_request: Request, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool. Raises RpcError for one that there is not."""
    name, arguments = params.get("name"), params.get("arguments") or {}
    if name not in [*TOOLS] or not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "there is no such tool, or its arguments are no object")
    try:
        answer = ToolRunner(app, mcp_request.environ).call(name, arguments)
    except Exception as error:
        answer = Answer.of(problems.answer(error, mcp_request))
    is_error = answer.status >= 400
    result = answer.body if is_error else {"about": DATA, "result": answer.body}
    text = {"type": "text", "text": dumps(result).decode()}
    return {"content": [text], "isError": is_error}
