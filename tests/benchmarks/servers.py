"""The servers that are compared, each filled with the same leads: the CRM, PocketBase and c."""

import csv
import http.client
import json
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crm import __version__
from tests.benchmarks.bare import COLUMNS, bare_app
from tests.benchmarks.floor import fill
from tests.benchmarks.hot_path import leads
from tests.benchmarks.processes import ServerProcess, free_port, run
from tests.benchmarks.wrk import ID, MissingProgram, Request

ROOT = Path(__file__).resolve().parent.parent.parent
APP = [sys.executable, str(ROOT / "app.py")]
OPERATIONS = ("GET one", "list of 50", "with total", "search", "create")
CREATE = OPERATIONS[-1]
STATUSES = ("qualified", "new", "in_progress", "unqualified")  # each a quarter of the leads
WORDS = ("Шевченко", "Коваль", "Бондар", "Ткач")  # each in a fifth of the leads, in the same case
PAGES = 3  # of each status that are read
TOTALS_PER_CREATE = 9  # a total that nobody changes would be that of the request before
TIME = "2026-03-02T09:00:00Z"
IMPORT_ROWS = 10_000  # the CRM's limit of rows in one file
SEARCHED = ("name", "phone", "email", "company", "comment")
NEW_LEAD = {
    "name": "Олена Мельник",
    "phone": f"+3805{ID}",
    "email": f"new{ID}@example.com",
    "company": "ТОВ Коваль-7",
    "source": "site",
    "status": "new",
    "comment": "хоче стіл",
}
EMAIL, PASSWORD = "benchmark@example.com", "only-on-loopback"  # of PocketBase


@dataclass
class Server:
    """A server with its data, which can be started any number of times."""

    name: str
    version: str
    durability: str  # SQLite's `synchronous`
    command: Callable[[int], list[str]]  # by port
    folder: Path
    requests: dict[str, tuple[Request, ...]]  # by operation: sent in turn
    operations: tuple[str, ...] = OPERATIONS  # those that are measured
    ids: Callable[[Any], list[int]] = lambda body: [int(row["id"]) for row in body["data"]]
    total: Callable[[Any], int] = lambda body: body["total"]
    environ: dict[str, str] = field(default_factory=dict)
    before_creates: Callable[["Server"], None] = lambda server: None
    after_creates: Callable[["Server"], None] = lambda server: None
    port: int = 0
    process: ServerProcess | None = None
    start_seconds: float = 0

    def start(self) -> None:
        """Start it and wait until it answers a GET of one lead."""
        self.port = free_port()
        self.process = ServerProcess(
            self.command(self.port), self.folder, self.folder / "output.log", **self.environ
        )
        (request,) = self.requests["GET one"]

        def answers() -> bool:
            with suppress(OSError, http.client.HTTPException):
                return self.call(request, 1)[0] == 200
            return False

        self.start_seconds = self.process.wait_until(answers)

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None

    def call(self, request: Request, id: int = 0) -> tuple[int, Any]:
        """Send the request as wrk does; status and JSON body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(connection):
            connection.connect()
            connection.sock.sendall(request.text(id))
            answer = http.client.HTTPResponse(connection.sock, method=request.method)
            answer.begin()
            return answer.status, json.loads(answer.read())


def sample(rows: int) -> list[dict[str, Any]]:
    """The leads of the other benchmarks; the first has id 1."""
    taken = list(islice(leads(), rows))
    if len(taken) != rows:
        raise ValueError(f"there are only {len(taken)} leads")
    return taken


# The CRM


def prepare_crm(folder: Path, rows: list[dict[str, Any]]) -> list[Server]:
    """As it starts by default, and with one process on a copy of the data."""
    one = folder / "crm"
    one.mkdir()
    data = ["--data", str(one / "data")]
    run([*APP, "tenant", "create", "acme", "--plan", "business", *data], ROOT)
    key = run([*APP, "key", "create", "acme", "--name", "benchmark", *data], ROOT)
    columns = [name for name in rows[0] if name != "assigned_to"]
    for begin in range(0, len(rows), IMPORT_ROWS):
        with (one / "leads.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows[begin : begin + IMPORT_ROWS])
        run([*APP, "leads", "import", "acme", str(one / "leads.csv"), *data], ROOT)
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
    path = "/api/v1/leads"
    requests = {"GET one": (Request("GET", f"{path}/{ID}", headers),)}

    def server(name: str, home: Path, *options: str) -> Server:
        return Server(
            name,
            __version__,
            "FULL",
            lambda port: [
                *APP, "serve", "--data", str(home / "data"), "--port", str(port), *options
            ],
            home,
            requests,
            total=lambda body: body["meta"]["total"],
            environ={"CRM_PLANS": "business=0"},
        )  # fmt: skip

    crm = server("CRM", one)
    crm.start()
    try:
        paths = []
        for status in STATUSES:
            paths.append(f"{path}?status={status}")
            for _ in range(PAGES - 1):
                _, body = crm.call(Request("GET", paths[-1], headers))
                if cursor := body["meta"]["next_cursor"]:
                    paths.append(f"{path}?status={status}&cursor={cursor}")
    finally:
        crm.stop()
    create = Request("POST", path, headers, _json(NEW_LEAD), "%08d")
    words = [f"{path}?q={quote(word)}" for word in WORDS]
    requests |= make_requests(paths, "&total=true", words, headers, create)
    single = shutil.copytree(one, folder / "crm-1", ignore=shutil.ignore_patterns("bell"))  # a pipe
    return [crm, server("CRM, 1 process", Path(single), "--workers", "1")]


def make_requests(
    pages: list[str], total: str, words: list[str], headers: dict[str, str], create: Request
) -> dict[str, tuple[Request, ...]]:
    """The requests of all operations but GET one. `total`: what asks a page for its total, too."""

    def get(paths: list[str]) -> list[Request]:
        return [Request("GET", path, headers) for path in paths]

    totals = get([f"{path}{total}" for path in pages])
    mixed = []
    for number in range(len(totals) * TOTALS_PER_CREATE):
        mixed.append(totals[number % len(totals)])
        if number % TOTALS_PER_CREATE == TOTALS_PER_CREATE - 1:
            mixed.append(create)
    return {
        "list of 50": tuple(get(pages)),
        "with total": tuple(mixed),
        "search": tuple(get(words)),
        "create": (create,),
    }


# PocketBase

HOOK = """\
routerAdd("GET", "/synchronous", (e) => {
  if (e.request.url.query().get("set")) {
    $app.nonconcurrentDB().newQuery("PRAGMA synchronous = FULL").execute()
  }
  const row = new DynamicModel({ synchronous: 0 })
  $app.nonconcurrentDB().newQuery("PRAGMA synchronous").one(row)
  return e.json(200, row)
})
"""  # its writes go through one connection, nonconcurrentDB, another one after minutes of rest


def find_pocketbase() -> str:
    """The program: POCKETBASE in the environment, beside this Python, or in PATH."""
    beside = Path(sys.executable).parent / "pocketbase"
    path = os.environ.get("POCKETBASE") or shutil.which(beside) or shutil.which("pocketbase")
    if not path or not shutil.which(path):
        raise MissingProgram(
            f"PocketBase is missing: {sys.executable} -m pip install"
            " -r tests/benchmarks/requirements.txt (or name the program in POCKETBASE)"
        )
    return path


def prepare_pocketbase(folder: Path, rows: list[dict[str, Any]]) -> list[Server]:
    """As it comes, and with synchronous=FULL for creates only, on a copy of the data."""
    program = find_pocketbase()
    version = run([program, "--version"], ROOT).split()[-1]
    one, full = folder / "pocketbase", folder / "pocketbase-full"
    one.mkdir()
    run([program, "--dir", str(one / "data"), "superuser", "upsert", EMAIL, PASSWORD], one)
    records = "/api/collections/leads/records"
    headers = {"Host": "127.0.0.1"}

    def server(name: str, home: Path, durability: str) -> Server:
        return Server(
            name,
            version,
            durability,
            lambda port: [
                program, "serve", "--http", f"127.0.0.1:{port}", "--dir", str(home / "data"),
                "--hooksDir", str(home / "hooks"), "--hooksWatch=false", "--automigrate=false",
            ],
            home,
            {"GET one": (Request("GET", "/api/health", headers),)},  # until there are leads
            ids=lambda body: [int(row["id"]) for row in body["items"]],
            total=lambda body: body["totalItems"],
        )  # fmt: skip

    plain = server("PocketBase", one, "NORMAL")
    plain.start()
    try:
        headers["Authorization"] = _make_collection(plain)
    finally:
        plain.stop()
    with closing(sqlite3.connect(one / "data" / "data.db", isolation_level=None)) as connection:
        names = list(rows[0])
        connection.execute("BEGIN")
        connection.executemany(
            f"INSERT INTO leads (id, {', '.join(names)}, created, updated)"
            f" VALUES ({', '.join('?' * (len(names) + 3))})",
            [
                (f"{id:015}", *(str(row[name]) for name in names), TIME, TIME)
                for id, row in enumerate(rows, 1)
            ],
        )
        connection.execute("COMMIT")
        connection.execute("ANALYZE leads")
    shutil.copytree(one, full)
    (full / "hooks").mkdir()
    (full / "hooks" / "full.pb.js").write_text(HOOK, "utf-8")
    listed = f"{records}?perPage=50&sort=-id&filter="
    paths = [
        listed + quote(f"(status='{status}')") + f"&page={page}&skipTotal="
        for status in STATUSES
        for page in range(1, PAGES + 1)
    ]
    words = [
        listed + quote("(" + "||".join(f"{name}~'{word}'" for name in SEARCHED) + ")")
        for word in WORDS
    ]
    create = Request("POST", records, headers, _json(NEW_LEAD | {"assigned_to": ""}), "%08d")
    plain.requests = {"GET one": (Request("GET", f"{records}/{ID}", headers, id_format="%015d"),)}
    plain.requests |= make_requests(
        [f"{path}true" for path in paths], "", [f"{word}&skipTotal=true" for word in words],
        headers, create,
    )  # fmt: skip
    plain.requests["with total"] = make_requests(
        [f"{path}false" for path in paths], "", words, headers, create
    )["with total"]
    durable = server("PocketBase, FULL", full, "FULL")
    durable.requests, durable.operations = plain.requests, (CREATE,)
    durable.before_creates, durable.after_creates = _set_full, _check_full
    return [plain, durable]


def _make_collection(server: Server) -> str:
    """Make the collection and a user over its API; the token of the user.

    Rules give leads to any user who has logged in: a superuser's token would be checked against no
    rule, as no application's user is, and makes GET one a fifth cheaper.
    """
    headers = {"Host": "127.0.0.1"}

    def post(path: str, body: dict[str, Any]) -> Any:
        request = Request("POST", f"/api/collections{path}", headers, _json(body))
        status, answer = server.call(request)
        if status != 200:
            raise RuntimeError(f"PocketBase: {path} is answered {status} {answer}")
        return answer

    login = {"identity": EMAIL, "password": PASSWORD}
    headers["Authorization"] = post("/_superusers/auth-with-password", login)["token"]
    texts = (*SEARCHED, "source", "status", "assigned_to")
    fields = [{"name": name, "type": "text"} for name in texts]
    times = {"created": {"onCreate": True}, "updated": {"onCreate": True, "onUpdate": True}}
    fields += [{"name": name, "type": "autodate"} | item for name, item in times.items()]
    rules = dict.fromkeys(("listRule", "viewRule", "createRule"), "@request.auth.id != ''")
    index = "CREATE INDEX leads_status ON leads (status, id)"
    collection = {"name": "leads", "type": "base", "fields": fields, "indexes": [index]}
    post("", collection | rules)
    user = {"email": EMAIL, "password": PASSWORD, "passwordConfirm": PASSWORD}
    post("/users/records", user)
    return post("/users/auth-with-password", login)["token"]


def _set_full(server: Server) -> None:
    _check_full(server, "/synchronous?set=1")


def _check_full(server: Server, path: str = "/synchronous") -> None:
    status, body = server.call(Request("GET", path, {"Host": "127.0.0.1"}))
    if (status, body) != (200, {"synchronous": 2}):
        raise RuntimeError(f"PocketBase does not run with synchronous=FULL: {status} {body}")


# c


def prepare_bare(folder: Path, rows: list[dict[str, Any]]) -> list[Server]:
    """tests/benchmarks/bare.py under gunicorn's own threaded worker."""
    home = folder / "bare"
    home.mkdir()
    names = COLUMNS[1:-2]
    _, connection = bare_app(
        home / "bare.db",
        [(id, *(row[name] for name in names), TIME, TIME) for id, row in enumerate(rows, 1)],
    )
    connection.close()
    target = f"tests.benchmarks.bare:app_on({str(home / 'bare.db')!r})"
    return [
        Server(
            "c",
            f"Flask {metadata.version('flask')}, gunicorn {metadata.version('gunicorn')}",
            "FULL",
            lambda port: [
                *(sys.executable, "-m", "gunicorn", "--chdir", str(ROOT), target),
                *("--worker-class", "gthread", "--workers", "1", "--threads", "4"),
                *("--bind", f"127.0.0.1:{port}", "--no-control-socket"),
            ],
            home,
            _plain_requests(len(rows)),
        )
    ]


def prepare_floor(folder: Path, rows: list[dict[str, Any]]) -> list[Server]:
    """tests/benchmarks/floor.py, a process of one thread."""
    home = folder / "floor"
    home.mkdir()
    file = home / "floor.db"
    names = COLUMNS[1:-2]
    fill(file, [(id, *(row[name] for name in names), TIME, TIME) for id, row in enumerate(rows, 1)])
    return [
        Server(
            "floor",
            f"Python {platform.python_version()}",
            "FULL",
            lambda port: [sys.executable, "-m", "tests.benchmarks.floor", str(file), str(port)],
            home,
            _plain_requests(len(rows)),
            environ={"PYTHONPATH": str(ROOT)},
        )
    ]


def _plain_requests(rows: int) -> dict[str, tuple[Request, ...]]:
    """The requests of the two that have ids of their own for pages. `rows`: how many leads."""
    headers = {"Host": "127.0.0.1"}
    step = 50 * len(STATUSES)  # about as many leads as a page of one status is taken from
    paths = [
        f"/leads?status={status}&before={rows + 1 - page * step}"
        for status in STATUSES
        for page in range(PAGES)
    ]
    words = [f"/leads?q={quote(word)}" for word in WORDS]
    create = Request("POST", "/leads", headers, _json(NEW_LEAD), "%08d")
    requests = make_requests(paths, "&total=true", words, headers, create)
    return requests | {"GET one": (Request("GET", f"/leads/{ID}", headers),)}


def check_answers(server: Server, rows: list[dict[str, Any]]) -> None:
    """Raise RuntimeError unless each operation answers what the sample says, newest first."""
    wanted = len(rows) // 2
    for operation in server.operations:
        status, body = server.call(server.requests[operation][0], wanted)
        if operation == "GET one":
            right = all(body.get(name) == rows[wanted - 1][name] for name in SEARCHED)
        elif operation == CREATE:
            right = status in (200, 201)
        else:
            matches = [
                id
                for id, row in enumerate(rows, 1)
                if (
                    any(WORDS[0] in row[name] for name in SEARCHED)
                    if operation == "search"
                    else row["status"] == STATUSES[0]
                )
            ]
            right = server.ids(body) == matches[::-1][:50]
            if operation == "with total":
                right = right and server.total(body) == len(matches)
        if not right or status >= 300:
            raise RuntimeError(f"{server.name}: {operation} is answered {status} {body}"[:1000])
    server.before_creates(server)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
