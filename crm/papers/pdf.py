"""The PDF of a paper: PDF/A-3b, made by Typst in a process of its own, within limits."""

import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from signal import SIGABRT
from subprocess import TimeoutExpired, run
from tempfile import TemporaryDirectory, gettempdir
from threading import BoundedSemaphore
from typing import Any

from crm import child_process
from crm.activity import apart, waiting
from crm.errors import Busy, Conflict
from crm.json import dumps
from crm.papers import compiler, qr
from crm.papers.layout import show

TEMPLATES = Path(__file__).parent
TIMEOUT = 10.0  # seconds; the child itself bounds its CPU time and memory
PREFIX, LEFT_SECONDS = "crm-paper-", 3600  # of temporary folders
TURN_SECONDS = 20.0  # that a paper waits for others
SUBCOMMAND = "compile-paper"  # of the single file that needs no Python (`.ci/build`)

_places = BoundedSemaphore(os.cpu_count() or 1)


class NoTypst(Conflict):
    """Typst is not installed, or not in the single file."""

    code = "pdf_not_installed"
    detail = (
        "this installation has no Typst, which makes PDFs: pip install 'crm[pdf]', or a single file"
        " built with --extra pdf, has it; the page prints as well"
    )


class PdfFailed(Busy):
    """A PDF was not made in time, or within the other limits."""

    code, detail = "pdf_failed", "the PDF could not be made: try again, or print the page"


def is_installed() -> bool:
    """Whether PDFs can be made here."""
    return find_spec("typst") is not None


def compile(snapshot: dict[str, Any], pictures: dict[str, bytes]) -> bytes:
    """The PDF of a paper. The same snapshot and pictures give the same bytes.

    pictures: "logo", and those that lines of offers name by `picture`: PNG, JPEG, WebP or GIF. It
    is made without them if one is unusable. Raises NoTypst, PdfFailed, and Busy while others are
    made for long.
    """
    typst = find_spec("typst")
    if typst is None or typst.origin is None:
        raise NoTypst
    if not _places.acquire(timeout=TURN_SECONDS):
        raise Busy("other papers are being made: try again in a moment")
    packages = Path(typst.origin).parent.parent
    try:
        status, pdf = _compile(snapshot, pictures, packages)
        if status in (1, -SIGABRT) and pictures:  # damaged, or too large for the memory
            status, pdf = _compile(snapshot, {}, packages)
    except TimeoutExpired:
        raise PdfFailed(reason=f"no PDF in {TIMEOUT} seconds") from None
    finally:
        _places.release()
    if status:
        raise PdfFailed(reason=f"Typst's process ended with {status}")
    return pdf


def _delete_left() -> None:
    """Delete what a killed process has left: it says what papers say."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process deletes it, or it is another user's
            if folder.stat().st_mtime < time.time() - LEFT_SECONDS:
                shutil.rmtree(folder)


def _compile(
    snapshot: dict[str, Any], pictures: dict[str, bytes], packages: Path
) -> tuple[int, bytes]:
    """The exit status of the process, and the PDF."""
    data = show(snapshot)
    files = pictures | ({"qr": qr.picture(data["qr"]).encode()} if data["qr"] else {})
    paths = {name: f"/picture-{number}" for number, name in enumerate(files)}
    data |= {name: paths.get(name, "") for name in ("logo", "qr")}
    for row in data["rows"]:
        row["picture"] = paths.get(row["picture"], "")
    midnight = datetime.fromisoformat(snapshot["date"]).replace(tzinfo=UTC)
    _delete_left()
    with TemporaryDirectory(prefix=PREFIX) as folder:
        for name in ("paper.typ", f"{data['kind']}.typ"):
            Path(folder, name).write_bytes((TEMPLATES / name).read_bytes())
        Path(folder, "data.json").write_bytes(dumps(data))
        for name, path in paths.items():
            Path(folder, path[1:]).write_bytes(files[name])
        command = child_process.command(SUBCOMMAND, compiler.__file__)
        command += [folder, data["kind"], str(int(midnight.timestamp())), str(packages)]
        with apart(), waiting():
            child = run(command, capture_output=True, cwd=folder, timeout=TIMEOUT)
        return child.returncode, child.stdout
