"""HTTP endpoints of inbound hooks and their calls, and `POST /in/<token>`, where programs send.

A request to a hook is answered without Flask's contexts, as an operation of the API is, and with
200 only when it is stored. 404: no such hook; 413: beyond MAX_BODY_BYTES; 429: over 60 a minute and
hook; 403: a wrong signature.
"""

from functools import partial
from typing import Any

from flask import Flask, Request

from crm.api.blueprints import Blueprint, Endpoints, make_view
from crm.api.bodies import read_body
from crm.api.operations import JsonResponse
from crm.api.request_limits import Limiter
from crm.json import dumps
from crm.records import queries, verbs
from crm.records.columns import N_
from crm.resources.inbound import calls, hooks
from crm.resources.inbound.hooks import HOOK, PATH, InboundHook
from crm.storage.clocks import uptime
from crm.storage.session import current_session

NEEDED = "Needs `inbound:write`, and the right to write what bodies become, such as `leads:write`."

STORED = dumps({"status": "success"})  # the word that Binotel expects; others look at the 200 only


UNSORTED = ("created_at", "updated_at")

blueprint = Blueprint(
    "inbound", "Addresses that other programs send to, and what they sent.", N_("Inbound hooks")
)

endpoints = Endpoints(blueprint, "/inbound-hooks", HOOK)
endpoints.list(queries.filter_of(InboundHook, queries.Filter, unsorted=UNSORTED)())
endpoints.create(
    hooks.create,
    f"Add a hook; `GET` of it has the `url` to send to.\n\n{NEEDED}",
    conflicts=True,
    example={"name": "Tilda", "target": "lead", "mapping": {"Name": "name", "Phone": "phone"}},
)
endpoints.get("Get one hook with its address.")
endpoints.change(hooks.update, f"Change the sent fields of a hook.\n\n{NEEDED}")
endpoints.delete(partial(verbs.erase, InboundHook), "Delete a hook with its calls.")

Endpoints(blueprint, "/inbound-hooks/<id>/calls", calls.LISTED_CALL).list(
    queries.filter_of(calls.InboundCall, queries.Filter, unsorted=UNSORTED)(),
    "List what a hook was sent in the last 30 days, the newest first, without the bodies.",
    where=lambda id: ("hook_id = ?", (InboundHook.find(id).id,)),
)

inbound_calls = Endpoints(blueprint, "/inbound-calls", calls.CALL)
inbound_calls.get("Get one call with its body.")
inbound_calls.delete(
    partial(verbs.erase, calls.InboundCall), "Delete a call; the record made of it stays."
)


@blueprint.operation("POST", "/inbound-calls/<id>/replay", response_view=calls.CALL)
def replay_inbound_call(id: str) -> dict[str, Any]:
    """Run a call again by its hook's mapping of today; a record that it has made is changed.

    Needs `inbound:write`, and the right to write what bodies become, such as `leads:write`.
    """
    return calls.CALL.one(calls.replay(id).id)


def install(app: Flask, limiter: Limiter) -> None:
    """Add the route; calls are counted by the limiter."""

    def serve(sent: Request, tokens: list[str]) -> JsonResponse:
        session, hook = current_session(), hooks.find_by_token(tokens[0])
        limiter.count_inbound_call(session.label, hook.id, uptime())
        body = read_body(sent, calls.MAX_BODY_BYTES)
        hook.check_signature(sent.headers.get(hook.signature_header or "", ""), body)
        session.user_id, session.is_program = hook.user_id, True
        calls.receive(hook, body.decode("utf-8", "replace").replace("\0", "\ufffd"))
        return JsonResponse(STORED)

    view = make_view("receive_inbound_call", serve, max_body_bytes=calls.MAX_BODY_BYTES)
    app.add_url_rule(f"{PATH}/<token>", view_func=view, methods=["POST"])
