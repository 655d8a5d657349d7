"""The WSGI app `app`, and the command line: `python app.py …`."""

if __name__ == "__main__":
    from crm.start import main

    main()
else:
    from crm import cli, create_app

    app = create_app()
    app.cli.add_command(cli.group, "crm")
