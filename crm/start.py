"""The start of a command: the program is imported sooner than by an import alone.

Its parts take a fifth of a start together. A site that embeds the CRM imports it as it stands.
"""

import gc
import re
import signal
from functools import cached_property
from typing import Any


def main() -> None:
    """Import the command line, run it and exit."""
    gc.disable()  # until all is imported: to look for garbage in it takes a tenth of the time
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends the program without a traceback while it is imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_marshmallow()
    from crm import cli

    gc.freeze()  # what is imported stays
    gc.enable()
    cli.group()


compile_pattern = re.compile


class LazyPattern:
    """A regular expression that is compiled when it is used; it takes what re.compile() takes."""

    def __init__(self, *expression: Any):
        self._expression = expression

    @cached_property
    def _compiled(self) -> re.Pattern:
        return compile_pattern(*self._expression)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of every attribute of a class
            raise AttributeError(name)
        return getattr(self._compiled, name)


def import_marshmallow() -> None:
    """Import marshmallow without compiling its expressions of addresses, which nothing here uses.

    One of them, of domains in every script, takes 26 ms. marshmallow has no option for it.
    """
    import flask  # noqa: F401  (so that nothing else is imported with marshmallow)

    re.compile = LazyPattern  # type: ignore[assignment]
    try:
        import marshmallow  # noqa: F401
    finally:
        re.compile = compile_pattern
