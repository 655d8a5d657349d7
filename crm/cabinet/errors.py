"""Errors as pages: the same exceptions that the API tells as problems."""

from flask import g, request
from flask_wtf.csrf import CSRFError
from werkzeug.wrappers import Response

from crm.cabinet import texts
from crm.cabinet.frame import render
from crm.errors import CRMError
from crm.rest import problems


def answer(error: Exception) -> Response:
    """The page that tells of an error."""
    if isinstance(error, CSRFError):
        return _page(400, "stale_form")
    known = problems.known(error)
    status = problems.status_of(known)
    if status == 500:
        problems.tell_operator(known)
    detail = texts.refusal(known) if isinstance(known, CRMError) else ""
    response = _page(status, getattr(known, "code", ""), detail)
    if retry := getattr(known, "retry_after", None):
        response.headers["Retry-After"] = str(retry)
    if allowed := getattr(known, "valid_methods", None):
        response.headers["Allow"] = ", ".join(sorted({*allowed, "OPTIONS"}))
    return response


def _page(status: int, code: object, detail: str = "") -> Response:
    g.setdefault("session", None)
    request_id = problems.request_id(request.environ)
    about = {"code": code, "detail": detail, "request_id": request_id}
    return render("error.html", status, number=status, **about)
