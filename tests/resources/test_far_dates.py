"""The first and the last date of the API (D2) in every list, report, page, feed and file.

Records have them in each of their fields that takes a date. What takes and shows dates is found in
the map of addresses and in the declarations, so that a new resource, report or page is tried too.
"""

import io
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest

from crm import CRMApp
from crm.api.operations import PREFIX, Operation
from crm.records import fields
from crm.records.queries import Filter
from crm.resources import tenant
from crm.resources.reports.declarations import REPORTS
from crm.spreadsheets import all_resources
from crm.storage.session import transaction
from tests.cases import loop_over
from tests.conftest import Api, Clock
from tests.csv_helpers import send
from tests.page_client import Person

DAYS = FIRST_DAY, LAST_DAY = "1900-01-01", "9999-12-31"
TIMES = FIRST, LAST = f"{FIRST_DAY}T00:00:00Z", f"{LAST_DAY}T23:59:59Z"
REFUSED: dict[Any, tuple[str, ...]] = {
    fields.Date: ("1899-12-31", "0001-01-01", "10000-01-01"),
    fields.DateTime: (
        *("1899-12-31T23:59:59Z", "1900-01-01T00:00:00+00:01", "0001-01-01T00:00:00+14:00"),
        *("9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z"),
    ),
}
# East of UTC (in 1900 by 2:02:04), west of it, and west in 1900 but east now.
ZONES = ("Europe/Kyiv", "America/New_York", "Pacific/Kiritimati")
# What a record has beside its documented example, so that each report has both ends.
STATES: dict[str, list[dict[str, Any]]] = {
    "/deals": [{"closed_at": None}, {"status": "won"}, {"status": "lost"}],
    "/tasks": [{"status": "open"}, {"status": "done"}],
}
# Files bring what no request can: when something was done.
HISTORY = {
    "tasks": f"title,type,status,created_at,completed_at\nA,call,done,{FIRST},{FIRST}\n",
    "deals": f"title,stage,created_at,stage_changed_at\nA,Qualified,{FIRST},{FIRST}\n",
    "leads": "name,phone,status,deal_id,created_at,converted_at\n"
    f"A,0671112233,converted,1,{FIRST},{FIRST}\n",
}
STYLES = ("for=people", "for=people&language=en", "format=xlsx", "dialect=excel", "")
UNKNOWN = ("/proposals/1", "/deliveries/1", "/inbound-calls/1", "/files/1")  # the tenant has none
UNKNOWN += ("/papers/1", "/papers/1.pdf", "/papers/1/links")

BY_PERIOD = ("/reports/activity", "/reports/received")  # a row for each day or month


def kind_of(field: Any) -> Any:
    """fields.Date or fields.DateTime if values of the field are such, else None."""
    inner = getattr(field, "inner", field)  # of a query parameter
    return next((kind for kind in REFUSED if isinstance(inner, kind)), None)


def ends_in(schema: Any, end: int) -> dict[str, str]:
    """The first or the last date for each field that takes one; none may be in the future."""
    return {
        name: (TIMES if kind is fields.DateTime else DAYS)[
            0 if isinstance(field, fields.PastDateTime) else end
        ]
        for name, field in schema.fields.items()
        if (kind := kind_of(field))
    }


def operations(app: CRMApp, method: str) -> Iterator[tuple[str, Operation]]:
    """(path, operation) of a method, the path with the id 1 in all places."""
    for rule in app.url_map.iter_rules():
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation and method in rule.methods:
            yield re.sub("<[^>]+>", "1", rule.rule).removeprefix(PREFIX), operation


def pages(app: CRMApp) -> Iterator[str]:
    """The paths of the pages, with the id 1 or each choice in their places."""
    for rule in app.url_map.iter_rules():
        if "GET" in rule.methods and not rule.rule.startswith(PREFIX):
            parts = re.split("(<[^>]+>)", rule.rule)
            yield from map("".join, product(*map(_choices, parts)))


def _choices(part: str) -> list[str]:
    if not part.startswith("<"):
        return [part]
    return re.findall(r"\w+", part[5:].partition(")")[0]) if part.startswith("<any(") else ["1"]


def queries_of(query: Filter) -> list[dict[str, str]]:
    """No parameter, and each one that takes a date with both ends."""
    return [{}, *({name: text} for end in (0, 1) for name, text in ends_in(query, end).items())]


@pytest.fixture
def acme(api: Api) -> Api:
    """A tenant whose records have both ends in each field that takes a date."""
    for path, operation in operations(api.crm, "POST"):
        if operation.kind == "created" and operation.body:
            for end, state in product((0, 1), STATES.get(path, [{}])):
                body = operation.example | ends_in(operation.body, end) | state
                answer = api.post(path, body)
                assert answer.status_code in (201, 409), (path, body, answer.text)
    for plural, text in HISTORY.items():
        assert send(api, plural, text).json["created"] == 1
    return api


def set_zone(api: Api, zone: str) -> None:
    with api.crm.tenants.session(api.label), transaction():
        tenant.update(time_zone=zone)


def import_errors(api: Api, answer: Any) -> list[tuple[int, str, str, str]]:
    """(line, column, code, message) of each rejected row."""
    report = api.get(answer.headers["Location"].partition(PREFIX)[2]).json
    return [tuple(error.values()) for error in report["errors"]]


# Everything that can be read


def test_every_get_of_the_api_answers(acme: Api) -> None:
    for zone, (path, operation) in product(ZONES[:2], operations(acme.crm, "GET")):
        set_zone(acme, zone)
        for query in queries_of(operation.query):
            answer = acme.get(f"{path}?{urlencode(query)}")
            if path in BY_PERIOD and query.get("since") == FIRST_DAY:
                assert answer.json["errors"][0]["code"] == "period_too_long"
            elif path.count("/1") < 2 and path not in UNKNOWN:
                assert answer.status_code == 200, (zone, path, query, answer.text)
            else:
                assert answer.status_code in (200, 404), (zone, path, query, answer.text)


@pytest.mark.deep  # the pages of tasks, with their filters and forms, are tried below
def test_every_page_answers(acme: Api, olena: Person, clock: Clock) -> None:
    set_zone(acme, "America/New_York")
    filters = {path: operation.query for path, operation in operations(acme.crm, "GET")}
    for path in {*pages(acme.crm), *(f"/reports/{name}" for name in REPORTS)}:
        for times in queries_of(filters[path]) if path in filters else [{}]:
            query = {name: text[:10] for name, text in times.items()}  # pages take days for times
            clock.tick(0.3)  # a person may open 300 pages a minute
            status = olena.get(f"{path}?{urlencode(query)}").status_code
            if path in BY_PERIOD and query.get("since") == FIRST_DAY:
                assert status == 422
            else:
                usual = (200, 303, 308, 404, 422)  # 422: a question with too few parameters
                assert status in ((200,) if query else usual), (path, query)


# The right records, whatever the zone


@loop_over("zone", ZONES)
def test_each_time_is_on_a_day_from_the_first_to_the_last(api, olena, zone):
    set_zone(api, zone)
    ids = [api.create("/tasks", title=f"T{time}", due_at=time) for time in TIMES]
    between = f"/tasks?due_since={FIRST_DAY}&due_before={LAST_DAY}"
    for address, listed in {
        between: ids,
        f"/tasks?due_before={FIRST_DAY}": ids[:1],
        f"/tasks?due_since={LAST_DAY}": ids[1:],
        f"/tasks?due_since={FIRST}&due_before={LAST}": ids[:1],
    }.items():
        page = olena.sees(address)
        assert [id for id in ids if f'href="/tasks/{id}"' in page] == listed, address
        assert len(olena.sees(address.replace("?", "/export?")).splitlines()) == 1 + len(listed)
    assert {task["id"] for task in api.read(f"/tasks?due_since={FIRST}&due_before={LAST}")} == {
        ids[0]
    }
    assert api.read(f"/tasks?due_since={LAST}")[0]["id"] == ids[1]
    for id in ids:
        api.delete(f"/tasks/{id}")


# Files, forms and what other programs send


@pytest.mark.process  # another one reads workbooks
def test_files_for_people_come_back_without_a_change(acme):
    set_zone(acme, "America/New_York")
    for plural, style in product(("leads", "clients", "deals", "tasks", "products"), STYLES):
        data = acme.get(f"/{plural}/export?{style}").data
        answer = send(acme, plural, data, "?dialect=excel" if "dialect" in style else "")
        assert (answer.json["created"], answer.json["updated"]) == (0, 0), (plural, style)
        assert import_errors(acme, answer) == []


REQUIRED = {
    "clients": {"name": "A"},
    "deals": {"title": "A"},
    "leads": {"name": "A", "phone": "0671112233"},
    "products": {"sku": "A", "name": "A", "price": "1"},
    "tasks": {"title": "A"},
}
INSIDE = ("1900-01-01", "01.01.1900", "1900-01-01 00:00:00", FIRST, "31.12.9999 23:59", LAST)
OUTSIDE = ("31.12.1899", "01.01.0001 0:00:00", "0001-01-01T00:00:00", "1899-12-31T00:00:00Z")


def test_columns_of_dates_take_both_ends_and_name_what_is_outside(api):
    set_zone(api, "America/New_York")
    tried = 0
    for resource in all_resources():
        for column in filter(lambda column: kind_of(column.field), resource.all_columns):
            # Our column, and one of another program, which has times for dates.
            for header, is_mapped in ((column.name, False), ("Коли", True)):
                tried += 1
                has_times = is_mapped or kind_of(column.field) is fields.DateTime
                cells = [cell for cell in (*INSIDE, *OUTSIDE) if has_times or len(cell) == 10]
                row = REQUIRED[resource.plural]
                lines = [",".join([*row, header])]
                lines += [",".join([*row.values(), cell]) for cell in cells]
                files: dict[str, Any] = {"file": (io.BytesIO("\n".join(lines).encode()), "a.csv")}
                if is_mapped:
                    mapping = {name: name for name in row} | {header: column.name}
                    files["mapping"] = json.dumps(mapping)
                answer = api.call("POST", f"/{resource.plural}/import", data=files)
                outside = [
                    (cells[line - 2], name, message)
                    for line, name, code, message in import_errors(api, answer)
                    if code in ("invalid_date", "invalid_time")
                ]
                assert [cell for cell, *_ in outside] == [cell for cell in cells if cell in OUTSIDE]
                assert {name for _, name, _ in outside} == {column.name}
                assert all("from 1900" in message for *_, message in outside)
    assert tried >= 20


def test_values_outside_are_refused_with_a_text_at_the_field(api, olena):
    for path, operation in operations(api.crm, "POST"):
        is_created = operation.kind == "created" and operation.body
        for name, field in operation.body.fields.items() if is_created else ():
            for text in REFUSED.get(kind_of(field), ()):
                answer = api.post(path, operation.example | {name: text})
                if path == "/leads":  # which keeps it among its other data, to lose no lead
                    assert api.read(f"/leads/{answer.json['lead_id']}")["extra"] == {name: text}
                elif "/1/" not in path:
                    (fault,) = answer.json["errors"]
                    assert fault["pointer"] == f"/{name}" and " from 1900" in fault["detail"]
    for path, operation in operations(api.crm, "GET"):
        for name, field in operation.query.fields.items():
            for text in REFUSED.get(kind_of(field), ()):
                answer = api.get(f"{path}?{urlencode({name: text})}")
                assert (answer.status_code, answer.json["errors"][0]["parameter"]) == (422, name)
                assert " from 1900" in answer.json["errors"][0]["detail"]


@loop_over("zone", ZONES)
def test_forms_take_both_ends_and_keep_what_nobody_edits(api, olena, zone):
    set_zone(api, zone)
    for typed, at_end in (("1900-01-01T00:00", FIRST), ("9999-12-31T23:59", LAST)):
        olena.sends("/tasks", {"title": "A", "due_at": typed, "priority": "normal"})
        task = api.read("/tasks")[0]
        assert task["due_at"][:7] == at_end[:7]
        api.patch(f"/tasks/{task['id']}", {"due_at": at_end, "remind_at": at_end})
        page = olena.sees(f"/tasks/{task['id']}")
        sent = {
            name: re.search(f'name="{name}"[^>]* value="([^"]*)"', page)[1]
            for name in ("title", "due_at", "remind_at", "shown")
        }
        sent |= {"title": "Б", "status": "open", "priority": "normal", "assigned_to": "1"}
        olena.sends(f"/tasks/{task['id']}", sent)
        changed = api.read(f"/tasks/{task['id']}")
        assert (changed["title"], changed["due_at"], changed["remind_at"]) == ("Б", at_end, at_end)
    for typed in ("1899-12-30T23:59", "0001-01-01T00:00", "10000-01-01T00:00"):
        page = olena.post("/tasks", {"title": "A", "due_at": typed})
        assert page.status_code == 422 and 'id="due_at-fault"' in page.text
        assert "Введіть дату й час із 1900 до 9999 року." in page.text
