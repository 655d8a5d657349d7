"""Files that visitors send with a website form: `POST /leads/files`.

A form takes some if its maker said so. Its script sends the lead first, and then each file with the
`Idempotency-Key` of the lead, which nobody else knows: so a visitor reaches no other lead.
"""

from typing import Any

from flask import Request

from crm.access import api_keys
from crm.api import idempotency
from crm.api.bodies import MAX_ENVELOPE_BYTES, uploaded_file
from crm.errors import Forbidden, Invalid, NotFound
from crm.json import loads
from crm.records import fields, parameters, queries
from crm.records.record import require_live
from crm.resources.files import record as files
from crm.resources.files.endpoints import blueprint
from crm.storage.session import current_session, one_row

FILES = "files"  # among the fields of a form: that it takes some
MAX_FORM_FILES = 5  # of a lead
MAX_FORM_FILE_BYTES = 10 << 20


class FormParts(queries.Filter):
    lead_key = parameters.Option(fields.Text(255), "The `Idempotency-Key` of the lead.")


class FormFileStorer:
    """Stores a file of a form, before any transaction: the operation's `upload`."""

    filter, parts = FormParts(only=("lead_key",)), ("lead_key",)

    def __call__(self, request: Request) -> tuple[int, dict[str, Any]]:
        """The id of the lead, and what files.attach() takes.

        Raises Forbidden `form_takes_no_files`, NotFound for another key than that of a lead of the
        last day, Invalid `too_many_files`, and what uploaded_file() and files.store() do.
        """
        key_id = current_session().key_id
        key = None if key_id is None else api_keys.find(key_id)
        if key is None or FILES not in loads(key.form_fields or "[]"):
            raise Forbidden("this form takes no files", "form_takes_no_files")
        upload = uploaded_file(request, "file", MAX_FORM_FILE_BYTES, self.parts)
        path = request.path.removesuffix("/files")
        lead_key = upload.texts.get("lead_key", "")
        sent = idempotency.find_response((lead_key, "POST", path, key_id))
        if sent is None:
            raise NotFound
        lead_id = int(loads(sent[1].get_data())["lead_id"])
        require_live("lead", lead_id)
        # But that which is sent again, because its answer was lost.
        others = f"SELECT count(*) FROM file WHERE {files.LIVE} AND name <> ?"
        of_lead = ("lead", lead_id, files.clean(upload.name or ""))
        if one_row(others, of_lead)[0] >= MAX_FORM_FILES:
            raise Invalid.field("file", "too_many_files", f"at most {MAX_FORM_FILES} files")
        return lead_id, files.store(upload.file, upload.name, upload.content_type)


@blueprint.operation(
    "POST",
    "/leads/files",
    needs=("leads:create",),
    upload=FormFileStorer(),
    max_body_bytes=MAX_FORM_FILE_BYTES + MAX_ENVELOPE_BYTES,
    kind="empty",
    status=204,
)
def add_form_file(sent: tuple[int, dict[str, Any]]) -> None:
    """Add a file to the lead that this website form has just sent."""
    files.attach_once("lead", *sent, MAX_FORM_FILES)
