"""Codes by SMS: they prove that the person at a browser has the phone (D12).

A code has 6 digits and is valid for 5 minutes, 5 tries and one use, for the purpose, the phone and
the browser that it was requested for. Nothing here looks at users: a code for a phone that no user
has takes the same work.

The next code may be requested after 60 s, and later each time, up to 5 minutes. The waits belong to
the phone and the purpose, whichever browser requests: else a new browser for each code could fill
a stranger's phone with SMS. They are short, because a stranger's requests make the owner wait, too;
`SmsLimits` limits how many SMS a phone gets. A browser that has logged in as the user before
waits for its own codes only. A stranger's code neither ends the owner's nor uses up its tries, and
a right code, which only the owner can enter, resets the waits.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hmac import compare_digest
from itertools import takewhile

from crm.access import tokens
from crm.errors import TooMany
from crm.records.retention import delete_after
from crm.storage.clocks import steady_before, steady_now
from crm.storage.session import current_session, execute, row, rows, transaction
from crm.storage.sweeps import DAY_SECONDS

LOGIN, SIGNUP, PHONE = "login", "signup", "phone"  # PHONE: to confirm a user's new number
CODE_LIFETIME_SECONDS = 5 * 60
MAX_TRIES = 5
WAIT_SECONDS = (60, 120, 300)  # after the first, second, … unused code of a day
ENTERED_LIFETIME_SECONDS = 30 * 60  # to do what the code was entered for


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code to be sent; its repr does not show it."""

    code: str = field(repr=False)


def create(purpose: str, phone: str, browser: str, known: bool = False) -> NewCode:
    """Make a new code; the earlier one of this purpose, phone and browser ends.

    `phone` is in E.164, `browser` the random text of its cookie. `known`: the browser has logged
    in as the user of the phone before. Raises TooMany `code_too_soon`.
    """
    if not browser:
        raise ValueError("a code belongs to a browser")
    code, salt = f"{secrets.randbelow(10**6):06}", secrets.token_bytes(16)
    browser_hash, code_hash = tokens.digest(browser), _digest(salt, code)
    with transaction():
        if seconds := seconds_until_next(purpose, phone, browser if known else None):
            raise TooMany(f"ask for another code in {seconds} s", "code_too_soon", seconds)
        execute(
            "UPDATE sms_code SET ended_at = ?"
            " WHERE phone = ? AND purpose = ? AND browser = ? AND ended_at IS NULL",
            (steady_now(), phone, purpose, browser_hash),
        )
        execute(
            "INSERT INTO sms_code (purpose, phone, browser, salt, hash, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (purpose, phone, browser_hash, salt, code_hash, steady_now()),
        )
    return NewCode(code)


def seconds_until_next(purpose: str, phone: str, known_browser: str | None = None) -> int:
    """Return the seconds until the next code may be requested; 0: now.

    `known_browser` is the cookie's text of a browser that has logged in as the user of the phone
    before: only its own codes count for it.
    """
    condition = ""
    params: list[str | bytes] = [phone, purpose, steady_before(DAY_SECONDS)]
    if known_browser is not None:
        condition, params = " AND browser = ?", [*params, tokens.digest(known_browser)]
    latest = rows(
        "SELECT created_at, used FROM sms_code WHERE phone = ? AND purpose = ? AND created_at > ?"
        f"{condition} ORDER BY id DESC LIMIT ?",
        (*params, len(WAIT_SECONDS)),
    )
    # A used code ends the series: only codes in a row that were not used make the wait longer.
    created_times = [created_at for created_at, _ in takewhile(lambda code: not code[1], latest)]
    if not created_times:
        return 0
    passed = datetime.fromisoformat(steady_now()) - datetime.fromisoformat(created_times[0])
    return max(0, WAIT_SECONDS[len(created_times) - 1] - int(passed.total_seconds()))


def check(purpose: str, phone: str, browser: str, code: str) -> bool:
    """Return whether this is the code that was sent; each call costs a try.

    True only once, even if the right code is checked many times at once. Raises RuntimeError
    inside a transaction, whose rollback would give the try back.
    """
    if current_session().in_transaction:
        raise RuntimeError("a try counts whatever follows: check a code outside of transactions")
    values = row(
        "SELECT id, salt, hash FROM sms_code WHERE phone = ? AND purpose = ? AND browser = ?"
        " AND ended_at IS NULL AND tries < ? AND created_at > ?",
        (phone, purpose, tokens.digest(browser), MAX_TRIES, steady_before(CODE_LIFETIME_SECONDS)),
    )
    if values is None:
        return False
    id, salt, code_hash = values
    is_right = compare_digest(code_hash, _digest(salt, code))
    # The condition is repeated here, so that of many checks at once only one can succeed.
    with transaction():
        counted = execute(
            "UPDATE sms_code SET tries = tries + 1, used = ?, ended_at = ?"
            " WHERE id = ? AND ended_at IS NULL AND tries < ?",
            (int(is_right), steady_now() if is_right else None, id, MAX_TRIES),
        )
    return is_right and counted.rowcount == 1


def is_entered(purpose: str, phone: str, browser: str) -> bool:
    """Return whether the browser entered a right code lately and has not used it yet."""
    return _find_entered(purpose, phone, browser) is not None


def end_all() -> None:
    """End all codes, also those that were entered and not used yet; inside a transaction."""
    execute("UPDATE sms_code SET ended_at = coalesce(ended_at, ?), used = 0", (steady_now(),))


@contextmanager
def spend_entered(purpose: str, phone: str, browser: str) -> Iterator[bool]:
    """Use an entered code for what the block does, once, even among many requests at once.

    Yields whether the code is there. If the block raises, the code can be used again.
    """
    with transaction():
        id = _find_entered(purpose, phone, browser)
        _set_browser(id, b"")
    try:
        yield id is not None
    except BaseException:
        with transaction():
            _set_browser(id, tokens.digest(browser))
        raise


def _find_entered(purpose: str, phone: str, browser: str) -> int | None:
    values = row(
        "SELECT id FROM sms_code WHERE phone = ? AND purpose = ? AND browser = ? AND used = 1"
        " AND ended_at > ? ORDER BY id DESC",
        (phone, purpose, tokens.digest(browser), steady_before(ENTERED_LIFETIME_SECONDS)),
    )
    return values[0] if values else None


def _set_browser(id: int | None, browser: bytes) -> None:
    execute("UPDATE sms_code SET browser = ? WHERE id = ?", (browser, id))


def _digest(salt: bytes, code: str) -> bytes:
    # A slow hash would gain nothing: a million codes are tried quickly, and a code ends soon.
    return hashlib.sha256(salt + tokens.digest(code)).digest()


delete_after("sms_code", "created_at", DAY_SECONDS)
