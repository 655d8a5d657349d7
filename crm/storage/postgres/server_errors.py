"""Errors of PostgreSQL for the operator: one line each, without values of rows or passwords."""

import re

import psycopg
from psycopg import pq

from crm.storage.file_errors import UNSUITABLE, ServerError

NOT_REACHED, LOST = "08001", "08006"  # SQLSTATEs
TOO_MANY_CONNECTIONS = "53300"
# A refused connection comes without its SQLSTATE, as a text alone.
REFUSED_AS_TOO_MANY = re.compile(r"too many connections|too many clients|connection slots are res")
# The error of a value that cannot be converted, class 22, quotes the value.
QUOTED_VALUE = re.compile(r"\".*\"|'.*'", re.DOTALL)


class ConnectionLost(ServerError):
    """The connection broke, or none can be made; what was sent last may have been executed."""

    def __init__(self, message: str, sqlstate: str = LOST):
        super().__init__(message, sqlstate)


class Unsuitable(ServerError):
    """The server, the database or the user lacks what is needed; the text says what to do."""

    def __init__(self, message: str):
        super().__init__(message, UNSUITABLE)


def error_of_result(result: pq.abc.PGresult) -> ServerError:
    """Return the error of a statement by its result."""
    field = pq.DiagnosticField
    state = (result.error_field(field.SQLSTATE) or b"").decode()
    message = (result.error_field(field.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    return _server_error(message, state)


def error_of_cursor(error: psycopg.Error) -> ServerError:
    """Return the error of a statement that one of psycopg's cursors executed."""
    if error.sqlstate is None or error.diag.message_primary is None:
        return ConnectionLost(first_line(error))
    return _server_error(error.diag.message_primary, error.sqlstate)


def error_of_connecting(error: psycopg.Error) -> ConnectionLost:
    """Return the error of a connection that cannot be made."""
    message = first_line(error).removeprefix("connection failed: ")
    is_too_many = REFUSED_AS_TOO_MANY.search(message)
    return ConnectionLost(message, TOO_MANY_CONNECTIONS if is_too_many else NOT_REACHED)


def first_line(error: psycopg.Error) -> str:
    """Return the first line of an error of a connection; that of a statement has values."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _server_error(message: str, state: str) -> ServerError:
    """Make the error without its detail, hint and context, which may have values of a row."""
    if state.startswith("22"):
        message = QUOTED_VALUE.sub('"…"', message)
    return ServerError(message, state)
