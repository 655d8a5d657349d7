"""Errors as pages: the same exceptions that the API returns as problem documents."""

from typing import Any

from flask import g, request
from flask_wtf.csrf import CSRFError
from werkzeug.wrappers import Response

from crm.api import admission, problems
from crm.cabinet import formatting
from crm.cabinet.languages import N_, TEXTS, gettext
from crm.cabinet.rendering import render
from crm.errors import CRMError, Invalid, describe_origin
from crm.log import log

STALE_FORM = "stale_form"


def answer(error: Exception) -> Response:
    """The page of an error."""
    if isinstance(error, CSRFError):
        return _page(400, STALE_FORM, _detail(400, STALE_FORM))
    translated = problems.translate_error(error)
    status = problems.status_of(translated)
    if status == 500:
        problems.log_unexpected(translated)
    code = str(getattr(translated, "code", ""))
    response = _page(status, code, _refusal(translated, status) or _detail(status, code))
    if retry := getattr(translated, "retry_after", None):
        response.headers["Retry-After"] = str(retry)
    if allowed := getattr(translated, "valid_methods", None):
        response.headers["Allow"] = ", ".join(sorted({*allowed, "OPTIONS"}))
    return response


def _page(status: int, code: str, detail: str) -> Response:
    g.setdefault("session", None)
    about: dict[str, Any] = {
        "number": status,
        "heading": _heading(status, code),
        "detail": detail,
        "request_id": admission.request_id(request.environ),
        "has_start_page": "place" in g,
    }
    try:
        return render("error.html", status, **about)
    except Exception as error:
        # The menu reads the tenant's file, which may be what failed.
        log.warning("an error page had to do without its menu: %s", describe_origin(error))
        g.session = None
        return render("error.html", status, **about)


def _heading(status: int, code: str) -> str:
    if code.startswith("tenant_") or code in ("storage_full", "storage_read_only"):
        return gettext("Not available right now")
    usual = N_("Something went wrong") if status >= 500 else N_("Could not be completed")
    headings = TEXTS["headings"]
    return gettext(headings.get(code) or headings.get(str(status), usual))


def _refusal(error: Exception, status: int) -> str:
    """Why it was refused, in the reader's language; the empty text if only the API has a
    text for it."""
    if status == 404 or not isinstance(error, CRMError):
        return ""
    text = "" if isinstance(error, Invalid) and error.faults else formatting.refusal(error)
    if isinstance(error, Invalid):
        reasons = [formatting.fault(fault) for fault in error.faults]
        own_texts = {fault.detail for fault in error.faults}
        text = (
            " ".join(dict.fromkeys(reason for reason in reasons if reason not in own_texts)) or text
        )
    return "" if text == error.detail else text


def _detail(status: int, code: str) -> str:
    """Return advice for an error by its status and code alone."""
    usual = N_("Please go back and try again.")
    if status >= 500:
        usual = N_("Please try again. If it happens again, send us the number below.")
    advice = TEXTS["advice"]
    return gettext(advice.get(code) or advice.get(str(status), usual))
