"""What all pages share: required roles, form limits, rendering, redirects and flashed messages.

A page is a plain function that calls verbs of the resources and renders a template. A form that is
refused is shown again with the reason at each field, and nothing that was typed is lost.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import flask
from flask import g, redirect, render_template, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.access.sessions import SELLER
from crm.api import problems
from crm.cabinet.forms import Form
from crm.cabinet.once import answer_once
from crm.errors import Busy, Conflict, Invalid, Stale, StorageQuota, TooMany
from crm.storage.session import transaction

VIEWER, MANAGER, OWNER = "viewer", "manager", "owner"
RANK = {VIEWER: 1, SELLER: 2, MANAGER: 3, OWNER: 4}
TENANT, BASE_HOST = "tenant", "base_host"  # kinds of hosts that a page may belong to
MAX_FORM_BYTES = 1 << 20
KEPT_FORM = "kept_form"  # in the cookie of forms: [user id, path, fields], until the next login
CONTINUE_PATH = "/settings/continue"  # which shows the kept form
MAX_NEXT_PATH_CHARACTERS = 1000  # it is stored in a cookie, which holds at most 4 KB


class Pages(flask.Blueprint):
    """The blueprint of one subject's pages.

    Reading needs the role viewer and changing the role seller, unless `role` names another; with
    None the page is open to visitors who have not logged in. Options of a route beside Flask's:
    `role`, `at` (the kinds of hosts that have the page), `max_body_bytes`, `max_files` (of a form
    whose files are not held in memory), `is_file` (limited apart from pages), and, for what takes a
    form, `page`: the view that shows the form again when it is refused. It gets the refused form as
    its argument `form_name`, by default `form`. `once` is for forms that create (once.py).
    """

    def __init__(self, name: str, role: str | None = ""):
        super().__init__(f"{name}_pages", __name__)
        self._role = role

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Any = None,
        provide_automatic_options: bool | None = None,
        *,
        page: Callable[..., Response] | None = None,
        form_name: str = "form",
        once: bool = False,
        **options: Any,
    ) -> None:
        if once:
            view_func = answer_once(view_func)
        if page is not None:
            view_func = _rerender_on_error(view_func, page, form_name)
        # Kept on the view, where the check before each request finds them by the endpoint.
        method = (options.get("methods") or ["GET"])[0]
        default = self._role if self._role != "" else (VIEWER if method == "GET" else SELLER)
        view_func.role = options.pop("role", default)
        view_func.at = options.pop("at", (TENANT,))
        view_func.max_body_bytes = options.pop("max_body_bytes", MAX_FORM_BYTES)
        view_func.max_files = options.pop("max_files", 0)
        view_func.is_file = options.pop("is_file", False)
        super().add_url_rule(rule, endpoint, view_func, provide_automatic_options, **options)


def render(template: str, status: int = 200, /, **context: Any) -> Response:
    """Render a template into a response."""
    return flask.make_response(render_template(template, **context), status)


def _rerender_on_error(view: Callable, page: Callable[..., Response], form_name: str) -> Callable:
    """Wrap a view that takes a form: when the form is refused, `page` shows it again.

    The form has what was sent and the reasons at its fields; the response gets the status of the
    error.
    """

    @wraps(view)
    def handle_form(**path: str) -> Response:
        try:
            return view(**path)
        except Exception as raised:
            error = problems.translate_error(raised, request)  # such as of a cancelled statement
            if not isinstance(error, (Invalid, Conflict, Stale, TooMany, StorageQuota, Busy)):
                raise
            response = page(**path, **{form_name: Form(request.form, error)})
            # 412 is for a request with If-Match; a form only has a field.
            response.status_code = 409 if isinstance(error, Stale) else problems.status_of(error)
            if isinstance(error, (TooMany, Busy)):
                response.headers["Retry-After"] = str(error.retry_after)
            return response

    return handle_form


def see_other(path: str, text: str = "", kind: str = "success") -> Response:
    """Redirect to another page after a change, so that a reload does not repeat the change.

    That page shows `text`, if there is one, as flash() does.
    """
    if text:
        flash(text, kind)
    return redirect(f"{request.root_path}{path}", 303)


def flash(text: str, kind: str = "success") -> None:
    """Show a message on the next page; `kind` is a kind of Bootstrap's alerts."""
    flask.flash(text, kind)
    g.messages = [*g.get("messages", ()), (kind, text)]


def with_undo(text: str, path: str, sent: dict[str, Any] | None = None) -> Markup:
    """A message with an Undo button: a form that posts the fields `sent` to `path`."""
    return Markup(render_template("_undo.html", text=text, path=path, sent=sent or {}))


def render_email(template: str, /, **context: Any) -> tuple[str, str]:
    """Subject and text of an e-mail, which are the first line of its template and the rest."""
    subject, _, text = render_template(f"emails/{template}.txt", **context).partition("\n\n")
    return subject, text


class Unconfirmed(Exception):
    """A change that cannot be undone was not confirmed yet."""


@contextmanager
def confirmed(question: str, label: str, back: str, detail: str = "") -> Iterator[None]:
    """Ask the user to confirm the change in the block, which cannot be undone.

    `label` is the text of the button that confirms, `back` the path of the page to return to. The
    question is a page, which the script shows as a dialog; it is the response until the form says
    that the person is sure.
    """
    # The verb in the body joins this transaction: its errors are reported before the question, and
    # the question rolls its change back.
    try:
        with transaction():
            yield
            if "sure" not in request.form:
                raise Unconfirmed
    except Unconfirmed:
        sent = [pair for pair in request.form.items(multi=True) if pair[0] != "csrf_token"]
        texts = {"question": question, "detail": detail, "label": label, "back": back}
        flask.abort(render("confirm.html", sent=sent, **texts))


def next_path(default: str = "/", name: str = "next") -> str:
    """Return the path in the parameter `name`, to redirect to afterwards, or `default`."""
    path = request.values.get(name, "")
    # Browsers read // and /\ as the beginning of another host.
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local and len(path) <= MAX_NEXT_PATH_CHARACTERS else default


def me() -> Any:
    """Return the session of the logged-in user: user_id, name, role, language."""
    return g.session
