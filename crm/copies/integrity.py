"""What the doctor needs to know of the data folder's files and owners; its token for a server."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hmac import compare_digest
from pathlib import Path
from pwd import getpwuid

from crm.installation.tenants import Tenants
from crm.storage import disk

TOKEN_SECONDS = 60  # for which the doctor's token is valid


@contextmanager
def doctor_token(tenants: Tenants) -> Iterator[str]:
    """Write a token into the data folder for a `with` block.

    A client that sends it proves to a running server that it may write there; it is valid once.
    """
    path, token = _token_path(tenants), secrets.token_urlsafe(32)
    try:
        disk.write_file(path, token.encode())
        yield token
    finally:
        path.unlink(missing_ok=True)


def is_doctor_token(tenants: Tenants, sent: str) -> bool:
    """Whether a server was sent the token of a doctor that runs now; it is valid once."""
    path = _token_path(tenants)
    try:
        token, written_at = path.read_bytes(), path.stat().st_mtime
    except OSError:
        return False
    if not compare_digest(token, sent.encode("utf-8", "replace")) or not token:
        return False
    path.unlink(missing_ok=True)
    return abs(time.time() - written_at) < TOKEN_SECONDS


def _token_path(tenants: Tenants) -> Path:
    return tenants.config.data / ".doctor"


def list_files(data: Path) -> list[Path]:
    """List all files of a data folder that the service makes."""
    folders = (data, *(data / name for name in ("tenants", "backups", "trash", "uploads")))
    there = [folder for folder in folders if folder.is_dir()]
    return [path for folder in there for path in sorted(folder.iterdir()) if not path.is_dir()]


def user_name(uid: int) -> str:
    """Return the name of a system user; `#<uid>`, as sudo takes it, for one without a name."""
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
