"""Every request that reads, of a tenant: pages as owner and seller, and the API with keys of both.

Nothing is listed by name: the addresses are all routes that answer GET, all operations of the
OpenAPI document with each value of their parameters, links in pages with other parameters than any
before, and dry runs that need no body. Ids are those of records that the seller sees.
"""

import re
import time
from collections.abc import Iterator
from datetime import date, timedelta
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect
from werkzeug.test import EnvironBuilder

from crm import CRMApp
from crm.access import calendar_tokens
from crm.api.operations import PREFIX
from crm.json import loads
from crm.records.custom import fields as custom_fields
from crm.resources import AUDITED_VIEWS
from crm.storage.session import row, rows
from tests.benchmarks.growth.data import give_access

ROLES = ("owner", "seller")
TABLES = {  # of ids after these parts of a path, where it isn't the singular
    "batches": "batch",
    "deliveries": "delivery",
    "fields": "custom_field",
    "forms": "api_key",
    "imports": "import_run",
    "items": "deal_item",
    "merge": "",  # that of the first id
    "views": "saved_view",
}
CONDITIONS = {
    "api_key": "origins <> ''",
    "custom_field": "deleted_at IS NULL",
    "import_run": "state = 'done'",
}
SECONDS = 0.1  # for which a request is repeated


class Request(NamedTuple):
    """A request of a role. `name`: the same in each tenant, with the parameters' names for ids."""

    role: str
    method: str
    name: str
    address: str

    @property
    def is_api(self) -> bool:
        return self.address.startswith(PREFIX)

    @property
    def is_export(self) -> bool:
        return "/export" in self.address


class Answer(NamedTuple):
    status: str
    body: bytes
    seconds: float  # of processor time, of exports until the first byte


class Tenant:
    """A tenant as its owner and its seller meet it. `request`: the last one."""

    request: Request | None = None

    def __init__(self, crm: CRMApp, label: str):
        self.crm, self.host = crm, f"{label}.localhost"
        self.session = crm.tenants.session(label, sweeps_expired=False)
        self.access = give_access(crm, label)
        self.adapter = crm.url_map.bind(self.host)
        crm.limiter.count_page = lambda *_: None  # of one visitor
        with self.session:
            (self.seller,) = rows("SELECT min(id) FROM \"user\" WHERE role = 'seller'")[0]
            self.tokens = {"calendar": calendar_tokens.create(self.seller)}
        link = self.crm.test_client().post(
            f"{PREFIX}/export-links",
            headers={"Host": self.host, "Authorization": f"Bearer {self.access['owner']['key']}"},
            json={"resource": "leads"},
        )
        self.tokens["export"] = re.findall(r"/export/(.*).csv", link.json["url"])[0]

    def ask(self, request: Request) -> Answer:
        access, self.request = self.access[request.role], request
        if request.is_api:
            headers = {"Authorization": f"Bearer {access['key']}"}
        else:
            headers = {"Cookie": f"crm_session={access['cookie']}", "Accept-Language": "uk"}
        builder = EnvironBuilder(
            request.address, f"http://{self.host}", method=request.method, headers=headers
        )
        # As of our server, whose exports begin before they are complete.
        environ, status = builder.get_environ() | {"wsgi.input_terminated": True}, []
        began = time.process_time()
        answer: Any = self.crm(environ, lambda code, *_: status.append(code))
        body = next(iter(answer), b"") if request.is_export else b"".join(answer)
        seconds = time.process_time() - began
        getattr(answer, "close", lambda: None)()
        return Answer(status[0], body, seconds)

    def requests(self) -> Iterator[Request]:
        """Every request but links."""
        parameters = {}
        for path, operations in self.crm.api.document("")["paths"].items():
            for method in operations.keys() & {"get", "post"}:
                operation = operations[method]
                sent = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
                if method == "get":
                    parameters[path] = sent
                elif "requestBody" not in operation and "dry_run" in {one["name"] for one in sent}:
                    yield from self._filled("post", f"{PREFIX}{path}", "dry_run=true")
        for path, sent in parameters.items():
            # A list or a report is also a page, which takes the same parameters.
            for begin in (PREFIX, "") if self.rule_of(path) else (PREFIX,):
                yield from self._filled("get", f"{begin}{path}")
                for query in self._queries(path, sent):
                    if begin or "include_deleted" not in query:  # pages show no deleted records
                        yield from self._filled("get", f"{begin}{path}", query)
        for rule in sorted({rule.rule for rule in self.crm.url_map.iter_rules() if is_page(rule)}):
            match = re.search(r"<any\((.*?)\):\w+>", rule)
            for value in match[1].split(", ") if match else ("",):
                path = name_of(rule.replace(match[0], value) if match else rule)
                if path not in parameters:
                    yield from self._filled("get", path)

    def rule_of(self, path: str) -> Any:
        """The route of a page, by its path; None without one."""
        try:
            rule, _ = self.adapter.match(path, return_rule=True)
        except (HTTPException, RequestRedirect):
            return None
        return rule if is_page(rule) else None

    def _filled(self, method: str, path: str, query: str = "") -> Iterator[Request]:
        """The request by each role; none if an id in the path is of nothing that there is."""
        address, before, owner = "", "", ("", 0)
        for part in path.split("/")[1:]:
            if "{" not in part:
                address, before = f"{address}/{part}", part
            elif before in self.tokens:
                address = f"{address}/{re.sub('{.*}', self.tokens[before], part)}"
            elif id := self._id(before, path.split("/")[1], owner):
                address = f"{address}/{re.sub('{.*}', str(id), part)}"
                owner = owner if owner[0] else (table_of(before), id)
            else:
                return
        query = f"?{query}" if query else ""
        for role in ROLES:
            yield Request(role, method.upper(), f"{path}{query}", f"{address}{query}")

    def _id(self, part: str, first: str, owner: tuple[str, int]) -> int | None:
        """The id of a record that the seller sees, in the middle of its table.

        part: what is before the id in the path, which begins with `first`. owner: the table and the
        id of the record that it is a part of.
        """
        noun, owner_id = owner
        table = table_of(part) or noun
        with self.session:
            columns = {name for _, name, *_ in rows(f"PRAGMA table_info({table})")}
            conditions = [CONDITIONS.get(table, "TRUE")]
            if "deleted_at" in columns:
                conditions.append("deleted_at IS NULL")
            if "assigned_to" in columns:
                conditions.append(f"assigned_to = {self.seller}")
            if part == "merge":
                conditions.append(f"id <> {owner_id}")
            elif f"{noun}_id" in columns:
                conditions.append(f"{noun}_id = {owner_id}")
            elif noun and "record_id" in columns:
                conditions.append(f"noun = '{noun}' AND record_id = {owner_id}")
            elif "noun" in columns and first in AUDITED_VIEWS:
                conditions.append(f"noun = '{table_of(first)}'")
            if table in ("lead", "client", "deal"):
                conditions.append(
                    f"EXISTS (SELECT 1 FROM note WHERE noun = '{table}' AND record_id = {table}.id)"
                )
            if not columns:
                return None  # not an id
            middle = f'(SELECT max(id) / 2 FROM "{table}")'
            id = row(
                f'SELECT id FROM "{table}" WHERE {" AND ".join(conditions)} AND id >= {middle}'
                " ORDER BY id LIMIT 1"
            ) or row(f'SELECT id FROM "{table}" WHERE {" AND ".join(conditions)} LIMIT 1')
        return id[0] if id else None

    def _queries(self, path: str, parameters: Any) -> Iterator[str]:
        """Each parameter alone, with each value that the document lists or one of the data."""
        for parameter in parameters:
            name, schema = parameter["name"], parameter["schema"]
            for value in self._values(path, name, schema.get("items", schema)):
                query = urlencode({name: value})
                if name == "include_deleted":  # it needs another
                    query += f"&updated_since={date.today()}T00:00:00Z"
                yield query
        if "sort" in {parameter["name"] for parameter in parameters}:
            yield from self._custom_queries(path.strip("/"))

    def _custom_queries(self, plural: str) -> Iterator[str]:
        """Each filter and order by a custom field, and both at once."""
        with self.session:
            catalog = custom_fields.current()
            some = f"SELECT custom FROM {plural[:-1]} WHERE custom IS NOT NULL LIMIT 40"
            values = rows(some) if plural in catalog.parameters else []
        shown = {key: value for (text,) in values for key, value in loads(text).items()}
        orders = []
        for name in catalog.parameters.get(plural, {}):
            key = re.sub(r"^(has_)?custom\.|_(from|to)$", "", name)
            value = shown.get(key)
            if name.endswith("_from"):
                orders += [f"sort=custom.{key}", f"sort=-custom.{key}"]
            is_boolean = isinstance(value, bool) or name.startswith("has_")
            for one in ("true", "false") if is_boolean else (value,):
                yield urlencode({name: one}, doseq=True)
                if orders:
                    yield f"{urlencode({name: one}, doseq=True)}&{orders[-1]}"
        yield from orders

    def _values(self, path: str, name: str, schema: dict[str, Any]) -> list[Any]:
        days = [date.today() - timedelta(days=count) for count in (30, 730)]
        if "enum" in schema:
            return schema["enum"]
        if schema["type"] == "boolean":
            return ["true", "false"]
        if schema["type"] in ("integer", "number"):
            return [schema["maximum"] if name == "limit" else 500]
        if "format" in schema:
            return days if schema["format"] == "date" else [f"{day}T00:00:00Z" for day in days]
        if name == "q":
            return ["шевченко", "офісу", "ко"]
        if name == "tag":
            return ["vip"]
        table, column = table_of(path.split("/")[1]), name.removesuffix("_not")
        with self.session:
            columns = [one for _, one, *_ in rows(f"PRAGMA table_info({table})")]
            column = {"ids": "id"}.get(column, column)
            if column not in columns:
                return []
            values = rows(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 40")
        return [value for (value,) in values[-1:]]

    def links(self, request: Request, body: bytes) -> Iterator[Request]:
        """The links of a page, named by their route and parameters."""
        for target in re.findall(rb'href="(/[^"#]*)', body):
            address = urlsplit(unescape(target.decode()))
            if rule := self.rule_of(address.path):
                names = sorted({name for name, _ in parse_qsl(address.query)})
                name = name_of(rule.rule) + f"?{'&'.join(names)}" * bool(names)
                yield Request(request.role, "GET", name, address.geturl())

    def walk(self) -> Iterator[tuple[Request, Answer]]:
        """Every request with its answer; of links those with a parameter that was not yet sent."""
        waiting = list(self.requests())
        sent = {key for request in waiting for key in keys_of(request)}
        for request in waiting:  # it grows
            answer = self.ask(request)
            yield request, answer
            if request.is_api or not answer.body.startswith(b"<!doctype"):
                continue
            for link in self.links(request, answer.body):
                if not keys_of(link) <= sent:
                    sent |= keys_of(link)
                    waiting.append(link)


def keys_of(request: Request) -> set[tuple[str, str, str]]:
    """The role, the route and each parameter of a request."""
    path, _, query = request.name.partition("?")
    return {(request.role, path, part.partition("=")[0]) for part in query.split("&")}


def name_of(rule: str) -> str:
    """A route as the document names paths."""
    return re.sub(r"<(?:\w+(?:\(.*?\))?:)?(\w+)>", r"{\1}", rule)


def table_of(part: str) -> str:
    """The table of the ids after a part of a path."""
    return TABLES.get(part, part.removesuffix("s").replace("-", "_"))


def is_page(rule: Any) -> bool:
    return "GET" in rule.methods and not rule.rule.startswith(PREFIX)


def count_shown(request: Request, body: bytes) -> int:
    """How many records an answer shows, about."""
    if request.is_api and body.startswith(b"{"):
        data = loads(body).get("data")
        return len(data) if isinstance(data, list) else 1
    return sum(map(body.count, (b"<tr", b"<li", b'<article class="deal"')))


def measure(tenant: Tenant) -> dict[tuple[str, str, str], tuple[float, int, str]]:
    """By role, method and name of each request: the least milliseconds, records shown, status."""
    results = {}
    for request, answer in tenant.walk():
        least, until = answer.seconds, time.monotonic() + SECONDS
        for _ in range(20):
            if time.monotonic() > until:
                break
            least = min(least, tenant.ask(request).seconds)
        kind = "first byte" if request.is_export else request.method
        key = request.role, kind, request.name
        results[key] = (least * 1000, count_shown(request, answer.body), answer.status[:3])
    return results
