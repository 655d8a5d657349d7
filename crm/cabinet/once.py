"""Forms that create: the same form of the same page, sent twice, makes one record.

Every page has an id of its own, which its forms send behind their hidden token. The first answer to
a form is stored in the transaction of its change, and the second request gets it again, for as long
as `Idempotency-Key` lasts. A page that is loaded anew has another id.
"""

from collections.abc import Callable
from functools import wraps
from hashlib import blake2b

from flask import flash, g, get_flashed_messages, redirect, request
from werkzeug.wrappers import Response

from crm.api.idempotency import find_response, store_response
from crm.cabinet.languages import gettext
from crm.json import dumps, loads
from crm.storage.session import current_session, joined_transaction


class SentBefore(Exception):
    """The form was taken already."""


def answer_once(view: Callable[..., Response]) -> Callable[..., Response]:
    """Wrap a view that takes a form of a logged-in user."""

    @wraps(view)
    def handle_form(**path: str) -> Response:
        if not g.sent_page_id:
            return view(**path)
        fingerprint = blake2b(dumps(sorted(request.form.lists())), digest_size=16).digest()
        scope = (fingerprint.hex(), request.method, request.path, g.session.user_id)

        def refuse_second() -> None:
            if find_response(scope):
                raise SentBefore

        try:
            with joined_transaction(refuse_second):
                response = view(**path)
                if current_session().in_transaction:
                    store_response(scope, fingerprint, _repeatable(response))
                return response
        except Exception:
            # Whatever the second request was refused for, such as a value that the first has taken.
            stored = find_response(scope)
            if stored is None:
                raise
        _, response = stored
        # The first answer's messages may wait in the cookie, if the browser has got it.
        waiting = get_flashed_messages(with_categories=True)
        for kind, text in dict.fromkeys([*waiting, *map(tuple, loads(response.get_data()))]):
            flash(text, kind)
        response.set_data(b"")
        return response

    return handle_form


def _repeatable(response: Response) -> Response:
    """A redirect with the messages of the next page as its body; a page is not stored."""
    location, messages = response.location, g.get("messages", [])
    if location is None:  # the page has a secret
        text = gettext(
            "The form was sent twice and taken once. The page that follows it is shown only once:"
            " if you have not seen what it says, please delete this and create another."
        )
        location, messages = f"{request.root_path}{request.path}", [("warning", text)]
    repeatable = redirect(location, 303)
    repeatable.set_data(dumps(messages))
    return repeatable
