"""Users and their roles: invite, change, deactivate and reactivate them."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.access import links, sessions
from crm.cabinet import edits, formatting, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import flash, me, rerender_on_error, see_other
from crm.cabinet.settings import emails, identity
from crm.cabinet.settings.sections import pages, show, with_refusal
from crm.errors import Invalid
from crm.resources import users
from crm.resources.users import USER, USER_IN, USER_PATCH, User
from crm.tenancy.database import now, row

PATH = "/settings/users"
FIELDS = ("name", "email", "phone", "role")


@pages.get(PATH)
def list_users(form: Form | None = None) -> Response:
    all_users = USER.every("TRUE ORDER BY active DESC, id")
    form = form or Form({"role": "manager"})
    return show(
        "users.html",
        users=all_users,
        form=form,
        roles=[*labels.roles().items()],
        invited=_invited(),
    )


@pages.post(PATH)
@rerender_on_error(lambda form: list_users(form))
def add_user() -> Response:
    data = load_form(USER_IN, request.form, FIELDS)
    _can_be_reached(data)
    invitations: list[emails.Invitation] = []

    def invite(user: User) -> None:  # in the same transaction: a refused one leaves no user
        invitations.append(emails.invite(user.id))

    user = users.create(data, invite)
    return _show_invited(user, invitations[0])


@pages.get(f"{PATH}/<id>")
def edit_user(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    user = USER.one(id)
    return show(
        "user.html",
        user=user,
        form=form or with_refusal(edits.with_digests(user, FIELDS), refused),
        roles=[*labels.roles().items()],
        is_me=user["id"] == str(me().user_id),
        asks_password=identity.asks_password(),
        came=row("SELECT 1 FROM session WHERE user_id = ? LIMIT 1", (int(id),)) is not None,
    )


@pages.post(f"{PATH}/<id>")
@rerender_on_error(lambda form, id: edit_user(id, form))
def change_user(id: str) -> Response:
    user = User.find(id)
    # The own address is confirmed by a link, in the profile.
    names = [name for name in FIELDS if name != "email" or user.id != me().user_id]
    data = load_form(USER_PATCH, request.form, names)
    _can_be_reached({"email": user.email, **data})
    is_own_phone = user.id == me().user_id and data.get("phone", user.phone) != user.phone
    # The own phone is a way to log in: whoever finds an open session must not replace it.
    proof = identity.prove("current") if is_own_phone else None
    before = proof.check_again if proof else lambda: None
    was_invited = links.is_pending(links.INVITE, user.id)
    other_changes = edits.save(USER, id, data, partial(users.update, user.id, before=before))
    edits.flash_saved(other_changes)
    if was_invited and not links.is_pending(links.INVITE, user.id):
        flash(
            gettext("The earlier invitation is no longer valid. Please send it again."), "warning"
        )
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/deactivate")
@rerender_on_error(lambda form, id: edit_user(id, refused=form))
def deactivate_user(id: str) -> Response:
    users.update(id, {"active": 0})
    flash(gettext("Access removed"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/activate")
@rerender_on_error(lambda form, id: edit_user(id, refused=form))
def activate_user(id: str) -> Response:
    users.update(id, {"active": 1})
    flash(gettext("Access restored"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/invite")
@rerender_on_error(lambda form, id: edit_user(id, refused=form))
def invite_user(id: str) -> Response:
    user = User.find(id)
    _can_be_reached({"email": user.email, "phone": user.phone})
    return _show_invited(user, emails.invite(user.id))


def _show_invited(user: User, invitation: emails.Invitation) -> Response:
    """Show the result of an invitation. A link that was not sent is shown once, to the inviter."""
    to = invitation.to
    if invitation.link:
        return show("invited.html", user=user, to=to, link=invitation.link)
    if invitation.is_sent:
        flash(gettext("Invitation sent to %(to)s", to=formatting.phone(to)))
    else:
        flash(
            gettext("No SMS can be sent to %(to)s now: please try later.", to=formatting.phone(to)),
            "warning",
        )
    return see_other(PATH)


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
