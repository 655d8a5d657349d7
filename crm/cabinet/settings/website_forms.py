"""Website form: a key that may only create leads from named sites, in a form ready to be pasted.

The key is shown once, so the snippet of one that was made before has a place for it. A robot that
fills in the field that people don't see is answered like them, and no lead comes of it. Each form
names a source of its own, which distinguishes the leads of two forms.
"""

from functools import partial
from itertools import chain, count

from flask import render_template, request
from werkzeug.wrappers import Response

from crm import values
from crm.access import api_keys, rights
from crm.access.api_keys import ApiKey
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import me, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import api, pages, show
from crm.errors import Invalid, NotFound
from crm.resources.leads.record import HONEYPOT
from crm.values.folding import fold

PATH = "/settings/forms"
SOURCE = "site-form"  # of the first form, and of those made before each had its own
MAX_SOURCE_CHARACTERS = 64  # D2
KEY_PLACEHOLDER = "YOUR_KEY"  # in a snippet whose key was shown before


@pages.get(PATH)
def list_forms(form: Form | None = None) -> Response:
    first = {"name": gettext("Website form"), "fields": [*fields()], "thanks": thanks()}
    form = form or Form(first | {"source": _free_source()})
    return show("forms.html", keys=_live_forms(), form=form, fields=fields(), usual=SOURCE)


@pages.post(PATH, page=list_forms, once=True)
def add_form() -> Response:
    form = request.form
    if not form.get("origins", "").strip():
        raise Invalid.field("origins", "required", "name the site that the form is on")
    chosen = form.getlist("fields")
    if not {"phone", "email"} & {*chosen}:
        raise Invalid.field("fields", "phone_or_email", "ask for a phone or an e-mail")
    source = _read_source()
    with identity.proven_change():
        _, secret = api_keys.create(
            form.get("name", ""),
            rights.FORM_SCOPE,
            me().user_id,
            origins=form["origins"],
            source=source,
            before=partial(_require_own_source, source),
        )
    html = snippet(secret, source, chosen, form.get("thanks", "").strip() or thanks())
    return show("form_made.html", snippet=html, secret=secret, place="", source=source)


@pages.get(f"{PATH}/<id>")
def show_form(id: str, form: Form | None = None) -> Response:
    key = _find_form(id)
    source = _source_of(key)
    html = snippet(KEY_PLACEHOLDER, source, [*fields()], thanks())
    form = form or Form({"source": source})
    return show(
        "form_made.html", snippet=html, secret="", place=KEY_PLACEHOLDER, key=key, form=form
    )


@pages.post(f"{PATH}/<id>", page=show_form)
def change_source(id: str) -> Response:
    key = _find_form(id)
    source = _read_source(key)
    api_keys.set_source(key.id, source, before=partial(_require_own_source, source, key))
    text = gettext(
        "Saved. Put the form below into your site again: the one there names the old source."
    )
    return see_other(f"{PATH}/{id}", text)


def _forms() -> list[ApiKey]:
    """All forms, revoked ones too."""
    return [key for key in api_keys.list_all() if key.scopes == rights.FORM_SCOPE]


def _live_forms() -> list[ApiKey]:
    return [key for key in _forms() if key.state() == "live"]


def _source_of(form_key: ApiKey) -> str:
    return form_key.source or SOURCE


def _find_form(id: str) -> ApiKey:
    key = api_keys.find(id)
    if key.scopes != rights.FORM_SCOPE:
        raise NotFound
    return key


def _read_source(form_key: ApiKey | None = None) -> str:
    """Return the source that was sent; raises Invalid if another form than `form_key` has it.

    A form that was made before each had a source of its own keeps the common one.
    """
    sent = request.form.get("source", "")
    try:
        source = values.one_line(sent, MAX_SOURCE_CHARACTERS) or _free_source()
    except values.InvalidValue as invalid:
        raise Invalid.field("source", invalid.code, invalid.detail) from None
    _require_own_source(source, form_key)
    return source


def _require_own_source(source: str, form_key: ApiKey | None = None) -> None:
    """Raise Invalid when another form has this source, unless the form `form_key` had it before."""
    is_kept = form_key is not None and fold(source) == fold(_source_of(form_key))
    if not is_kept and fold(source) in (fold(_source_of(form)) for form in _live_forms()):
        raise Invalid.field("source", "duplicate_source", "another form has this source")


def _free_source() -> str:
    """`site-form`, or the first of `site-form-2` and so on that no form had yet."""
    # Revoked forms count too: their leads would be mixed with those of the new form.
    used_sources = {*map(_source_of, _forms())}
    sources = chain([SOURCE], (f"{SOURCE}-{number}" for number in count(2)))
    return next(source for source in sources if source not in used_sources)


def snippet(secret: str, source: str, chosen: list[str], thank: str) -> str:
    """The HTML of a form that makes leads, for another site."""
    labels = {name: label for name, label in fields().items() if name in chosen}
    return render_template(
        "settings/_snippet.html",
        fields=labels,
        reach=next(name for name in ("phone", "email") if name in labels),
        thanks=thank,
        key=secret,
        source=source,
        url=f"{api()}/leads",
        trap=HONEYPOT,
    )


def fields() -> dict[str, str]:
    """Return the fields that a form may have besides the name, with their labels."""
    return {
        "phone": gettext("Phone"),
        "email": gettext("E-mail"),
        "company": gettext("Company"),
        "comment": gettext("Comment"),
    }


def thanks() -> str:
    return gettext("Thank you! We will be in touch soon.")
