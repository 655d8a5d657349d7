"""Messages that settings send: an invitation, a link that confirms an e-mail address, and a notice
to the address before.

They go to whatever address a user types in, so a business sends few of them a day: else a fresh
sign-up would be a free way to write to strangers. For the same reason names in them are cut, and
left out when they look like a link. An SMS is one part: what doesn't fit beside the link is left
out, first the name, then all but the link.
"""

from collections.abc import Callable
from functools import partial

from flask import after_this_request, request
from werkzeug.wrappers import Response

from crm.access import links
from crm.cabinet.app import current_app
from crm.cabinet.languages import force_locale, gettext, language
from crm.cabinet.login.phone_codes import HOUR_LIMIT_SECONDS
from crm.cabinet.rendering import render_email
from crm.cabinet.settings.sections import home
from crm.errors import Conflict, TooMany
from crm.messages.sms import choose_one_part
from crm.resources import tenant, users
from crm.storage.clocks import steady_before, steady_seconds
from crm.storage.session import current_session
from crm.storage.sweeps import DAY_SECONDS
from crm.values.message_names import name_for_message

MAX_LETTERS_A_DAY = 50  # invitations and confirmations of a tenant together
MAX_LETTERS_A_DAY_WHEN_YOUNG = 5
YOUNG_SECONDS = 7 * DAY_SECONDS  # since the tenant was made


def require_letter_allowed() -> None:
    """Raise Conflict `too_many_letters`; exact where it is called by the verb that makes a link."""
    since = steady_before(DAY_SECONDS)
    is_young = tenant.about()["created_at"] > steady_before(YOUNG_SECONDS)
    limit = MAX_LETTERS_A_DAY_WHEN_YOUNG if is_young else MAX_LETTERS_A_DAY
    if sum(links.count_created(purpose, since) for purpose in (links.INVITE, links.EMAIL)) >= limit:
        raise Conflict("so many letters were sent today that no more can go", "too_many_letters")


def invite(user: users.User) -> str:
    """Send a user an invitation by e-mail, else by SMS.

    Return its link if messages are not sent, for the owner to pass on, else the empty text. For the
    transaction of the change. Raises Conflict `too_many_letters`, and TooMany if the limits refuse
    an SMS now.
    """
    queue = current_app.message_queue
    require_letter_allowed()
    by_sms = not user.email
    to = user.phone if by_sms else user.email
    is_sent = queue.sends_sms if by_sms else queue.sends_mail
    if by_sms and is_sent:
        limits, address = current_app.sms_limits, request.remote_addr or ""
        if not limits.count_sms(to, address, steady_seconds(), tenant=current_session().label):
            raise TooMany("too many SMS", "too_many_sms", HOUR_LIMIT_SECONDS)
    token = links.create(links.INVITE, user.id)
    company = name_for_message(tenant.about()["name"])
    link = f"{home()}/{'i' if by_sms else 'invite'}/{token}"
    # Also without a provider: the console prints it then, and the page shows the link.
    if by_sms:
        _send_after_response(queue.enqueue_sms, to, invitation_sms(company, link))
    else:
        name = name_for_message(user.name)
        letter = render_email("invitation", company=company, name=name, url=link)
        _send_after_response(queue.enqueue_mail, to, *letter)
    return "" if is_sent else link


def invitation_sms(company: str, url: str) -> str:
    """One part, unless the link alone is longer. `company`: as a message carries it, or ""."""
    text = gettext("%(company)s invites you: %(url)s", company=company or "CRM", url=url)
    return choose_one_part(text, f"CRM: {url}", url)


def confirm(user: users.User, email: str) -> None:
    """Send a link to a user's new address, which counts once the link is opened, and a notice to
    the address before.

    For the transaction of the change. Raises Conflict `too_many_letters`, or `duplicate_user` when
    another user has the address.
    """
    users.require_free_address({"email": email}, user.id)
    require_letter_allowed()
    queue = current_app.message_queue
    url = f"{home()}/email/{links.create(links.EMAIL, user.id, email)}"
    letter = render_email("confirmation", name=name_for_message(user.name), url=url)
    _send_after_response(queue.enqueue_mail, email, *letter)
    if user.email:
        with force_locale(user.language or language()):
            notice = render_email("address_change", home=home())
        _send_after_response(queue.enqueue_mail, user.email, *notice)


def _send_after_response(send: Callable[..., None], *letter: str) -> None:
    @after_this_request
    def note(response: Response) -> Response:
        response.call_on_close(partial(send, *letter))
        return response
