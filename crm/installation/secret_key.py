"""The installation's secret: `<data>/secret.key`.

It signs the forms of pages, and names in counters are digested with it.
"""

import logging
import secrets
from pathlib import Path

from crm.storage import disk

KEY_BYTES = 32
KEY_FILE = "secret.key"

log = logging.getLogger("crm")


def load_secret_key(data: Path) -> bytes:
    """Read the key from the data folder; create it if it is missing or has a wrong length.

    Raises StorageFull or OSError.
    """
    if len(key := _read(data)) == KEY_BYTES:
        return key
    disk.make_folder(data)
    with disk.locked(data):
        if len(_read(data)) != KEY_BYTES:  # else another process has created it meanwhile
            if (data / KEY_FILE).exists():
                log.warning(
                    "secret.key has a wrong length and is made anew: open forms are to be reloaded,"
                    " limits count from zero; sessions, API keys and data are not affected"
                )
            disk.write_file(data / KEY_FILE, secrets.token_bytes(KEY_BYTES))
        return _read(data)


def new_key(data: Path) -> bytes:
    """Return a key for all nodes: that with which the tenants in files were served until now, or a
    new one."""
    key = _read(data)
    return key if len(key) == KEY_BYTES else secrets.token_bytes(KEY_BYTES)


def _read(data: Path) -> bytes:
    """Return what is in the file; nothing if there is none."""
    try:
        return (data / KEY_FILE).read_bytes()
    except FileNotFoundError:
        return b""
