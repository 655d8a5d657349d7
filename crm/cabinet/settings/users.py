"""Users and their roles: invite, change, deactivate and reactivate them, hand over their work."""

from contextlib import nullcontext
from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.access import links, sessions
from crm.cabinet import edits, formatting, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records import bulk
from crm.cabinet.rendering import flash, me, see_other
from crm.cabinet.settings import emails, identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid
from crm.json import integer_id
from crm.resources import handover, users
from crm.resources.users import USER, USER_IN, USER_PATCH, User
from crm.storage.session import now

PATH = "/settings/users"
LOGIN_FIELDS = ("email", "phone", "role")
FIELDS = ("name", *LOGIN_FIELDS)


@pages.get(PATH)
def list_users(form: Form | None = None) -> Response:
    all_users = USER.every("TRUE ORDER BY active DESC, id")
    form = form or Form({"role": "manager"})
    return show("users.html", users=all_users, form=form, invited=_invited())


@pages.post(PATH, page=list_users, once=True)
def add_user() -> Response:
    data = load_form(USER_IN, FIELDS)
    _can_be_reached(data)
    with identity.proven_change():  # one transaction: a refused invitation leaves no user
        user = users.create(data)
        link = emails.invite(user)
    return _show_invited(user, link)


@pages.get(f"{PATH}/<id>")
def edit_user(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    user = USER.one(id)
    return show(
        "user.html",
        user=user,
        form=form or edits.open_form(user, FIELDS, refused),
        is_me=user["id"] == str(me().user_id),
        came=int(id) in sessions.list_user_ids(),
        open_counts=handover.count_open(int(id)),
        colleagues=[one for one in labels.user_choices() if one[0] != user["id"]],
    )


@pages.post(f"{PATH}/<id>", page=edit_user)
def change_user(id: str) -> Response:
    user = User.find(id)
    # The own address is confirmed by a link, in the profile.
    names = [name for name in FIELDS if name != "email" or user.id != me().user_id]
    data = load_form(USER_PATCH, names)
    _can_be_reached({"email": user.email, **data})
    login = [name for name in LOGIN_FIELDS if name in data]
    changed = [name for name in login if data[name] != getattr(user, name)]
    was_invited = links.is_pending(links.INVITE, user.id)
    # The own phone takes the password even after a login: it replaces a way to log in.
    is_own_phone = user.id == me().user_id and "phone" in changed
    with identity.proven_change(not is_own_phone) if changed else nullcontext():
        edits.save(USER, id, data, partial(users.update, user.id))
    text = ""
    if was_invited and not links.is_pending(links.INVITE, user.id):
        text = gettext("The earlier invitation is no longer valid. Please send it again.")
    return see_other(PATH, text, "warning")


@pages.post(f"{PATH}/<id>/deactivate", page=edit_user, form_name="refused")
def deactivate_user(id: str) -> Response:
    users.update(id, {"active": 0})
    flash(gettext("Access removed"))
    return hand_over(id)


@pages.post(f"{PATH}/<id>/hand-over", page=edit_user, form_name="refused")
def hand_over(id: str) -> Response:
    """Give the open records to whom the form names, or to nobody; without a name leave them."""
    user, to, response = User.find(id), request.form.get("hand_over"), see_other(PATH)
    if to:
        to_id = None if to == bulk.NOBODY else integer_id(to)
        for plural, done in handover.hand_over(user.id, to_id).items():
            label = labels.choice_label("proposal", "resource", plural)
            response = bulk.done(plural, PATH, *done, f"{label}: ")
    return response


@pages.post(f"{PATH}/<id>/activate", page=edit_user, form_name="refused")
def activate_user(id: str) -> Response:
    with identity.proven_change():
        users.update(id, {"active": 1})
    return see_other(PATH, gettext("Access restored"))


@pages.post(f"{PATH}/<id>/invite", page=edit_user, form_name="refused")
def invite_user(id: str) -> Response:
    user = User.find(id)
    _can_be_reached({"email": user.email, "phone": user.phone})
    with identity.proven_change():  # without a gateway the page shows a link that logs in
        link = emails.invite(User.find(id))
    return _show_invited(user, link)


def _show_invited(user: User, link: str) -> Response:
    """Show the result of an invitation. A link that was not sent is shown once, to the inviter."""
    to = user.email or user.phone
    if link:
        return show("invited.html", user=user, to=to, link=link)
    return see_other(PATH, gettext("Invitation sent to %(to)s", to=formatting.phone(to)))


def _invited() -> dict[str, tuple[str, bool]]:
    """Return users who have not used their invitation: {id: (invited at, is the link valid)}."""
    came = sessions.list_user_ids()
    return {
        str(user_id): (created_at, expires_at > now())
        for user_id, created_at, expires_at in links.list_unused(links.INVITE)
        if user_id not in came
    }


def _can_be_reached(data: dict[str, Any]) -> None:
    if not data.get("email") and not data.get("phone"):
        raise Invalid.field("phone", "phone_or_email", "a phone or an e-mail is needed")
