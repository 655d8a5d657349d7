"""A lightweight, embeddable, multi-tenant CRM: one process, one SQLite file per tenant."""

import signal
import sys
from pathlib import Path

# Ctrl-C ends our own program without a traceback while it is imported; `crm.cli.main` goes on.
is_program = Path(sys.argv[0]).name in ("-m", "crm", "crm.pyz")
if is_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from crm.embedding import CRM  # noqa: E402
from crm.wsgi import CRMApp, create_app  # noqa: E402

__all__ = ["CRM", "CRMApp", "create_app"]
__version__ = "0.2.0.dev0"
