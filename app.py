"""The WSGI app `app`, and the command line: `python app.py …`."""

from crm import cli, create_app

if __name__ == "__main__":
    cli.main()
else:
    app = create_app()
    app.cli.add_command(cli.group, "crm")
