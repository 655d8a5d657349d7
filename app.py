"""The WSGI app `app`, and the command line: `python app.py …`."""

import gc
import signal

if __name__ == "__main__":
    gc.disable()  # until all is imported: to look for garbage in it takes a tenth of a start
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends the program without a traceback while it is imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

from crm import cli, create_app  # noqa: E402

if __name__ == "__main__":
    cli.main()
else:
    app = create_app()
    app.cli.add_command(cli.group, "crm")
