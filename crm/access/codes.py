"""Codes by SMS: who enters one has the phone, and sits at the browser that asked for it.

A code has 6 digits, is good for 5 minutes, 5 tries and one use, and only for the purpose, the phone
and the browser it was asked for, at the tenant whose file keeps it. Nothing here looks at users: a
code for a number that nobody has costs the same work.

Who asks again waits 60 s, and longer each time up to 5 minutes. The waits belong to the phone and
the purpose, whichever browser asks: else a new browser for each code would fill a stranger's phone
with them. They are short, for a stranger who goes on asking makes the owner wait, too; how many SMS
a phone gets is for `sms_limits.py` to say. A browser that logged in as the user before waits for
its own codes alone. A stranger's code never ends the owner's nor uses up its tries, and a right
code, which only the owner can enter, takes the waits back to none.
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
from crm.records.retention import delete_oldest
from crm.tenancy import sweeps
from crm.tenancy.clocks import erasing_before, steady_before, steady_now
from crm.tenancy.database import current_session, execute, row, rows, transaction

LOGIN, SIGNUP, PHONE = "login", "signup", "phone"  # phone: a user's new number
CODE_LIFETIME_SECONDS = 5 * 60
MAX_TRIES = 5
WAIT_SECONDS = (60, 120, 300)  # seconds after the first, second, … code of a day
ENTERED_LIFETIME_SECONDS = 30 * 60  # seconds in which a browser may do what it entered its code for
DAY = 86_400


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code to be sent, and in how many seconds the next one may be asked for."""

    code: str = field(repr=False)
    seconds_until_next: int


def create(purpose: str, phone: str, browser: str, known: bool = False) -> NewCode:
    """A new code; the earlier one of this purpose, phone and browser ends.

    `phone` is E.164, `browser` the random text of its cookie; `known`: it logged in as the phone's
    user before. Raises TooMany `code_too_soon`.
    """
    if not browser:
        raise ValueError("a code belongs to a browser")
    code, salt = f"{secrets.randbelow(10**6):06}", secrets.token_bytes(16)
    holder, kept = tokens.digest(browser), _digest(salt, code)
    with transaction():
        if seconds := seconds_until_next(purpose, phone, browser if known else None):
            raise TooMany(f"ask for another code in {seconds} s", "code_too_soon", seconds)
        execute(
            "UPDATE code SET ended_at = ?"
            " WHERE phone = ? AND purpose = ? AND browser = ? AND ended_at IS NULL",
            (steady_now(), phone, purpose, holder),
        )
        execute(
            "INSERT INTO code (purpose, phone, browser, salt, hash, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (purpose, phone, holder, salt, kept, steady_now()),
        )
        return NewCode(code, seconds_until_next(purpose, phone, browser if known else None))


def seconds_until_next(purpose: str, phone: str, known_browser: str | None = None) -> int:
    """In how many seconds the next code may be asked for; 0 is now.

    `known_browser`: the cookie's text of one that logged in as the phone's user before.
    """
    by, names = "", (phone, purpose, steady_before(DAY))
    if known_browser is not None:
        by, names = " AND browser = ?", (*names, tokens.digest(known_browser))
    latest = rows(
        "SELECT created_at, used FROM code WHERE phone = ? AND purpose = ? AND created_at > ?"
        f"{by} ORDER BY id DESC LIMIT ?",
        (*names, len(WAIT_SECONDS)),
    )
    asked = [created_at for created_at, _ in takewhile(lambda code: not code[1], latest)]
    if not asked:
        return 0
    passed = datetime.fromisoformat(steady_now()) - datetime.fromisoformat(asked[0])
    return max(0, WAIT_SECONDS[len(asked) - 1] - int(passed.total_seconds()))


def check(purpose: str, phone: str, browser: str, code: str) -> bool:
    """Is it the code that was sent? True once, even if it is sent in many times at once.

    Each answer has cost a try. Outside of a transaction, whose failure would give the try back.
    """
    if current_session().in_transaction:
        raise RuntimeError("a try counts whatever follows: check a code outside of transactions")
    found = row(
        "SELECT id, salt, hash FROM code WHERE phone = ? AND purpose = ? AND browser = ?"
        " AND ended_at IS NULL AND tries < ? AND created_at > ?",
        (phone, purpose, tokens.digest(browser), MAX_TRIES, steady_before(CODE_LIFETIME_SECONDS)),
    )
    if found is None:
        return False
    id, salt, kept = found
    right = compare_digest(kept, _digest(salt, code))
    with transaction():
        counted = execute(
            "UPDATE code SET tries = tries + 1, used = ?, ended_at = ?"
            " WHERE id = ? AND ended_at IS NULL AND tries < ?",
            (int(right), steady_now() if right else None, id, MAX_TRIES),
        )
    return right and counted.rowcount == 1


def is_entered(purpose: str, phone: str, browser: str) -> bool:
    """Has this browser entered a right code of the last half hour, and not spent it yet?"""
    return _find_entered(purpose, phone, browser) is not None


def end_all() -> None:
    """No code is good any more, and no browser has entered one."""
    with transaction():
        execute("UPDATE code SET ended_at = coalesce(ended_at, ?), used = 0", (steady_now(),))


@contextmanager
def spend_entered(purpose: str, phone: str, browser: str) -> Iterator[bool]:
    """Do what needs an entered code once, even if it is asked for many times at once.

    Gives whether it may be done. Where doing it raises, it may be tried again.
    """
    with transaction():
        found = _find_entered(purpose, phone, browser)
        _set_browser(found, b"")
    try:
        yield found is not None
    except BaseException:
        with transaction():
            _set_browser(found, tokens.digest(browser))
        raise


def _find_entered(purpose: str, phone: str, browser: str) -> int | None:
    found = row(
        "SELECT id FROM code WHERE phone = ? AND purpose = ? AND browser = ? AND used = 1"
        " AND ended_at > ? ORDER BY id DESC",
        (phone, purpose, tokens.digest(browser), steady_before(ENTERED_LIFETIME_SECONDS)),
    )
    return found and found[0]


def _set_browser(id: int | None, browser: bytes) -> None:
    execute("UPDATE code SET browser = ? WHERE id = ?", (browser, id))


def _digest(salt: bytes, code: str) -> bytes:
    # A slow hash would gain nothing: a million codes are soon tried, and a code soon ends.
    return hashlib.sha256(salt + tokens.digest(code)).digest()


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete codes a day after they were sent."""
    return delete_oldest("code", "created_at", erasing_before(sweeps.DAY_SECONDS), max_rows)
