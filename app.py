"""The WSGI app, and the command line: `python app.py …`."""

from crm import create_app

app = create_app()
