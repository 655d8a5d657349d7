"""Traffic of all kinds of writes, and what must be there of it after a fault.

Each writer changes records of its own, one request after another. An `Operation` tells when the
request began and when its answer had been read, and what its records looked like afterwards. So of
each writer everything answered before a fault must be there as it was read, and what was under way
must be there as a whole or not at all.
"""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

PATIENCE_SECONDS = 20
# What other records or the clock change in the view of a record.
OF_OTHERS = {"deals_open", "won_amounts", "used_in_deals", "is_overdue"}
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
        names = [item if isinstance(item, str) else item(said) for item in paths or (path,)]
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
            result = f"/products?category=I-{name}&limit=200"
            self.do("POST", "/products/import", body, result, headers=headers)


def id_of(said: Any) -> str:
    """The id that a POST gave."""
    (id,) = (value for name, value in said.items() if name.endswith("_id"))
    return id
