"""The data of one tenant: its session, statements and files, whatever the engine."""
