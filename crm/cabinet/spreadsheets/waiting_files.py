"""Files that wait between the steps of an import, each with how it is to be read."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from werkzeug.wrappers import Response

from crm.cabinet.languages import gettext
from crm.cabinet.rendering import me, see_other
from crm.errors import NotFound
from crm.json import dumps, loads
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.storage import uploads


class WaitingFile(NamedTuple):
    """A file for one resource."""

    plural: str
    name: str
    data: bytes
    options: ImportOptions = PLAIN

    def save(self) -> str:
        """Store the file for this session and give the name of the upload."""
        head = dumps([self.plural, " ".join(self.name.split()), self.options.as_json()])
        return uploads.save(me().id, b"\n".join((head, self.data)))


def unpack(plural: str, packed: bytes) -> WaitingFile:
    """The file of an upload; raises NotFound for a file of another resource."""
    head, _, data = packed.partition(b"\n")
    file_plural, file_name, options = loads(head)
    if file_plural != plural:
        raise NotFound
    return WaitingFile(plural, file_name, data, ImportOptions.from_json(options))


def read(plural: str, upload: str) -> WaitingFile:
    """The file of an upload of this session; raises NotFound."""
    return unpack(plural, uploads.read(me().id, upload))


def redirects_when_expired(view: Callable[..., Response]) -> Callable[..., Response]:
    """Let a page of a waiting file redirect to the imports when the file is not there any more."""

    @wraps(view)
    def show(plural: str, name: str, **arguments: Any) -> Response:
        try:
            return view(plural, name, **arguments)
        except NotFound:
            text = gettext("This file has already been imported or has expired.")
            return see_other(f"/{plural}/imports", text, "warning")

    return show
