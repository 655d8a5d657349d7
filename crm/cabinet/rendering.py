"""What every page shares: who may see it, the form it may carry, how it is answered.

A page is a plain function that calls verbs of the resources and renders a template. What a person
sent wrongly comes back on the same page, with the reason at its field and nothing typed lost.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import flask
from flask import g, redirect, render_template, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.api import problems
from crm.cabinet.forms import Form
from crm.errors import Busy, Conflict, Invalid, StorageQuota, TooMany

VIEWER, MANAGER, OWNER = "viewer", "manager", "owner"
RANK = {VIEWER: 1, MANAGER: 2, OWNER: 3}
TENANT, BASE_HOST = "tenant", "front"  # where a page is: at a tenant's host, or at the base host
FORM_BYTES = 1 << 20
LONGEST_PATH = (
    1000  # characters of a place to go to after a login: a cookie holds no more than 4 KB
)


class Pages(flask.Blueprint):
    """The pages of one subject.

    Reading needs the role viewer and changing the role manager, unless `role` says otherwise; None
    lets in who has not logged in. `at` are the hosts that have the page, `most` the bytes that its
    form may have.
    """

    def __init__(self, name: str, role: str | None = ""):
        super().__init__(f"{name}_pages", __name__)
        self._role = role
        self.register_error_handler(Unconfirmed, _ask)

    def add_url_rule(self, rule: str, endpoint: Any = None, view_func: Any = None, **options: Any):
        method = (options.get("methods") or ["GET"])[0]
        usual = self._role if self._role != "" else (VIEWER if method == "GET" else MANAGER)
        view_func.role = options.pop("role", usual)
        view_func.at = options.pop("at", (TENANT,))
        view_func.most = options.pop("most", FORM_BYTES)
        super().add_url_rule(rule, endpoint, view_func, **options)


def render(template: str, status: int = 200, **context: Any) -> Response:
    """A page. `form` is the one that the template shows, if any."""
    return flask.make_response(render_template(template, **context), status)


def again(page: Callable[..., Response]) -> Callable:
    """Around a view that takes a form: what is refused is shown by `page` again, with its status.

    `page(form, **path)` renders the page with the form as it was sent, its faults at their fields.
    """

    def around(view: Callable) -> Callable:
        @wraps(view)
        def act(**path: str) -> Response:
            try:
                return view(**path)
            except (Invalid, Conflict, TooMany, StorageQuota, Busy) as refused:
                form = Form(request.form, refused)
                answer = page(form, **path)
                answer.status_code = problems.status_of(refused)
                if isinstance(refused, (TooMany, Busy)):
                    answer.headers["Retry-After"] = str(refused.retry_after)
                return answer

        return act

    return around


def onward(path: str) -> Response:
    """After a change: see the page at that path, so that a reload changes nothing again."""
    return redirect(f"{request.root_path}{path}", 303)


def told(text: str, kind: str = "success") -> None:
    """Say something at the top of the next page that is shown."""
    flask.flash(text, kind)


def told_with_undo(text: str, path: str, sent: dict[str, Any] | None = None) -> None:
    """As told(), with a button that undoes the change: a form that sends `sent` to `path`."""
    told(Markup(render_template("_undo.html", text=text, path=path, sent=sent or {})))


class Unconfirmed(Exception):
    """What was asked for cannot be undone, and nobody has said yet that it is meant."""

    def __init__(self, question: str, detail: str, label: str, back: str):
        self.context = {"question": question, "detail": detail, "label": label, "back": back}


def confirm(question: str, label: str, back: str, detail: str = "") -> None:
    """Ask before a change that cannot be undone; goes on once the question was answered.

    To be called last inside the transaction: what is refused is refused before the question, and
    the question rolls the change back. `label` is the button that says yes, `back` the page
    without the change. Pages have the question as a page; the script shows it as a dialog.
    """
    if "sure" not in request.form:
        raise Unconfirmed(question, detail, label, back)


def _ask(unconfirmed: Unconfirmed) -> Response:
    again = ("csrf_token", "sure")
    sent = [pair for pair in request.form.items(multi=True) if pair[0] not in again]
    return render("confirm.html", sent=sent, **unconfirmed.context)


def next_path(default: str = "/", name: str = "next") -> str:
    """Where to go afterwards: a path of this host that was asked for by `name`, nothing else."""
    path = request.values.get(name, "")
    fits = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if fits and len(path) <= LONGEST_PATH else default


def me() -> Any:
    """The session of who is looking: user_id, name, role, language."""
    return g.session
