"""API keys (D12): made with the rights that a program needs, shown once, revoked at once."""

from flask import request
from werkzeug.wrappers import Response

from crm import values
from crm.access import api_keys, rights
from crm.cabinet import formatting
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import confirmed, me, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import api, pages, show
from crm.errors import Invalid
from crm.storage.session import now

PATH = "/settings/api-keys"


@pages.get(PATH)
def list_keys() -> Response:
    keys = sorted(api_keys.list_all(), key=lambda key: (key.state() != "live", -key.id))
    return show("api_keys.html", keys=keys)


@pages.get(f"{PATH}/new")
def new_key(form: Form | None = None) -> Response:
    preset = request.values.get("preset", "")
    name, scopes = presets().get(preset, ("", []))
    is_assistant = preset == rights.ASSISTANT
    expires_on = f"{formatting.local(api_keys.assistant_expiry()).date()}" if is_assistant else ""
    return show(
        "api_key_new.html",
        form=form or Form({"name": name, "scopes": scopes, "expires_on": expires_on}),
        preset=preset,
        presets=presets(),
        nouns=[(noun, gettext(label)) for noun, label in rights.RESOURCES.items()],
        rights=rights,
    )


@pages.post(PATH, page=new_key, once=True)
def add_key() -> Response:
    form = request.form
    scopes = ",".join(form.getlist("scopes"))
    expires_at = _end_of(form.get("expires_on", "").strip())
    preset = rights.ASSISTANT if form.get("preset") == rights.ASSISTANT else None
    with identity.proven_change():
        _, secret = api_keys.create(
            form.get("name", ""),
            scopes,
            me().user_id,
            expires_at=expires_at,
            preset=preset,
            own="own" in form,
        )
    curl = f'curl -H "Authorization: Bearer {secret}" "{api()}/users/me"'
    # No redirect: this response is the only one that has the key.
    return show("api_key_made.html", secret=secret, curl=curl)


@pages.post(f"{PATH}/<id>/revoke")
def revoke_key(id: str) -> Response:
    key = api_keys.find(id)
    with confirmed(
        gettext("Revoke the key “%(name)s”?", name=key.name),
        gettext("Revoke"),
        PATH,
        gettext("Programs that use it are refused at once. It cannot be made valid again."),
    ):
        key.revoke()
    return see_other(PATH, gettext("Key revoked"))


def presets() -> dict[str, tuple[str, list[str]]]:
    """Return {preset: (name, scopes)} for common uses of keys; forms have their own page."""
    return {
        rights.ASSISTANT: (gettext("Assistant"), [*api_keys.ASSISTANT_SCOPES]),
        "price": (gettext("Price list"), ["products:read", "products:write"]),
        "read": (gettext("Read only"), [f"{noun}:read" for noun in rights.RESOURCES]),
        "full": (gettext("Full access"), [rights.ALL_SCOPES]),
    }


def _end_of(day: str) -> str | None:
    """Return the end of a day of the tenant's time zone, in UTC as times are stored."""
    if not day:
        return None
    try:
        moment = min(values.midnight(day, formatting.time_zone(), at_end=True), values.LAST)
    except values.InvalidValue:
        raise Invalid.field("expires_on", "invalid_date", "must be a date") from None
    if moment <= now():
        raise Invalid.field("expires_on", "in_the_past", "must not be over already")
    return moment
