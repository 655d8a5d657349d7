"""Errors as pages: the same exceptions that the API returns as problem documents."""

from typing import Any

from flask import g, request
from flask_wtf.csrf import CSRFError
from werkzeug.wrappers import Response

from crm.api import admission, problems
from crm.cabinet import formatting
from crm.cabinet.languages import coded_text
from crm.cabinet.rendering import render, see_other
from crm.errors import CRMError, Invalid, describe_origin
from crm.log import log


def answer(error: Exception) -> Response:
    """The page of an error."""
    if isinstance(error, CSRFError):
        return _page(400, "stale_form", _describe("advice", 400, "stale_form"))
    translated = problems.translate_error(error, request)
    status = problems.status_of(translated)
    if status == 500:
        problems.log_unexpected(translated, request)
    more, id = getattr(translated, "more", {}), (request.view_args or {}).get("id")
    if id and id == getattr(translated, "id", "") and request.method == "GET":
        return see_other(request.path.replace(f"/{id}", f"/{more['merged_into']}", 1))
    code = "in_trash" if "in_trash" in more else str(getattr(translated, "code", ""))
    detail = _refusal(translated, status) or _describe("advice", status, code)
    response = _page(status, code, detail)
    response.headers.update(problems.headers_of(translated))
    return response


def _page(status: int, code: str, detail: str) -> Response:
    g.setdefault("session", None)
    about: dict[str, Any] = {
        "number": status,
        "heading": _describe("headings", status, code),
        "detail": detail,
        "request_id": admission.request_id(request.environ),
        "has_start_page": "place" in g,
    }
    try:
        return render("error.html", status, **about)
    except Exception as error:
        # The menu reads the tenant's file, which may be what failed.
        log.warning("an error page had to do without its menu: %s", describe_origin(error))
        g.session, g.shown_error = None, True
        return render("error.html", status, **about)


def _describe(table: str, status: int, code: str) -> str:
    """Return the heading of an error, or advice, by its status and code alone."""
    usual = "failed" if status >= 500 else "refused"
    texts = (coded_text(table, key) for key in (code, str(status), usual))
    return next(filter(None, texts))


def _refusal(error: Exception, status: int) -> str:
    """Why it was refused, in the reader's language; the empty text if only the API has a
    text for it."""
    if status == 404 or not isinstance(error, CRMError):
        return ""
    if isinstance(error, Invalid) and error.faults:
        texts = dict.fromkeys(coded_text("faults", fault.code) for fault in error.faults)
        return " ".join(filter(None, texts))
    text = formatting.refusal(error)
    return "" if text == error.detail else text
