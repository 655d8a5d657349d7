"""HTTP endpoints of inbound hooks and their calls; owners configure them in the workspace too."""

from typing import Any

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import fields, parameters, queries
from crm.records.columns import N_
from crm.records.queries import filter_of
from crm.resources.inbound import calls, hooks
from crm.resources.inbound.calls import CALL, LISTED_CALL
from crm.resources.inbound.hooks import HOOK, InboundHook

NEEDED = "Needs `inbound:write`, and the right to write what bodies become, such as `leads:write`."


class CallFilter(queries.Filter):
    state = parameters.Equals(fields.Choice(*calls.STATES))
    sort = parameters.Sort("-id")


InboundHookFilter = filter_of(InboundHook, queries.Filter, unsorted=("created_at", "updated_at"))

blueprint = Blueprint(
    "inbound", "Addresses that other programs send to, and what they sent.", N_("Inbound hooks")
)

endpoints = Endpoints(blueprint, "/inbound-hooks", HOOK)
endpoints.list(InboundHookFilter())
endpoints.create(
    hooks.create,
    f"Add a hook; `GET` of it has the `url` to send to.\n\n{NEEDED}",
    conflicts=True,
    example={"name": "Tilda", "target": "lead", "mapping": {"Name": "name", "Phone": "phone"}},
)
endpoints.get("Get one hook with its address.")
endpoints.change(
    hooks.update,
    f"Change the sent fields of a hook.\n\n{NEEDED}",
)
endpoints.delete(hooks.delete, "Delete a hook with its calls.")

Endpoints(blueprint, "/inbound-hooks/<id>/calls", LISTED_CALL).list(
    CallFilter(),
    "List what a hook was sent in the last 30 days, the newest first, without the bodies.",
    where=lambda id: ("hook_id = ?", (InboundHook.find(id).id,)),
)

inbound_calls = Endpoints(blueprint, "/inbound-calls", CALL)
inbound_calls.get("Get one call with its body.")
inbound_calls.delete(calls.delete, "Delete a call; the record made of it stays.")


@blueprint.operation("POST", "/inbound-calls/<id>/replay", response_view=CALL)
def replay_inbound_call(id: str) -> dict[str, Any]:
    """Run a call again by its hook's mapping of today; a record that it has made is changed.

    Needs `inbound:write`, and the right to write what bodies become, such as `leads:write`.
    """
    return CALL.one(calls.replay(id).id)
