"""HTTP endpoints of inbound hooks and their calls, and `POST /in/<token>`, where programs send.

A request to a hook is answered without Flask's contexts, as an operation of the API is, and with
200 only when it is stored. 404: no such hook; 413: beyond MAX_BODY_BYTES, or MAX_BYTES_WITH_FILES;
429: over 60 a minute and hook; 403: a wrong signature.
"""

from functools import partial
from typing import Any
from urllib.parse import urlencode

from flask import Flask, Request

from crm.api.blueprints import Blueprint, Endpoints, make_view
from crm.api.bodies import InMemory, read_body
from crm.api.operations import JsonResponse
from crm.api.request_limits import Limiter
from crm.errors import TooLarge
from crm.json import dumps
from crm.records import queries, verbs
from crm.records.columns import N_
from crm.resources.files import record as files
from crm.resources.inbound import calls, hooks
from crm.resources.inbound.hooks import HOOK, PATH, InboundHook
from crm.storage.clocks import uptime
from crm.storage.session import current_session

NEEDED = "Needs `inbound:write`, and the right to write what bodies become, such as `leads:write`."

MAX_FILES, MAX_BYTES_WITH_FILES = 5, 10 << 20
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
        has_files = hook.takes_files and sent.mimetype == "multipart/form-data"
        body = read_body(sent, MAX_BYTES_WITH_FILES if has_files else calls.MAX_BODY_BYTES)
        hook.check_signature(sent.headers.get(hook.signature_header or "", ""), body)
        session.user_id, session.is_program = hook.user_id, True
        body, stored = _take_files(sent) if has_files else (body, [])
        calls.receive(hook, body.decode("utf-8", "replace").replace("\0", "\ufffd"), stored)
        return JsonResponse(STORED)

    view = make_view("receive_inbound_call", serve, max_body_bytes=MAX_BYTES_WITH_FILES)
    app.add_url_rule(f"{PATH}/<token>", view_func=view, methods=["POST"])


def _take_files(sent: Request) -> tuple[bytes, list[dict[str, Any]]]:
    """The texts of a multipart body, as a form, and its files, stored; raises TooLarge."""
    sent.form_data_parser_class = InMemory
    body = urlencode([*sent.form.items(multi=True)]).encode()
    every = [part for _, part in sent.files.items(multi=True)]
    parts = [part for part in every if part.filename and part.read(1)]  # not an empty input
    if len(body) > calls.MAX_BODY_BYTES or len(parts) > MAX_FILES:
        raise TooLarge(f"at most {calls.MAX_BODY_BYTES} bytes of texts and {MAX_FILES} files")
    return body, [
        files.store(part.stream, part.filename, part.content_type or "") for part in parts
    ]
