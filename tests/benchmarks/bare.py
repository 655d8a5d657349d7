"""c: bare Flask + sqlite3 + standard JSON, the least that could do the same."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request

COLUMNS = (
    *("id", "name", "phone", "email", "company", "source", "status", "assigned_to", "comment"),
    *("created_at", "updated_at"),
)
NAMES = ", ".join(COLUMNS)
SEARCHED = ("name", "phone", "email", "company", "comment")


def connect(file: Path | str) -> sqlite3.Connection:
    """An autocommit connection that waits for the disk at each commit, as the CRM does."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def bare_app(file: Path, rows: list[tuple]) -> tuple[Flask, sqlite3.Connection]:
    """The app over a new file with `rows` in the order of COLUMNS, and the connection it uses."""
    connection = connect(file)
    connection.execute(
        "CREATE TABLE lead (id INTEGER PRIMARY KEY, name TEXT, phone TEXT, email TEXT,"
        " company TEXT, source TEXT, status TEXT, assigned_to INTEGER, comment TEXT,"
        " created_at TEXT, updated_at TEXT)"
    )
    connection.execute("CREATE INDEX lead_status ON lead (status, id)")
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO lead ({NAMES}) VALUES ({', '.join('?' * 11)})", rows)
    connection.execute("COMMIT")
    return app_on(file, connection), connection


def app_on(file: Path | str, first: sqlite3.Connection | None = None) -> Flask:
    """The app over a filled file. Each thread has its own connection; this one may use `first`."""
    app = Flask("bare")
    local = threading.local()
    if first:
        local.connection = first

    def connection() -> sqlite3.Connection:
        try:
            return local.connection
        except AttributeError:
            local.connection = connect(file)
            return local.connection

    def as_dict(row: tuple) -> dict[str, Any]:
        return dict(zip(COLUMNS, row, strict=True))

    @app.get("/leads/<int:id>")
    def get_lead(id: int) -> Response:
        row = connection().execute(f"SELECT {NAMES} FROM lead WHERE id = ?", (id,)).fetchone()
        return jsonify(as_dict(row))

    @app.get("/leads")
    def list_leads() -> Response:
        if "q" in request.args:
            where = " OR ".join(f"{name} LIKE ?" for name in SEARCHED)
            values = [f"%{request.args['q']}%"] * len(SEARCHED)
        else:
            where, values = "status = ?", [request.args["status"]]
        before = request.args.get("before", 1 << 62)
        rows = connection().execute(
            f"SELECT {NAMES} FROM lead WHERE ({where}) AND id < ? ORDER BY id DESC LIMIT 50",
            (*values, before),
        )
        body: dict[str, Any] = {"data": [as_dict(row) for row in rows.fetchall()]}
        if "total" in request.args:
            counted = connection().execute(f"SELECT count(*) FROM lead WHERE {where}", values)
            body["total"] = counted.fetchone()[0]
        return jsonify(body)

    @app.post("/leads")
    def create_lead() -> tuple[Response, int]:
        sent = request.get_json()
        values = [sent.get(name) for name in COLUMNS[1:]]
        id = (
            connection()
            .execute(
                f"INSERT INTO lead ({', '.join(COLUMNS[1:])}) VALUES ({', '.join('?' * 10)})",
                values,
            )
            .lastrowid
        )
        return jsonify({"status": "ok", "lead_id": str(id)}), 201

    return app
