"""Errors as pages: the same exceptions that the API returns as problem documents."""

from typing import Any

from flask import g, request
from flask_wtf.csrf import CSRFError
from werkzeug.wrappers import Response

from crm.api import problems
from crm.cabinet import formatting
from crm.cabinet.languages import gettext
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
    code = getattr(translated, "code", "")
    response = _page(status, code, _refusal(translated, status) or _detail(status, code))
    if retry := getattr(translated, "retry_after", None):
        response.headers["Retry-After"] = str(retry)
    if allowed := getattr(translated, "valid_methods", None):
        response.headers["Allow"] = ", ".join(sorted({*allowed, "OPTIONS"}))
    return response


def _page(status: int, code: object, detail: str) -> Response:
    g.setdefault("session", None)
    about: dict[str, Any] = {
        "number": status,
        "heading": _heading(status, code),
        "detail": detail,
        "request_id": problems.request_id(request.environ),
        "has_start_page": "place" in g,
    }
    try:
        return render("error.html", status, **about)
    except Exception as error:
        # The menu reads the tenant's file, which may be what failed.
        log.warning("an error page had to do without its menu: %s", describe_origin(error))
        g.session = None
        return render("error.html", status, **about)


def _heading(status: int, code: object) -> str:
    if code == STALE_FORM:
        return gettext("This page has expired")
    if code == "storage_quota":
        return gettext("The storage is full")
    if code in ("tenant_unavailable", "storage_full", "storage_read_only"):
        return gettext("Not available right now")
    headings = {
        400: gettext("Bad request"),
        403: gettext("No access"),
        404: gettext("Page not found"),
        405: gettext("Not allowed here"),
        413: gettext("Too large"),
        422: gettext("Some values are not valid"),
        429: gettext("Too many requests"),
        503: gettext("The service is busy"),
    }
    usual = gettext("Something went wrong") if status >= 500 else ""
    return headings.get(status) or usual or gettext("Could not be completed")


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


def _detail(status: int, code: object) -> str:
    """Return advice for an error by its status and code alone."""
    if code == STALE_FORM:
        return gettext("Go back, reload the page and send it again.")
    details = {
        403: gettext("Ask an owner of this account if you need it."),
        404: gettext("The address is wrong, or the page has been deleted."),
        413: gettext("This is too large to upload."),
        422: gettext("The address contains a value that cannot be used."),
        429: gettext("Please wait a minute and try again."),
        503: gettext("Please try again in a minute."),
    }
    usual = gettext("Please go back and try again.")
    if status >= 500:
        usual = gettext("Please try again. If it happens again, send us the number below.")
    return details.get(status) or usual
