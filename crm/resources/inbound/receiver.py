"""`POST /in/<token>`: where other programs send bodies of JSON or a form to an inbound hook.

A request is answered without Flask's contexts, as an operation of the API is, and with 200 only
when it is stored. 404: no such hook; 413: beyond MAX_BODY_BYTES; 429: over 60 a minute and hook;
403: a wrong signature.
"""

from typing import Any

from flask import Flask, Request, request

from crm.api.bodies import read_body
from crm.api.operations import JsonResponse
from crm.api.request_limits import Limiter
from crm.json import dumps
from crm.resources.inbound import calls, hooks
from crm.resources.inbound.calls import MAX_BODY_BYTES
from crm.resources.inbound.hooks import PATH
from crm.storage.clocks import uptime
from crm.storage.session import current_session

STORED = dumps({"status": "success"})  # the word that Binotel expects; others look at the 200 only


def install(app: Flask, limiter: Limiter) -> None:
    """Add the route; calls are counted by the limiter."""

    def serve(sent: Request, tokens: list[str]) -> JsonResponse:
        session, hook = current_session(), hooks.find_by_token(tokens[0])
        limiter.count_inbound_call(session.label, hook.id, uptime())
        body = read_body(sent, MAX_BODY_BYTES)
        hook.check_signature(sent.headers.get(hook.signature_header or "", ""), body)
        session.user_id, session.is_program = hook.user_id, True
        calls.receive(hook, body.decode("utf-8", "replace").replace("\0", "\ufffd"))
        return JsonResponse(STORED)

    def receive_inbound_call(token: str) -> JsonResponse:
        return serve(request._get_current_object(), [token])  # type: ignore[attr-defined]

    view: Any = receive_inbound_call
    view.serve, view.max_body_bytes = serve, MAX_BODY_BYTES
    app.add_url_rule(f"{PATH}/<token>", view_func=view, methods=["POST"])
