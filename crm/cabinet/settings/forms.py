"""Website form: a key that may only create leads from named sites, in a form ready to be pasted.

The key is shown once, so the snippet of one that was made before has a place for it. A robot that
fills in the field that people don't see is answered like them, and no lead comes of it. Each form
names a source of its own, by which leads of two forms are told apart.
"""

from itertools import count, islice
from typing import Any

from flask import render_template, request
from werkzeug.wrappers import Response

from crm import values
from crm.access import api_keys, rights
from crm.access.api_keys import ApiKey
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import again, me, onward, told
from crm.cabinet.settings.sections import api, pages, show
from crm.errors import Invalid, NotFound
from crm.resources.leads.record import TRAP
from crm.tenancy.database import transaction

PATH = "/settings/forms"
SOURCE = "site-form"  # of the first form, and of those made before each had its own
LONGEST_SOURCE = 64  # characters (D2)
PLACE = "YOUR_KEY"  # where the key of a form that was made before goes


@pages.get(PATH)
def list_forms(form: Form | None = None) -> Response:
    first = {"name": gettext("Website form"), "fields": [*fields()], "thanks": thanks()}
    form = form or Form(first | {"source": _free_source()})
    return show("forms.html", keys=_forms(), form=form, fields=fields(), usual=SOURCE)


@pages.post(PATH)
@again(lambda form: list_forms(form))
def add_form() -> Response:
    sent = request.form
    if not sent.get("origins", "").strip():
        raise Invalid.field("origins", "required", "name the site that the form is on")
    chosen = sent.getlist("fields")
    if not {"phone", "email"} & {*chosen}:
        raise Invalid.field("fields", "phone_or_email", "ask for a phone or an e-mail")
    with transaction():
        source = _sent_source()
        _, secret = api_keys.create(
            sent.get("name", ""),
            rights.FORM_SCOPE,
            me().user_id,
            origins=sent["origins"],
            source=source,
        )
    made = snippet(secret, source, chosen, sent.get("thanks", "").strip() or thanks())
    return show("form_made.html", snippet=made, secret=secret, place="", source=source)


@pages.get(f"{PATH}/<id>")
def show_form(id: str, form: Form | None = None) -> Response:
    key = _find_form(id)
    source = key.source or SOURCE
    made = snippet(PLACE, source, [*fields()], thanks())
    form = form or Form({"source": source})
    return show("form_made.html", snippet=made, secret="", place=PLACE, key=key, form=form)


@pages.post(f"{PATH}/<id>")
@again(lambda form, id: show_form(id, form))
def change_source(id: str) -> Response:
    key = _find_form(id)
    with transaction():
        api_keys.set_source(key.id, _sent_source(key))
    told(
        gettext(
            "Saved. Put the form below into your site again: the one there names the old source."
        )
    )
    return onward(f"{PATH}/{id}")


def _forms() -> list[ApiKey]:
    return [
        key
        for key in api_keys.list_all()
        if key.state() == "live" and key.scopes == rights.FORM_SCOPE
    ]


def _find_form(id: str) -> ApiKey:
    key = api_keys.find(id)
    if key.scopes != rights.FORM_SCOPE:
        raise NotFound
    return key


def _sent_source(own: ApiKey | None = None) -> str:
    """The source as it was sent, for that form; raises Invalid unless it is its alone.

    A form that was made before sources were told apart keeps the one of all of them.
    """
    try:
        source = values.one_line(request.form.get("source", ""), LONGEST_SOURCE) or _free_source()
    except values.InvalidValue as unfit:
        raise Invalid.field("source", unfit.code, unfit.detail) from None
    others = {key.source or SOURCE for key in _forms() if own is None or key.id != own.id}
    if source in others and source != (own and (own.source or SOURCE)):
        raise Invalid.field("source", "duplicate_source", "another form has this source")
    return source


def _free_source() -> str:
    """`site-form`, or the first of `site-form-2` and so on that no form had yet."""
    taken = {key.source or SOURCE for key in api_keys.list_all() if key.scopes == rights.FORM_SCOPE}
    numbered = (f"{SOURCE}-{number}" for number in count(2))
    return next(each for each in (SOURCE, *islice(numbered, len(taken))) if each not in taken)


def snippet(secret: str, source: str, chosen: list[str], thank: str) -> str:
    """The HTML of a form that makes leads, for another site."""
    asked = {name: label for name, label in fields().items() if name in chosen}
    shown: dict[str, Any] = {
        "fields": asked,
        "reach": next(name for name in ("phone", "email") if name in asked),
        "thanks": thank,
        "key": secret,
        "source": source,
        "url": f"{api()}/leads",
        "trap": TRAP,
    }
    return render_template("settings/_snippet.html", **shown)


def fields() -> dict[str, str]:
    """What a form may ask for besides the name, and what it is called."""
    return {
        "phone": gettext("Phone"),
        "email": gettext("E-mail"),
        "company": gettext("Company"),
        "comment": gettext("Comment"),
    }


def thanks() -> str:
    return gettext("Thank you! We will be in touch soon.")
