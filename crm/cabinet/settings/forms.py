"""Website form: a key that may only create leads from named sites, in a form ready to be pasted.

The key is shown once, so the snippet of one that was made before has a place for it. A robot that
fills in the field that people don't see is answered like them, and no lead comes of it.
"""

from typing import Any

from flask import render_template, request
from werkzeug.wrappers import Response

from crm.access import api_keys, rights
from crm.cabinet.forms import Form
from crm.cabinet.frame import again, me
from crm.cabinet.languages import gettext
from crm.cabinet.settings.frame import api, pages, show
from crm.errors import Invalid, NotFound
from crm.resources.leads.record import TRAP

PATH = "/settings/forms"
PLACE = "YOUR_KEY"  # where the key of a form that was made before goes


@pages.get(PATH)
def list_forms(form: Form | None = None) -> Response:
    found = [key for key in api_keys.every() if key.state() == "live" and key.scopes == rights.FORM]
    first = {"name": gettext("Website form"), "fields": [*fields()], "thanks": thanks()}
    return show("forms.html", keys=found, form=form or Form(first), fields=fields())


@pages.post(PATH)
@again(lambda form: list_forms(form))
def add_form() -> Response:
    sent = request.form
    if not sent.get("origins", "").strip():
        raise Invalid.field("origins", "required", "name the site that the form is on")
    chosen = sent.getlist("fields")
    if not {"phone", "email"} & {*chosen}:
        raise Invalid.field("fields", "phone_or_email", "ask for a phone or an e-mail")
    _, secret = api_keys.create(
        sent.get("name", ""), rights.FORM, me().user_id, origins=sent["origins"]
    )
    made = snippet(secret, chosen, sent.get("thanks", "").strip() or thanks())
    return show("form_made.html", snippet=made, secret=secret, place="")


@pages.get(f"{PATH}/<id>")
def show_form(id: str) -> Response:
    key = api_keys.find(id)
    if key.scopes != rights.FORM:
        raise NotFound
    made = snippet(PLACE, [*fields()], thanks())
    return show("form_made.html", snippet=made, secret="", place=PLACE, key=key)


def snippet(secret: str, chosen: list[str], thank: str) -> str:
    """The HTML of a form that makes leads, for another site."""
    asked = {name: label for name, label in fields().items() if name in chosen}
    told: dict[str, Any] = {
        "fields": asked,
        "reach": next(name for name in ("phone", "email") if name in asked),
        "thanks": thank,
        "key": secret,
        "url": f"{api()}/leads",
        "trap": TRAP,
    }
    return render_template("settings/_snippet.html", **told)


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
