"""The installation's secret: `<data>/secret.key`.

It signs the forms of pages, and names in counters are digested with it.
"""

import logging
import secrets
from contextlib import suppress
from pathlib import Path

from crm.tenancy import disk

KEY_BYTES = 32

log = logging.getLogger("crm")


def load_secret_key(data: Path) -> bytes:
    """Read the key from the data folder; create it if it is missing or has a wrong length.

    Raises StorageFull or OSError.
    """
    path = data / "secret.key"
    with suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    disk.make_folder(data)
    with disk.making(data):
        with suppress(FileNotFoundError):
            key = path.read_bytes()
            if len(key) == KEY_BYTES:
                return key  # another process has created it meanwhile
            log.warning(
                "secret.key has %s bytes instead of %s and is made anew: forms that are open in"
                " browsers are to be reloaded, and limits of requests, SMS and passwords count"
                " from zero; sessions, API keys and data are not affected",
                len(key),
                KEY_BYTES,
            )
        disk.write_file(path, secrets.token_bytes(KEY_BYTES))
        return path.read_bytes()
