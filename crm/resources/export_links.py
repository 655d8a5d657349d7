"""Export links: addresses that give one export as CSV without a header, as IMPORTDATA needs it.

A link is an API key that may do nothing else. It is shown once and stored as a hash. It is listed
and revoked among the keys, and it ends with the key that made it and with its user's access.
(spec: none; D12, D16)
"""

from typing import Any
from urllib.parse import urlencode

from flask import Response
from marshmallow import fields as ma
from werkzeug.datastructures import MultiDict

from crm.access import api_keys, rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import ok_answer
from crm.errors import Conflict, Invalid, NotFound, Unauthorized
from crm.json import dumps, loads
from crm.records import erasure, fields
from crm.records.parameters import Query
from crm.records.schemas import RecordSchema
from crm.resources import users
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.saved_views import ListQuery
from crm.spreadsheets.exporter import export_filter_of, export_response
from crm.spreadsheets.resource import find_resource
from crm.storage.session import current_session, now, settings, time_before, transaction
from crm.storage.sweeps import DAY_SECONDS

DEFAULT_DAYS, MAX_DAYS = 90, 366
MAX_LINKS = 100  # of a tenant, that are valid


class ExportLinkSchema(RecordSchema):
    """Which export an address gives, and until when."""

    resource = fields.Choice(*MAIN_RESOURCES, required=True)
    filters = ListQuery(
        example={"status": "won", "sort": "-amount"},
        about="Parameters of the export but `format`: `{name: text or list of texts}`.",
    )
    expires = fields.DateTime(
        about=f"By default after {DEFAULT_DAYS} days; at most {MAX_DAYS}, and not after its key."
    )


EXPORT_LINK = ok_answer(
    "ExportLinkCreated",
    export_link_id=ma.String,
    expires_at=ma.DateTime,
    url=ma.String(
        metadata={
            "description": "Shown only in this response; a replay is without it.",
            "examples": ["https://acme.crm.example.ua/export/crm_….csv"],
        }
    ),
)

blueprint = Blueprint("export-links", "Addresses that give one export without a key.")


# Which scope it needs, depends on the resource.
@blueprint.operation(
    "POST",
    "/export-links",
    needs=(),
    body=ExportLinkSchema.body("ExportLinkIn"),
    example={"resource": "deals", "filters": {"status": "won"}},
    status=201,
    answer=EXPORT_LINK,
    secret=True,
    conflicts=True,
)
def create_export_link(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], int]:
    """Make an address that gives the export of a resource with these filters.

    Needs the right to read the resource, such as `deals:read`. Whoever has the address gets the
    file, 60 times a minute; records of other resources are told by their ids alone. It is revoked
    among the API keys, or with the key that made it.
    """
    resource, filters = data["resource"], loads(data.get("filters") or "{}")
    rights.require([f"{resource}:read"])
    _read_filters(resource, filters)
    expires_at = data.get("expires") or time_before(-DEFAULT_DAYS * DAY_SECONDS)
    if not now() < expires_at <= time_before(-MAX_DAYS * DAY_SECONDS):
        raise Invalid.field("expires", "out_of_range", f"must be within the next {MAX_DAYS} days")
    session = current_session()
    if session.key_id is not None:
        expires_at = min(expires_at, api_keys.find(session.key_id).ends_at or expires_at)
    with transaction():
        if sum(key.state() == "live" for key in api_keys.list_export_links()) >= MAX_LINKS:
            raise Conflict(f"a tenant has at most {MAX_LINKS} export links", "too_many_links")
        id, token = api_keys.create(
            f"{resource}.csv?{urlencode(filters, doseq=True)}".rstrip("?")[:255],
            f"{resource}:read",
            session.user_id or users.owner_id(),
            expires_at=expires_at,
            export=dumps({"resource": resource, "filters": filters}).decode(),
            made_by=session.key_id,
            own=session.own_user_id is not None,
        )
    url = f"{settings().url_of(session.label)}/export/{token}.csv"
    body = {"status": "ok", "export_link_id": str(id), "expires_at": expires_at, "url": url}
    return body, {}, 201


def find_export(token: str) -> int:
    """Return the id of the valid link with this token, which acts in the session from now on.

    Raises NotFound, and Forbidden if the tenant is suspended.
    """
    try:
        return rights.authenticate(token, rights.FIND_EXPORT_LINK).key_id
    except Unauthorized:
        raise NotFound from None


def export(id: int) -> Response:
    """The file of the link, which find_export() has found."""
    link = loads(api_keys.find(id).export or "{}")
    query = _read_filters(link["resource"], link["filters"])
    # Spreadsheets open it, without anybody looking at it before.
    return export_response(find_resource(link["resource"]), query, rights.can_read, guards=True)


def _read_filters(resource: str, filters: dict[str, Any]) -> Query:
    """The query of the export. Raises Invalid."""
    if "format" in filters:
        raise Invalid.field("filters/format", "unknown_parameter", "an export link gives CSV")
    with Invalid.under("filters"):
        return export_filter_of(resource).read(MultiDict(filters))


def _erase_person(person: erasure.Person) -> int:
    """Revoke the links whose filters name a person, and forget the filters."""
    named = [key for key in api_keys.list_export_links() if person.is_named_in(key.export)]
    for key in named:
        key.revoke()
        api_keys.forget_export(key.id)
    return len(named)


erasure.register("export links", _erase_person, "api_key")
