"""Waiting uploads of a tenant in a file: files in a folder of the data folder (uploads.py)."""

import os
from contextlib import suppress
from pathlib import Path

from crm.storage import disk
from crm.storage.uploads import FOLDER, MAX_PER_SESSION, MAX_PER_TENANT


class FileUploads:
    """The waiting uploads of one tenant. Names are valid, times are epoch seconds.

    A file has the time of writing by the tenant's clock, by which it expires.
    """

    def __init__(self, data: Path, label: str):
        self._folder, self._label = data / FOLDER, label

    def save(self, session_id: int, name: str, data: bytes, moment: float) -> None:
        """Save a file, and delete the oldest of too many. Raises OSError."""
        disk.make_folder(self._folder)
        self._make_room(f"{self._label}.", MAX_PER_TENANT)
        self._make_room(f"{self._label}.{session_id}.", MAX_PER_SESSION)
        path = self._path(session_id, name)
        try:
            disk.make(path)
            path.write_bytes(data)
            os.utime(path, (moment, moment))
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def read(self, session_id: int, name: str, after: float) -> bytes | None:
        """Return the content of a file that was saved after a moment."""
        path = self._path(session_id, name)
        try:
            return path.read_bytes() if path.stat().st_mtime > after else None
        except FileNotFoundError:
            return None

    def delete(self, session_id: int, name: str) -> bool:
        """Delete a file; returns False if it is gone."""
        try:
            self._path(session_id, name).unlink()
        except FileNotFoundError:
            return False
        return True

    def delete_until(self, moment: float) -> None:
        """Delete the files of all tenants that were saved until a moment."""
        for saved_at, path in self._files(""):
            if saved_at <= moment:
                path.unlink(missing_ok=True)

    def _make_room(self, prefix: str, max_files: int) -> None:
        """Delete the oldest files of a name prefix: one more then makes at most `max_files`."""
        files = sorted(self._files(prefix))
        for _, path in files[: max(0, len(files) - max_files + 1)]:
            path.unlink(missing_ok=True)

    def _files(self, prefix: str) -> list[tuple[float, Path]]:
        """List (time of writing, path) of the files of a name prefix."""
        files = []
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.startswith(prefix):
                    with suppress(FileNotFoundError):
                        files.append((entry.stat().st_mtime, Path(entry.path)))
        return files

    def _path(self, session_id: int, name: str) -> Path:
        return self._folder / f"{self._label}.{session_id}.{name}.csv"
