"""The WSGI app `app`, and the command line: `python app.py …`."""

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C ends the program without a traceback while it is imported.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

if __name__ == "__main__" and "psycopg" not in sys.modules:
    # peewee imports it where it is installed: a tenth of the start and 8 MB. Whoever sets
    # CRM_DATABASE needs it, by an import of our own; an app of others may need it through peewee.
    sys.modules["psycopg"] = None  # type: ignore[assignment]
    import peewee  # noqa: F401

    del sys.modules["psycopg"]

from crm import cli, create_app  # noqa: E402

if __name__ == "__main__":
    cli.main()
else:
    app = create_app()
    app.cli.add_command(cli.group, "crm")
