"""Errors as RFC 9457 problems (D14): one body for every 4xx and 5xx under `/api`."""

from typing import Any

from flask import Request, Response
from werkzeug.exceptions import (
    HTTPException,
    RequestedRangeNotSatisfiable,
    RequestEntityTooLarge,
)
from werkzeug.http import HTTP_STATUS_CODES

from crm import errors
from crm.api.admission import request_id
from crm.json import dumps
from crm.log import describe_request, log
from crm.storage import file_errors
from crm.storage.session import session_or_none
from crm.storage.sqlite.migrations import NewerFile
from crm.storage.unavailable import disk_full
from crm.storage.upgrades import NotUpgraded

STATUS: dict[type[errors.CRMError], int] = {
    errors.Malformed: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Gone: 410,
    errors.Stale: 412,
    errors.TooLarge: 413,
    errors.WrongType: 415,
    errors.Invalid: 422,
    errors.TooMany: 429,
    errors.Busy: 503,
    errors.TenantUnavailable: 503,
    errors.StorageQuota: 507,
    NewerFile: 503,
    NotUpgraded: 503,
}


def answer(error: Exception, request: Request) -> Response:
    """The problem of a request's error; an unexpected one is logged, and a 500 without details."""
    error = translate_error(error, request)
    status = status_of(error)
    if isinstance(error, errors.CRMError):
        response = problem(request, status, error.code, error.detail, **_list_members(error))
        if isinstance(error, errors.Unauthorized):
            response.headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, HTTPException):
        description = (error.description or "the request was refused").strip().rstrip(".")
        detail = description[:1].lower() + description[1:]
        if status == 404:
            detail = errors.NotFound.detail
        code = HTTP_STATUS_CODES[status].lower().replace(" ", "_")
        response = problem(request, status, code, detail)
    else:
        log_unexpected(error, request)
        return problem(request, 500, "internal_error", "something went wrong on our side")
    response.headers.update(headers_of(error))
    return response


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers with the time to wait, the size of what has no such range, and the allowed
    methods, if the error has them."""
    headers = {}
    if retry_after := getattr(error, "retry_after", None):
        headers["Retry-After"] = str(retry_after)
    if isinstance(error, RequestedRangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.length}"
    if allowed := getattr(error, "valid_methods", None):
        headers["Allow"] = ", ".join(sorted({*allowed, "OPTIONS"}))
    return headers


def problem(request: Request, status: int, code: str, detail: str, **more: Any) -> Response:
    """A response with a problem about a request. `more`: its further members."""
    body = {
        "type": "about:blank",
        "title": HTTP_STATUS_CODES[status],
        "status": status,
        "detail": detail,
        "instance": f"{request.root_path}{request.path}",
        "code": code,
        "request_id": request_id(request.environ),
        **more,
    }
    return Response(dumps(body), status, mimetype="application/problem+json")


def status_of(error: Exception) -> int:
    """The HTTP status of an error that translate_error() returned."""
    if isinstance(error, errors.CRMError):
        # By the nearest class: the errors of resources are subclasses.
        return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 400)
    return (error.code or 500) if isinstance(error, HTTPException) else 500


def log_unexpected(error: Exception, request: Request) -> None:
    """Log an unexpected error of a request with its traceback."""
    id = request_id(request.environ)
    log.error("unforeseen error, request %s", id, exc_info=error, extra=_about(request))


def translate_error(error: Exception, request: Request) -> Exception:
    """The CRMError that stands for the error of a library, or the error itself.

    A full disk is logged here, once a minute.
    """
    original = getattr(error, "original_exception", None)  # Flask wraps what nobody caught
    if isinstance(error, HTTPException) and original is not None:
        error = original
    if isinstance(error, RequestEntityTooLarge):
        return errors.TooLarge()
    session = session_or_none()
    translate = session.source.refusal if session else file_errors.refusal
    error = translate(error) or error
    if isinstance(error, errors.StorageFull) and disk_full.allows(error.code):
        log.error(
            "%s, request %s", error.detail, request_id(request.environ), extra=_about(request)
        )
    return error


def _about(request: Request) -> dict[str, Any]:
    return {"about": describe_request(request.environ)}


def _list_members(error: errors.CRMError) -> dict[str, Any]:
    """The members of the problem besides those of every problem."""
    if isinstance(error, errors.Invalid) and error.faults:
        faults = [
            {fault.kind: fault.where, "code": fault.code, "detail": fault.detail}
            for fault in error.faults
        ]
        return {"errors": faults, **error.more}
    return error.more
