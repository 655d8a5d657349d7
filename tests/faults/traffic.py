"""Traffic of all kinds of writes, and what must be there of it after a fault.

Each writer changes records of its own, one request after another. An `Operation` tells when the
request began and when its answer had been read, and what its records looked like afterwards. So of
each writer everything answered before a fault must be there as it was read, and what was under way
must be there as a whole or not at all.
"""

import contextlib
import http.client
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 20
# What other records or the clock change in the view of a record.
OF_OTHERS = {"deals_open", "won_amounts", "used_in_deals", "is_overdue"}
NOUNS = ("lead", "client", "deal", "product", "task")
IMPORTED_ROWS = 20


class Stopped(Exception):
    """No server will answer any more."""


class Strange(Exception):
    """An answer that no fault explains."""


@dataclass
class Operation:
    """A change: `begun` and `ended` are places in a trace, `after` the views of its records by
    path; None: it is not there."""

    what: str
    begun: int
    ended: int
    after: dict[str, Any]


Look = Callable[[str], Any]  # the view of a record by its path, None if it is not there


def without_others(view: Any) -> Any:
    """A view without what other records change in it."""
    if isinstance(view, list):
        return [without_others(row) for row in view]
    if isinstance(view, dict):
        return {name: value for name, value in view.items() if name not in OF_OTHERS}
    return view


class Caller:
    """A client of the API that sends each request until it is answered, to whichever server there
    is now."""

    def __init__(self, key: str, label: str = "acme") -> None:
        self.port = 0
        self.stopped = threading.Event()
        self.interrupted = 0
        self.headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        """One attempt: status, headers and body. Raises OSError, HTTPException."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(link):
            link.request(method, path, body, headers)
            answer = link.getresponse()
            return answer.status, answer.headers, answer.read()

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        headers = self.headers | (headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        while not self.stopped.is_set():
            try:
                status, _, said = self.send(method, f"/api/v1{path}", body, headers)
            except (OSError, http.client.HTTPException):
                self.interrupted += 1
                time.sleep(0.02)
                continue
            return status, json.loads(said) if said else None
        raise Stopped

    def look(self, path: str) -> Any:
        return view_of(path, *self.call("GET", path))


def view_of(path: str, status: int, said: Any) -> Any:
    """What an answer to GET shows of a record or a list."""
    if status == 404:
        return None
    if status != 200:
        raise Strange(f"GET {path}: {status} {said}")
    return without_others(said["data"] if set(said) == {"data", "meta"} else said)


class Writer(threading.Thread):
    """A client that changes records of all kinds, until it is told to stop."""

    def __init__(
        self,
        number: int,
        caller: Caller,
        place: Callable[[], int] = lambda: 0,
        pause_seconds: float = 0.0,
    ) -> None:
        super().__init__(daemon=True)
        self.number, self.caller, self.place = number, caller, place
        self.pause_seconds = pause_seconds
        self.over = threading.Event()
        self.operations: list[Operation] = []
        self.error: Exception | None = None
        self._keys = count()

    def run(self) -> None:
        stories = self.stories()
        turn = self.number % len(stories)  # not all tell the same story at the same time
        try:
            for number in count():
                for story in stories[turn:] + stories[:turn]:
                    story(f"{self.number}-{number}")
                    if self.over.is_set():
                        return
        except Stopped:
            pass
        except Exception as error:
            self.error = error

    def stories(self) -> tuple[Callable[[str], None], ...]:
        return (
            self.lead,
            self.conversion,
            self.product,
            self.client,
            self.deal,
            self.task,
            self.webhook,
            self.price_list,
        )

    def note(self, what: str, after: dict[str, Any]) -> None:
        """A change that has been answered, and which records it changed."""
        self.operations.append(Operation(what, self.place(), self.place(), after))

    def do(
        self,
        method: str,
        path: str,
        body: Any = None,
        *paths: str | Callable[[Any], str],
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Make a change that must succeed, then look at the records it concerns: `paths`, or what
        gives a path by the answer."""
        begun = self.place()
        headers = dict(headers or {})
        if method == "POST":
            headers["Idempotency-Key"] = f"{self.number}-{next(self._keys)}"
        status, said = self.caller.call(method, path, body, headers)
        if status == 404 and method == "DELETE":
            pass  # the first attempt, whose answer was lost, has done it
        elif not 200 <= status < 300:
            raise Strange(f"{method} {path}: {status} {said}")
        ended = self.place()
        names = [each if isinstance(each, str) else each(said) for each in paths or (path,)]
        after = {name: self.caller.look(name) for name in names}
        self.operations.append(Operation(f"{method} {path}", begun, ended, after))
        time.sleep(self.pause_seconds)
        return said

    def add(self, path: str, body: Any, *more: str) -> str:
        """POST a record; gives its id."""

        def own(said: Any) -> str:
            return f"{path}/{id_of(said)}"

        return id_of(self.do("POST", path, body, own, *more))

    # Stories, each about records of its own

    def lead(self, name: str) -> None:
        about = {"name": f"Лід {name}", "email": f"{name}@lead.example", "source": "fault"}
        id = self.add("/leads", about)
        self.do("PATCH", f"/leads/{id}", {"comment": "Передзвонити", "tags": ["терміново", name]})
        notes = f"/leads/{id}/notes"
        self.do("POST", notes, {"text": f"Перша {name}"}, notes)
        note = id_of(self.do("POST", notes, {"text": f"Друга {name}"}, notes))
        self.do("DELETE", f"{notes}/{note}", None, notes)
        gone = self.add("/leads", {"name": f"Зайвий {name}", "email": f"gone-{name}@lead.example"})
        self.do("DELETE", f"/leads/{gone}")

    def conversion(self, name: str) -> None:
        id = self.add("/leads", {"name": f"Покупець {name}", "email": f"{name}@buyer.example"})
        self.do(
            "POST",
            f"/leads/{id}/convert",
            {"amount": 1000},
            f"/leads/{id}",
            lambda said: f"/clients/{said['client_id']}",
            lambda said: f"/deals/{said['deal_id']}",
        )

    def product(self, name: str) -> None:
        id = self.add("/products", {"sku": f"P-{name}", "name": f"Стіл {name}", "price": "99.99"})
        self.do("PATCH", f"/products/{id}", {"price": "120.5", "description": "Дуб. " * 300})
        gone = self.add("/products", {"sku": f"G-{name}", "name": "Ніколи", "price": 1})
        self.do("DELETE", f"/products/{gone}")

    def client(self, name: str) -> None:
        contacts = [{"name": f"Ганна {name}"}, {"name": f"Богдан {name}", "is_primary": True}]
        about = {"name": f"ТОВ {name}", "type": "company", "tags": ["опт"], "contacts": contacts}
        id = self.add("/clients", about)
        contacts = self.caller.look(f"/clients/{id}")["contacts"]
        kept = {"id": contacts[1]["id"], "position": "директор"}
        change = {"contacts": [kept], "tags": ["опт", name]}
        self.do("PATCH", f"/clients/{id}", change)
        gone = self.add("/clients", {"name": f"Чернетка {name}"})
        self.do("DELETE", f"/clients/{gone}")

    def deal(self, name: str) -> None:
        product = self.add("/products", {"sku": f"D-{name}", "name": "Шафа", "price": "10.01"})
        client = self.add("/clients", {"name": f"Замовник {name}"})
        id = self.add("/deals", {"title": f"Кухня {name}", "client_id": client})
        items = f"/deals/{id}/items"
        both = (f"/deals/{id}", items)
        line = {"product_id": product, "quantity": 3, "discount": "5"}
        first = id_of(self.do("POST", items, line, *both))
        more = [line, {"name": "Доставка", "price": 350, "quantity": 1}]
        self.do("POST", items, {"items": more}, *both)
        self.do("PATCH", f"{items}/{first}", {"quantity": 7}, *both)
        self.do("DELETE", f"{items}/{first}", None, *both)
        self.do("PUT", items, {"items": more[::-1]}, *both)
        self.do("PATCH", f"/deals/{id}", {"status": "won"})
        gone = self.add("/deals", {"title": f"Помилка {name}"})
        self.do("DELETE", f"/deals/{gone}")

    def task(self, name: str) -> None:
        id = self.add("/tasks", {"title": f"Подзвонити {name}", "type": "call"})
        self.do("PATCH", f"/tasks/{id}", {"priority": "high", "status": "in_progress"})
        self.do("POST", f"/tasks/{id}/complete", {"result": "Домовились"}, f"/tasks/{id}")

    def webhook(self, name: str) -> None:
        about = {"url": f"https://{name}.example.com/", "events": ["lead.created"], "active": False}
        id = self.add("/webhooks", about)
        self.do("PATCH", f"/webhooks/{id}", {"description": "ERP"})
        self.do("DELETE", f"/webhooks/{id}")  # a tenant has at most ten

    def price_list(self, name: str) -> None:
        """Two imports: the second changes half of the rows and adds as many."""
        half = IMPORTED_ROWS // 2
        for begun, price in ((0, 10), (half, 20)):
            rows = [f"I-{name}-{n},Полиця {n},{price}.5,I-{name}\r\n"
                    for n in range(begun, begun + IMPORTED_ROWS)]  # fmt: skip
            body = (
                "--edge\r\nContent-Disposition: form-data; name=file; filename=prices.csv\r\n\r\n"
                f"sku,name,price,category\r\n{''.join(rows)}\r\n--edge--\r\n"
            ).encode()
            headers = {"Content-Type": "multipart/form-data; boundary=edge"}
            found = f"/products?category=I-{name}&limit=200"
            self.do("POST", "/products/import", body, found, headers=headers)


def id_of(said: Any) -> str:
    """The id that a POST gave."""
    (id,) = (value for name, value in said.items() if name.endswith("_id"))
    return id


# What must be there


def losses(operations: list[Operation], look: Look, cut: float = float("inf")) -> Iterator[str]:
    """What is not as one writer's operations left it at a place of the trace."""
    before: dict[str, Any] = {}
    under_way: dict[str, Any] = {}
    for operation in operations:
        if operation.ended <= cut:
            before |= operation.after
        elif operation.begun <= cut:
            under_way = operation.after
            what = operation.what
    # It may have been committed and not answered.
    wholly = {path: look(path) == view for path, view in under_way.items()}
    if any(wholly.values()):
        before |= under_way
        if not all(wholly.values()):
            untouched = [path for path, view in under_way.items() if view == before.get(path)]
            if set(untouched) != set(under_way):
                yield f"{what} is there in parts: {wholly}"
    for path, view in before.items():
        found = look(path)
        if found != view:
            yield f"{path} is {found}\n  instead of {view}"


def faults_inside(path: Path, has_gaps: bool = False) -> Iterator[str]:
    """What is not whole in a tenant's file, or disagrees. `has_gaps`: it was restored, so that
    numbers of events are left out."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:

        def rows(sql: str) -> list[tuple]:
            return file.execute(sql).fetchall()

        if (found := rows("PRAGMA integrity_check")) != [("ok",)]:
            yield f"integrity_check: {found[:3]}"
            return
        if found := rows("PRAGMA foreign_key_check"):
            yield f"foreign_key_check: {found[:3]}"
        for noun in NOUNS:
            try:
                rows(f"INSERT INTO {noun}_search ({noun}_search, rank) "
                     "VALUES ('integrity-check', 1)")  # fmt: skip
            except sqlite3.DatabaseError as error:
                yield f"the search index of {noun}: {error}"
        sequence = [number for (number,) in rows("SELECT sequence FROM event ORDER BY sequence")]
        if not has_gaps and sequence != list(range(1, len(sequence) + 1)):
            yield "the events have gaps"
        for what, sql in _DISAGREEMENTS.items():
            if found := rows(sql):
                yield f"{what}: {found[:3]}"


_DISAGREEMENTS = (
    {
        f"the versions of a {noun} and its trail of changes": f"""
        SELECT id, version, (SELECT count(*) FROM change
                             WHERE change.noun = '{noun}' AND record_id = {noun}.id) AS changes
        FROM {noun} WHERE version <> 1 + changes + (deleted_at IS NOT NULL)
    """
        for noun in NOUNS
    }
    | {
        f"a {noun} and its event of creation": f"""
        SELECT id, (SELECT count(*) FROM event
                    WHERE type = '{noun}.created' AND record_id = {noun}.id) AS events
        FROM {noun} WHERE events <> 1 {"AND sku NOT LIKE 'I-%'" if noun == "product" else ""}
    """
        for noun in NOUNS
    }
    | {
        f"a {noun} and what its events tell": f"""
        SELECT sequence, event.type, {noun}.version FROM event
        JOIN {noun} ON event.noun = '{noun}' AND record_id = {noun}.id
        WHERE data ->> '$.{noun}.version' > {noun}.version
           OR (data ->> '$.{noun}.version' = {noun}.version
               AND data ->> '$.{noun}.updated_at' <> {noun}.updated_at)
    """
        for noun in NOUNS
    }
    | {
        "the changes of a client and their events": """
        SELECT id, (SELECT count(*) FROM change
                    WHERE noun = 'client' AND record_id = client.id) AS changes,
                   (SELECT count(*) FROM event
                    WHERE type = 'client.updated' AND record_id = client.id) AS events
        FROM client WHERE changes <> events
    """,
        "the changes of a product and their events": """
        SELECT id, (SELECT count(*) FROM change
                    WHERE noun = 'product' AND record_id = product.id) AS changes,
                   (SELECT count(*) FROM event
                    WHERE type = 'product.updated' AND record_id = product.id) AS events
        FROM product WHERE changes <> events AND sku NOT LIKE 'I-%'
    """,
        "a task that is done and its event": """
        SELECT id FROM task WHERE (status = 'done') <> (SELECT count(*) FROM event
            WHERE type = 'task.completed' AND record_id = task.id)
    """,
        "the amount of a deal and its items": """
        SELECT id, amount, (SELECT sum(total) FROM deal_item WHERE deal_id = deal.id) AS total
        FROM deal WHERE amount_mode = 'items' AND amount IS NOT total
    """,
        "a deal and its last move": """
        SELECT id, stage_id FROM deal WHERE stage_id IS NOT
            (SELECT to_stage_id FROM stage_move WHERE deal_id = deal.id ORDER BY id DESC LIMIT 1)
    """,
        "a conversion": """
        SELECT id, status, client_id, deal_id FROM lead
        WHERE (status = 'converted') <> (deal_id IS NOT NULL AND client_id IS NOT NULL)
           OR (status = 'converted') <> (SELECT count(*) FROM event
                WHERE type = 'lead.converted' AND record_id = lead.id)
           OR (deal_id IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM deal WHERE deal.id = lead.deal_id AND deal.lead_id = lead.id))
    """,
        "a closed deal and its event": """
        SELECT id FROM deal WHERE (status = 'won') <> (SELECT count(*) FROM event
            WHERE type = 'deal.won' AND record_id = deal.id)
    """,
        "imports and their events": """
        SELECT imports, events FROM (SELECT count(*) AS imports FROM price_import
                WHERE noun = 'product'),
            (SELECT count(*) AS events FROM event WHERE type = 'product.imported')
        WHERE imports <> events
    """,
        "a price of an import": """
        SELECT category, count(*) FROM product WHERE category LIKE 'I-%'
        GROUP BY category HAVING count(*) NOT IN (20, 30)
    """,
    }
)
