"""The floor: an event loop in Python over SQLite with finished JSON: `… floor FILE PORT`.

It shows what is left for everything else: there is no framework, key, limit, log, check, event or
search index. Writes are as durable as the CRM's (`synchronous=FULL`), those of one round of the
loop together in one transaction.
"""

import json
import selectors
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.benchmarks.bare import COLUMNS, SEARCHED, connect

INSERT = "INSERT INTO lead (status, search, json) VALUES (?, ?, ?)"
PAGE = "SELECT json FROM lead WHERE {} AND id < ? ORDER BY id DESC LIMIT 50"


def fill(file: Path, rows: list[tuple]) -> None:
    """Make the file, with `rows` in the order of COLUMNS."""
    with closing(connect(file)) as connection:
        connection.execute(
            "CREATE TABLE lead (id INTEGER PRIMARY KEY, status TEXT, search TEXT, json BLOB)"
        )
        connection.execute("CREATE INDEX lead_status ON lead (status, id)")
        connection.execute("BEGIN")
        leads = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        connection.executemany(INSERT, map(stored, leads))
        connection.execute("COMMIT")


def stored(lead: dict[str, Any]) -> tuple[str, str, bytes]:
    """The values of a row."""
    text = "\n".join(str(lead.get(name)) for name in SEARCHED).casefold()
    return lead["status"], text, json.dumps(lead, ensure_ascii=False).encode()


def answer(connection: sqlite3.Connection, method: str, target: str, body: bytes) -> bytes:
    """The body of the answer; a POST has begun a transaction, and is not committed yet."""
    url = urlsplit(target)
    if method == "POST":
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        id = connection.execute(INSERT, stored(json.loads(body))).lastrowid
        return b'{"status":"ok","lead_id":"%d"}' % id
    if not url.query:
        select = "SELECT json FROM lead WHERE id = ?"
        return connection.execute(select, (url.path.rpartition("/")[2],)).fetchone()[0]
    sent = {name: values[0] for name, values in parse_qs(url.query).items()}
    where, value = "status = ?", sent.get("status", "")
    if "q" in sent:
        where, value = "instr(search, ?) > 0", sent["q"].casefold()
    before = sent.get("before", 1 << 62)
    rows = connection.execute(PAGE.format(where), (value, before)).fetchall()
    total = b""
    if "total" in sent:
        count = connection.execute(f"SELECT count(*) FROM lead WHERE {where}", (value,))
        total = b',"total":%d' % count.fetchone()[0]
    return b'{"data":[%b]%b}' % (b",".join(row for (row,) in rows), total)


def serve(file: str, port: int) -> None:
    connection = connect(file)
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        waiting = []  # for the commit: the socket of each, and its answer
        for key, _ in selector.select():
            if key.fileobj is listener:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(client, selectors.EVENT_READ)
                continue
            client: Any = key.fileobj
            try:
                received = client.recv(65536)  # wrk sends a request at once
            except ConnectionResetError:  # and leaves in the midst of one
                received = b""
            if not received:
                selector.unregister(client)
                client.close()
                continue
            head, _, body = received.partition(b"\r\n\r\n")
            method, target = head.split(b" ", 2)[:2]
            text = answer(connection, method.decode(), target.decode(), body)
            status = b"201 Created" if method == b"POST" else b"200 OK"
            head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            reply = head % (status, len(text)) + text
            if method == b"POST":
                waiting.append((client, reply))
            else:
                client.sendall(reply)
        if waiting:
            connection.execute("COMMIT")
            for client, reply in waiting:
                client.sendall(reply)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
