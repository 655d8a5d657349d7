"""Website form: a key that may only create leads from named sites, in a form ready to be pasted.

The key is shown once, so the snippet of one that was made before has a place for it. A robot that
fills in the field that people don't see is answered like them, and no lead comes of it. Each form
names a source of its own, which distinguishes the leads of two forms.
"""

from itertools import chain, count

from flask import render_template, request
from werkzeug.wrappers import Response

from crm.access import api_keys, rights
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records.record_fields import kind_of
from crm.cabinet.rendering import me
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import api, pages, show
from crm.errors import Invalid, NotFound
from crm.json import dumps, loads
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import CustomField
from crm.resources.files.form_files import FILES, MAX_FORM_FILE_BYTES, MAX_FORM_FILES
from crm.resources.leads.record import HONEYPOT, LEAD_PATCH
from crm.values.folding import fold

PATH = "/settings/forms"
SOURCE = "site-form"  # of the first form, and of those made before each had its own
KEY_PLACEHOLDER = "YOUR_KEY"  # in a snippet whose key was shown before


@pages.get(PATH)
def list_forms(form: Form | None = None) -> Response:
    first = {"name": gettext("Website form"), "fields": [*fields()], "thanks": thanks()}
    form = form or Form(first | {"source": _free_source()})
    every = fields() | {name: field.label for name, field in _own_fields().items()}
    every[FILES] = gettext("Files")
    return show("forms.html", keys=_live_forms(), form=form, fields=every, usual=SOURCE)


@pages.post(PATH, page=list_forms, once=True)
def add_form() -> Response:
    form = request.form
    name, origins = form.get("name", ""), form.get("origins", "")
    if not origins.strip():
        raise Invalid.field("origins", "required", "name the site that the form is on")
    chosen = form.getlist("fields")
    if not {"phone", "email"} & {*chosen}:
        raise Invalid.field("fields", "phone_or_email", "ask for a phone or an e-mail")
    source = load_form(LEAD_PATCH, ("source",))["source"] or _free_source()
    with identity.proven_change():
        if fold(source) in [fold(key.source or SOURCE) for key in _live_forms()]:
            raise Invalid.field("source", "duplicate_source", "another form has this source")
        _, secret = api_keys.create(
            *(name, rights.FORM_SCOPE, me().user_id),
            origins=origins,
            source=source,
            form_fields=dumps([one for one in (*_own_fields(), FILES) if one in chosen]).decode(),
        )
    html = snippet(secret, source, chosen, form.get("thanks", "").strip() or thanks())
    return show("form_made.html", snippet=html, secret=secret)


@pages.get(f"{PATH}/<id>")
def show_form(id: str) -> Response:
    key = api_keys.find(id)
    if key.scopes != rights.FORM_SCOPE:
        raise NotFound
    chosen = [*fields(), *loads(key.form_fields or "[]")]
    html = snippet(KEY_PLACEHOLDER, key.source or SOURCE, chosen, thanks())
    return show("form_made.html", snippet=html, secret="", place=KEY_PLACEHOLDER, key=key)


def _forms() -> list[api_keys.ApiKey]:
    """All forms, revoked ones too."""
    return [key for key in api_keys.list_all() if key.scopes == rights.FORM_SCOPE]


def _live_forms() -> list[api_keys.ApiKey]:
    return [key for key in _forms() if key.state() == "live"]


def _free_source() -> str:
    """`site-form`, or the first of `site-form-2` and so on that no form had yet."""
    # Revoked forms count too: their leads would be mixed with those of the new form.
    used_sources = {key.source or SOURCE for key in _forms()}
    sources = chain([SOURCE], (f"{SOURCE}-{number}" for number in count(2)))
    return next(source for source in sources if source not in used_sources)


def snippet(secret: str, source: str, chosen: list[str], thank: str) -> str:
    """The HTML of a form that makes leads, for another site."""
    labels = {name: label for name, label in fields().items() if name in chosen}
    return render_template(
        "settings/_snippet.html",
        fields=labels,
        own_fields=[
            (field, kind_of(field.wire)) for name, field in _own_fields().items() if name in chosen
        ],
        max_files=MAX_FORM_FILES if FILES in chosen else 0,
        max_bytes=MAX_FORM_FILE_BYTES,
        reach=next(name for name in ("phone", "email") if name in labels),
        thanks=thank,
        key=secret,
        source=source,
        url=f"{api()}/leads",
        trap=HONEYPOT,
    )


def _own_fields() -> dict[str, CustomField]:
    """The tenant's own fields that a form may have: records and users are not for visitors."""
    every = custom_fields.of("leads").values()
    return {field.name: field for field in every if not field.references}


def fields() -> dict[str, str]:
    """Return the declared fields that a form may have besides the name, with their labels."""
    return {
        "phone": gettext("Phone"),
        "email": gettext("E-mail"),
        "company": gettext("Company"),
        "comment": gettext("Comment"),
    }


def thanks() -> str:
    return gettext("Thank you! We will be in touch soon.")
