"""Messages that settings send: an invitation, a link that confirms an e-mail address, and a notice
to the address before.

They go to whatever address a user types in, so a business sends few of them a day: else a fresh
sign-up would be a free way to write to strangers. For the same reason names in them are cut, and
left out when they look like a link. An SMS is one part: what doesn't fit beside the link is left
out, first the name, then all but the link.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flask import after_this_request, request
from werkzeug.wrappers import Response

from crm.access import links
from crm.cabinet import languages
from crm.cabinet.app import current_app
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.settings.sections import home
from crm.errors import Conflict
from crm.messages.sms_parts import choose_one_part
from crm.resources import tenant, users
from crm.resources.users import User
from crm.tenancy.clocks import steady_before, steady_seconds
from crm.tenancy.database import current_session
from crm.tenancy.sweeps import DAY_SECONDS
from crm.values.message_names import name_for_message

MAX_LETTERS_A_DAY = 50  # invitations and confirmations of a tenant together
MAX_LETTERS_A_DAY_WHEN_YOUNG = 5
YOUNG_SECONDS = 7 * DAY_SECONDS  # since the tenant was made


def require_letter_allowed() -> None:
    """Raise Conflict `too_many_letters`; exact where it is called by the verb that makes a link."""
    since, is_young = (
        steady_before(DAY_SECONDS),
        tenant.about()["created_at"] > steady_before(YOUNG_SECONDS),
    )
    limit = MAX_LETTERS_A_DAY_WHEN_YOUNG if is_young else MAX_LETTERS_A_DAY
    if sum(links.count_created(purpose, since) for purpose in (links.INVITE, links.EMAIL)) >= limit:
        raise Conflict("so many letters were sent today that no more can go", "too_many_letters")


class Invitation(NamedTuple):
    """The result of an invitation. `link`, if it was not sent: for the owner to pass on."""

    to: str
    is_sent: bool
    link: str = ""


def invite(id: int) -> Invitation:
    """Send a user an invitation by e-mail, else by SMS; return its link if messages are not sent.

    There is neither a message nor a link if the limits refuse an SMS now. Raises Conflict
    `too_many_letters`, and Stale if the user is changed meanwhile.
    """
    queue = current_app.message_queue
    user = User.find(id)
    require_letter_allowed()
    by_sms = not user.email
    to = user.phone if by_sms else user.email
    is_sent = queue.sends_sms if by_sms else queue.sends_mail
    address, moment = request.remote_addr or "", steady_seconds()
    if (
        by_sms
        and is_sent
        and not current_app.sms_limits.count_sms(
            to, address, moment, tenant=current_session().label
        )
    ):
        return Invitation(to, False)
    token = links.create(links.INVITE, id, before=partial(_require_invitable, user))
    company = name_for_message(tenant.about()["name"])
    link = f"{home()}/{'i' if by_sms else 'invite'}/{token}"
    # Also without a provider: the console prints it then, and the page shows the link.
    if by_sms:
        _send_after_response(queue.enqueue_sms, to, invitation_sms(company, link))
    else:
        _send_after_response(
            queue.enqueue_mail, to, *invitation_mail(company, name_for_message(user.name), link)
        )
    return Invitation(to, is_sent, "" if is_sent else link)


def _require_invitable(user: User) -> None:
    """Raise Stale if the user was changed, perhaps the address, and Conflict `too_many_letters`."""
    User.find(user.id, user.version)
    require_letter_allowed()


def invitation_sms(company: str, url: str) -> str:
    """One part, unless the link alone is longer. `company`: as a message carries it, or ""."""
    short = f"CRM: {url}", url
    text = gettext("Invitation to the CRM: %(url)s", url=url)
    if not company:
        return choose_one_part(text, *short)
    named = gettext("%(company)s invites you: %(url)s", company=company, url=url)
    return choose_one_part(named, text, *short)


def invitation_mail(company: str, name: str, url: str) -> tuple[str, str]:
    """Subject and text. `company` and `name`: as a message carries them, or ""."""
    subject = gettext("Invitation to the CRM")
    invitation = gettext("You are invited to a CRM.")
    if company:
        subject = gettext("Invitation to the CRM of %(company)s", company=company)
        invitation = gettext("%(company)s invites you to its CRM.", company=company)
    instructions = gettext(
        "Your login link, valid for 7 days:\n%(url)s\n\n"
        "If you do not know what this is about, ignore this e-mail.",
        url=url,
    )
    return subject, f"{_greeting(name)}\n\n{invitation} {instructions}"


def confirm(user: User, email: str, before: Callable[[], None]) -> None:
    """Send a link to a user's new address, which counts once the link is opened, and a notice to
    the address before.

    `before` is called in the transaction that makes the link: what it raises refuses it. Raises
    Conflict `too_many_letters`, or `duplicate_user` when another user has the address.
    """

    def check() -> None:
        before()
        users.require_free_address({"email": email}, user.id)
        require_letter_allowed()

    url = f"{home()}/email/{links.create(links.EMAIL, user.id, email, before=check)}"
    _send_after_response(
        current_app.message_queue.enqueue_mail,
        email,
        *confirmation_mail(name_for_message(user.name), url),
    )
    if user.email:
        with force_locale(user.language or languages.language()):
            notice = change_notice(home())
        _send_after_response(current_app.message_queue.enqueue_mail, user.email, *notice)


def confirmation_mail(name: str, url: str) -> tuple[str, str]:
    """Subject and text for a new address."""
    text = gettext(
        "Please confirm this e-mail address of yours within 24 hours:\n"
        "%(url)s\n\nIf you did not ask for it, just leave it.",
        url=url,
    )
    return gettext("Please confirm your e-mail address"), f"{_greeting(name)}\n\n{text}"


def change_notice(home: str) -> tuple[str, str]:
    """Subject and text for the address before. It names neither the new one nor a secret."""
    text = gettext(
        "Somebody who is logged in to your account at %(home)s asked for another e-mail address."
        " It counts once the link sent to that address is opened.\n\n"
        "If it was you, there is nothing to do.\n\n"
        "If it was not: open your profile there, end all other sessions and set a new password."
        " That link is not good any more then.",
        home=home,
    )
    return gettext("Another e-mail address was asked for"), f"{_greeting('')}\n\n{text}"


def _greeting(name: str) -> str:
    return gettext("Hello, %(name)s!", name=name) if name else gettext("Hello!")


def _send_after_response(send: Callable[..., None], *letter: str) -> None:
    @after_this_request
    def note(response: Response) -> Response:
        response.call_on_close(partial(send, *letter))
        return response
