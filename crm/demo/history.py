"""The example files of the demo, and how the history in them is replayed (D17, D18).

`<label>.json` describes one tenant. Its `history` lists the steps of each record in their order, as
`[moment, first name of the user, verb, data]`. A moment is a number of working days from now,
negative in the past, so that on any day people have worked only in office hours and nothing lies in
the future. A verb is a method of the resource in Python (crm/embedding/resources.py), or `import`,
or `make`, which makes a paper of a deal. `data` is what it takes, with three differences: records,
users and stages are named (`"client 12"`, `"Тарас"`, `"Виграно"`; contacts by e-mail), moments are
working days or, for a task that is due today, a time in Kyiv, and `expected_close_date` is a number
of days from today. `company` has the requisites of the business, and how its papers are.
The price lists that the history imports are CSV files beside it.
"""

import json
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from crm.alerts import alerts
from crm.embedding.resources import Resource
from crm.resources import users
from crm.resources.papers import company
from crm.resources.papers import record as papers
from crm.resources.pipelines.record import Pipeline
from crm.resources.tenant import KYIV
from crm.storage.session import current_session, time_text

FOLDER = Path(__file__).parent
DAY_SECONDS = 86_400
FIRST_MONDAY = 4 * DAY_SECONDS  # in Unix time: the first of January 1970 was a Thursday
# Seconds of the UTC day: office hours in Kyiv both in summer and in winter.
OPENING_SECONDS, CLOSING_SECONDS = 7 * 3600, 15 * 3600 + 1800
WORKDAY_SECONDS = CLOSING_SECONDS - OPENING_SECONDS
SEEN_DAYS = 0.5  # working days ago people have looked at their alerts
REFERENCES = frozenset(
    ("assigned_to", "client_id", "contact_id", "deal_id", "lead_id", "product_id", "stage_id")
)


class Example:
    """One example file. `address` is where it is served, `owner` what users.create takes."""

    def __init__(self, label: str, address: str):
        self.label, self.address = label, address
        content = json.loads((FOLDER / f"{label}.json").read_bytes())
        self.name: str = content["name"]
        self.search: str = content["search"]  # a word of the price list
        self.company: dict[str, Any] = content["company"]
        self.owner: dict[str, Any] = content["users"][0]
        self.colleagues: list[dict[str, Any]] = content["users"][1:]
        steps = [(key, *step) for key, steps in content["history"].items() for step in steps]
        self.steps = sorted(steps, key=lambda step: step[1])


class Replay:
    """The history of an example, done again by the operations of the API.

    `now` is the moment from which working days count, in Unix time; `moment` is what the tenant's
    clock has to show meanwhile.
    """

    def __init__(self, example: Example, resources: dict[str, Resource], now: float):
        self.example, self._resources = example, resources
        self.now = now
        self.moment = add_working_days(now, example.steps[0][1])
        self._ids: dict[str, Any] = {}  # of what the steps name

    def run(self) -> None:
        """Do all steps; inside a transaction at the new tenant, which has its owner."""
        session = current_session()
        session.user_id = users.owner_id()
        company.update(**self.example.company)
        for user in self.example.colleagues:
            users.create(users.USER_IN.parse(user))
        self._ids |= {user.name.split()[0]: user.id for user in users.User.every("TRUE")}
        self._ids |= {stage.name: stage.id for stage in Pipeline.default().list_stages()}
        for key, days, user, verb, data in self.example.steps:
            self.moment = add_working_days(self.now, days)
            session.user_id = self._ids[user]
            self._do(key, verb, self._resolve(data))
        self.moment = add_working_days(self.now, -SEEN_DAYS)
        for id in users.names():
            alerts.mark_seen(int(id))
        session.user_id = None
        self.moment = self.now

    def _do(self, key: str, verb: str, data: dict[str, Any]) -> None:
        """Do one step of the record that `key` names."""
        if verb == "import":
            products = self._resources["products"]
            products.import_csv(file=(FOLDER / data["file"]).read_bytes())
            listed = products.list(limit=200).records
            self._ids |= {f"product {product['sku']}": product["id"] for product in listed}
            return
        if verb == "make":
            # Not by the method in Python, which makes the PDF at once.
            self._name(key, papers.add(data.pop("deal_id"), data).id)
            return
        method = attrgetter(verb)(self._resources[f"{key.partition(' ')[0]}s"])
        if verb == "create":
            self._name(key, method(**data)["id"])
        elif verb == "convert":
            result = method(self._ids[key], title=data["title"])
            self._name(data["client"], result["client_id"])
            self._name(data["deal"], result["deal_id"])
        else:
            method(self._ids[key], **data)

    def _name(self, key: str, id: str) -> None:
        """Let later steps name this record; the contacts of a client are named by e-mail."""
        self._ids[key] = id
        if key.startswith("client "):
            contacts = self._resources["clients"].get(id)["contacts"]
            self._ids |= {contact["email"]: contact["id"] for contact in contacts}

    def _resolve(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data of a step as the API takes it."""
        return {name: self._value(name, value) for name, value in data.items()}

    def _value(self, name: str, value: Any) -> Any:
        if name in REFERENCES:
            return self._ids[value]
        if name == "items":
            return [self._resolve(item) for item in value]
        today = datetime.fromtimestamp(self.now, ZoneInfo(KYIV))
        if name == "expected_close_date":
            return (today + timedelta(value)).date().isoformat()
        if name == "paid_at":
            moment = add_working_days(self.now, value)
            return datetime.fromtimestamp(moment, ZoneInfo(KYIV)).date().isoformat()
        if name == "due_at" and isinstance(value, str):
            hour, minute = map(int, value.split(":"))
            return today.replace(hour=hour, minute=minute, second=0, microsecond=0).isoformat()
        if name in ("created_at", "due_at"):
            # People agree on full and half hours.
            return time_text(round(add_working_days(self.now, value) / 1800) * 1800)
        return value


def add_working_days(now: float, days: float) -> float:
    """The moment in office hours that is so many working days from `now`, both in Unix time."""
    week, second = divmod(now - FIRST_MONDAY, 7 * DAY_SECONDS)
    day, second = divmod(second, DAY_SECONDS)
    worked = day * WORKDAY_SECONDS + min(max(second - OPENING_SECONDS, 0), WORKDAY_SECONDS)
    week_worked = week * 5 * WORKDAY_SECONDS + min(worked, 5 * WORKDAY_SECONDS)
    day, second = divmod(week_worked + days * WORKDAY_SECONDS, WORKDAY_SECONDS)
    week, weekday = divmod(day, 5)
    return FIRST_MONDAY + (week * 7 + weekday) * DAY_SECONDS + OPENING_SECONDS + second
