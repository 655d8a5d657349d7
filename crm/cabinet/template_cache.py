"""The compiled templates, stored where Python stores its compiled modules.

Who may write there may change the program, too, so what is read from there is as safe as the
modules. To compile the templates of the first page of a process takes ten times as long as to show
it.
"""

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

TEMPLATES = Path(__file__).parent / "templates"


class TemplateCache(FileSystemBytecodeCache):
    """Reads and writes them, where that is possible."""

    def __init__(self) -> None:
        folder = Path(cache_from_source(str(TEMPLATES / "template.py"))).parent
        super().__init__(str(folder), f"%s.{sys.implementation.cache_tag}.pyc")

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)
