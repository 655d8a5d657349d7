"""The steps of commands that change a machine: its files, its users and its services."""

import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from crm.errors import CRMError
from crm.messages import Undelivered
from crm.messages.deadline_connection import send_request

ROOT = Path("/")
READY_TIMEOUT_SECONDS = 60


class Machine:
    """The machine, or one below the folder `root`. Each step is printed, and done unless dry."""

    def __init__(self, root: Path, dry_run: bool) -> None:
        self.is_other = root != ROOT
        self.root, self._dry_run = root, dry_run

    def require_root_user(self) -> None:
        """Raise CRMError for a user who may not change this machine."""
        if os.geteuid() and not self._dry_run and not self.is_other:
            raise CRMError("run it as root, by sudo; --dry-run prints the steps to anybody")

    def at(self, path: Path) -> Path:
        """Return where a path of the machine is."""
        return self.root / path.relative_to("/")

    def step(self, text: str) -> bool:
        """Print a step, and return whether it is to be done."""
        click.echo(text)
        return not self._dry_run

    def find_user(self, name: str) -> tuple[int, int] | None:
        """Return the ids of a user and of its group, or None if there is no such user."""
        path = self.at(Path("/etc/passwd"))
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            fields = line.split(":")
            if fields[0] == name:
                return int(fields[2]), int(fields[3])
        return None

    def make_folder(self, path: Path, user: str) -> None:
        """Make a folder that only this user may enter."""
        if self.at(path).is_dir():
            click.echo(f"is there: {path}")
        elif self.step(f"make the folder {path} of {user}"):
            self.at(path).mkdir(mode=0o700, parents=True)
            self._give(path, user)

    def write(self, path: Path, text: str, user: str | None = None, replace: bool = False) -> None:
        """Write a file, of root or for `user` alone; one that differs is kept unless `replace`."""
        file = self.at(path)
        before = file.read_text("utf-8") if file.exists() else None
        if before == text:
            click.echo(f"is there: {path}")
        elif before is not None and not replace:
            click.echo(f"is kept, though it differs from what --replace would write: {path}")
        elif self.step(f"write {path}"):
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = file.with_name(f".{file.name}.new")
            draft.touch(0o600 if user else 0o644)
            draft.write_text(text, "utf-8")
            os.replace(draft, file)
            if user:
                self._give(path, user)

    def link(self, path: Path, target: Path) -> None:
        """Make a link lead to a target beside it, in one moment."""
        link = self.at(path)
        if link.is_symlink() and link.readlink() == Path(target.name):
            click.echo(f"is there: {path} -> {target.name}")
        elif self.step(f"link {path} -> {target.name}"):
            draft = link.with_name(f".{link.name}.new")
            draft.unlink(missing_ok=True)
            draft.symlink_to(target.name)
            os.replace(draft, link)

    def run(
        self, *words: object, user: str | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        """Run a program, as another user if one is named. Raises CRMError if it fails.

        Below another root it is the caller who runs it: the user is one of that system.
        """
        command = [str(word) for word in words]
        if not self.step(f"run {shlex.join(command)}" + (f" as {user}" if user else "")):
            return
        ids: dict[str, Any] = {}
        if user and not self.is_other and (account := self.find_user(user)):
            ids = {"user": account[0], "group": account[1], "extra_groups": ()}
        if subprocess.run(command, env=environ, cwd="/", **ids).returncode:
            raise CRMError(f"{shlex.join(command)} failed")

    def systemctl(self, *words: str) -> None:
        """Call systemctl; below another root only to enable units."""
        if not self.is_other:
            self.run("systemctl", *words)
        elif words[0] == "enable":
            units = [word for word in words if word != "--now"]
            self.run("systemctl", f"--root={self.root}", *units)

    def wait_until_ready(self, port: int) -> None:
        """Wait until the service answers that it is ready. Raises CRMError."""
        if self.is_other or not self.step(f"wait until http://127.0.0.1:{port}/readyz says so"):
            return
        until = time.monotonic() + READY_TIMEOUT_SECONDS
        while not _is_ready(port):
            if time.monotonic() > until:
                raise CRMError("the service does not become ready; see `journalctl -u crm`")
            time.sleep(0.5)

    def _give(self, path: Path, user: str) -> None:
        if (ids := self.find_user(user)) and not os.geteuid():
            os.chown(self.at(path), *ids)


def _is_ready(port: int) -> bool:
    with suppress(Undelivered):
        return send_request("GET", f"http://127.0.0.1:{port}/readyz", {})[0] == 200
    return False


dry_run_option = click.option("--dry-run", is_flag=True, help="Print the steps; change nothing.")
root_option = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True, resolve_path=True),
    default=ROOT,
    show_default=False,
    help="Change the system below this folder, and start nothing.",
)
