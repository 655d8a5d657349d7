"""Letters that settings send: an invitation, and a link that confirms an e-mail address.

They go to whatever address a user types in, so a business sends few of them a day: else a fresh
sign-up would be a free way to write to strangers.
"""

from collections.abc import Callable
from functools import partial

from flask import after_this_request, current_app, request
from flask_babel import gettext
from werkzeug.wrappers import Response

from crm.access import links
from crm.cabinet.settings.frame import home
from crm.errors import Conflict
from crm.resources import tenant
from crm.resources.users import User
from crm.tenancy.clocks import steady_before, steady_seconds

MOST_A_DAY = 50
DAY = 86_400


def may_go() -> None:
    """Raises Conflict `too_many_letters`."""
    since = steady_before(DAY)
    if sum(links.made(each, since) for each in (links.INVITE, links.EMAIL)) >= MOST_A_DAY:
        raise Conflict("so many letters were sent today that no more can go", "too_many_letters")


def invite(user: User) -> bool:
    """Send a colleague the way in, by e-mail or else by SMS; False when no SMS may go now.

    Raises Conflict `too_many_letters`.
    """
    may_go()
    by_sms = not user.email
    address = request.remote_addr or ""
    if by_sms and not current_app.sms_limits.take(user.phone, address, steady_seconds()):
        return False
    url = f"{home()}/invite/{links.make(links.INVITE, user.id)}"
    company = tenant.about()["name"]
    if by_sms:
        text = gettext("%(company)s invites you to its CRM: %(url)s", company=company, url=url)
        _after_the_answer(current_app.post.sms, user.phone, text)
        return True
    subject = gettext("Invitation to the CRM of %(company)s", company=company)
    text = gettext(
        "Hello, %(name)s!\n\n%(company)s invites you to its CRM. Your way in, good for 7 days:\n"
        "%(url)s\n\nIf you do not know what this is about, just leave it.",
        name=user.name,
        company=company,
        url=url,
    )
    _after_the_answer(current_app.post.mail, user.email, subject, text)
    return True


def confirm(user: User, email: str) -> None:
    """Send a link to a user's new address; it counts once the link is opened.

    Raises Conflict `too_many_letters`.
    """
    may_go()
    url = f"{home()}/email/{links.make(links.EMAIL, user.id, email)}"
    text = gettext(
        "Hello, %(name)s!\n\nPlease confirm this e-mail address of yours within 24 hours:\n"
        "%(url)s\n\nIf you did not ask for it, just leave it.",
        name=user.name,
        url=url,
    )
    subject = gettext("Please confirm your e-mail address")
    _after_the_answer(current_app.post.mail, email, subject, text)


def _after_the_answer(send: Callable[..., None], *letter: str) -> None:
    @after_this_request
    def note(response: Response) -> Response:
        response.call_on_close(partial(send, *letter))
        return response
