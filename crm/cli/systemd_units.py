"""Parts of systemd units, as those of the service and of Litestream have them."""

import re
import shlex
from pathlib import Path
from typing import Any

import click

STATE_FOLDER = Path("/var/lib")  # systemd creates folders of services here
HOME_FOLDERS = ("/home", "/root", "/run/user")
USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")

HARDENING = """\
UMask=0077
ProtectSystem=strict
%(homes)s
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
NoNewPrivileges=yes
CapabilityBoundingSet=
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""


def user_name(_context: Any, _option: Any, name: str) -> str:
    """Callback of an option: the name of a system user. Raises BadParameter."""
    if not USER_NAME.match(name):
        raise click.BadParameter("a user's name looks like crm")
    return name


def command_line(*words: str) -> str:
    """The value of ExecStart for a command line."""
    return " ".join(quoted_word(word, "$") for word in words)


def data_folder(data: Path, user: str) -> str:
    """Return the lines of a unit that allow its service to write in the data folder."""
    if data.is_relative_to(STATE_FOLDER) and data != STATE_FOLDER:
        name = quoted_word(str(data.relative_to(STATE_FOLDER)))
        return f"StateDirectory={name}\nStateDirectoryMode=0700"
    creation = shlex.join(["install", "-d", "-m", "700", "-o", user, str(data)])
    return f"# It must exist: {creation}\nReadWritePaths={quoted_word(str(data))}"


def hardening(paths: tuple[Path, ...]) -> str:
    """The lines of a unit that restrict its service to what it needs, among it these paths."""
    homes = "read-only" if any_below(paths, HOME_FOLDERS) else "yes"
    private = "no" if any_below(paths, TEMPORARY_FOLDERS) else "yes"
    return HARDENING % {"homes": f"ProtectHome={homes}\nPrivateTmp={private}"}


def any_below(paths: tuple[Path, ...], folders: tuple[str, ...]) -> bool:
    """Whether one of the paths is in one of the folders."""
    return any(path.is_relative_to(folder) for path in paths for folder in folders)


def quoted_word(word: str, doubled: str = "") -> str:
    """A word in the quoting of systemd. doubled: characters to double besides the percent sign."""
    for character in f"%{doubled}":
        word = word.replace(character, character * 2)
    if re.fullmatch(r"[\w%$/.=:,@+{}-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(
        character
        if character.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in character.encode())
        for character in escaped
    ) + '"'  # fmt: skip
