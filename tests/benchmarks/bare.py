"""c: bare Flask + sqlite3 + standard JSON, the least that could do the same."""

import sqlite3
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request

COLUMNS = (
    *("id", "name", "phone", "email", "company", "source", "status", "assigned_to", "comment"),
    *("created_at", "updated_at"),
)


def bare_app(file: Path, rows: list[tuple]) -> tuple[Flask, sqlite3.Connection]:
    """The app over a new file with `rows` in the order of COLUMNS."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    names = ", ".join(COLUMNS)
    connection.execute(
        "CREATE TABLE lead (id INTEGER PRIMARY KEY, name TEXT, phone TEXT, email TEXT,"
        " company TEXT, source TEXT, status TEXT, assigned_to INTEGER, comment TEXT,"
        " created_at TEXT, updated_at TEXT)"
    )
    connection.execute("CREATE INDEX lead_status ON lead (status, id)")
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO lead ({names}) VALUES ({', '.join('?' * 11)})", rows)
    connection.execute("COMMIT")
    app = Flask("bare")

    def shown(row: tuple) -> dict[str, Any]:
        return dict(zip(COLUMNS, row, strict=True))

    @app.get("/leads/<int:id>")
    def get_lead(id: int) -> Response:
        row = connection.execute(f"SELECT {names} FROM lead WHERE id = ?", (id,)).fetchone()
        return jsonify(shown(row))

    @app.get("/leads")
    def list_leads() -> Response:
        found = connection.execute(
            f"SELECT {names} FROM lead WHERE status = ? ORDER BY id DESC LIMIT 50",
            (request.args["status"],),
        ).fetchall()
        return jsonify({"data": [shown(row) for row in found]})

    @app.post("/leads")
    def create_lead() -> tuple[Response, int]:
        sent = request.get_json()
        values = [sent.get(name) for name in COLUMNS[1:]]
        id = connection.execute(
            f"INSERT INTO lead ({', '.join(COLUMNS[1:])}) VALUES ({', '.join('?' * 10)})", values
        ).lastrowid
        return jsonify({"status": "ok", "lead_id": str(id)}), 201

    return app, connection
