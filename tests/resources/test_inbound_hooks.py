"""Inbound hooks: what other programs send to `POST /in/<token>`, and what becomes of it."""

import base64
import hashlib
import hmac
import io
import json
import logging

import pytest

from crm.access import rights
from crm.alerts import alerts
from crm.cabinet.settings.inbound_hooks import _list_values
from crm.records.erasure import Person as Named
from crm.resources.inbound import calls, targets
from crm.resources.inbound.body_values import iterate_values, read_body
from crm.resources.inbound.calls import LARGE_BODY_CHARACTERS, MAX_BODY_BYTES
from crm.resources.papers import company
from crm.storage import heavy_work, sweeps
from crm.storage.session import execute, rows, transaction
from tests.cases import loop_over
from tests.company_papers import REQUISITES
from tests.concurrency import holding
from tests.conftest import OLENA, Api, key_for
from tests.memory import peak_bytes
from tests.page_client import Person
from tests.resources.refusals import faults

LEAD = {
    "name": "Site",
    "target": "lead",
    "mapping": {"Name": "name", "Phone": "phone", "Email": "email"},
    "defaults": {"source": "tilda"},
}
ORDER = {
    "name": "Shop",
    "target": "deal",
    "mapping": {
        "number": "title",
        "currency": "currency",
        "created": "created_at",
        "billing.first": "client.name",
        "billing.last": "client.name",
        "billing.phone": "client.phone",
        "items.*.name": "item_name",
        "items.*.count": "item_quantity",
        "items.*.price": "item_price",
        "delivery.city": "extra.city",
    },
    "id_path": "id",
}
BODY = {
    "id": 820982911946154508,
    "number": "№ 7",
    "currency": "грн",
    "created": "01.03.2026 10:00",
    "billing": {"first": "Марія", "last": "Коваль", "phone": "067 111 22 33"},
    "items": [
        {"name": "Стіл", "count": 2, "price": "1 250,50"},
        {"name": "Лампа", "count": "1", "price": 99.9},
    ],
    "delivery": {"city": "Львів"},
}
CALL = {
    "name": "Telephony",
    "target": "call",
    "mapping": {
        "call.phone": "client.phone",
        "call.status": "result",
        "call.seconds": "extra.duration",
        "call.at": "completed_at",
    },
    "id_path": "call.id",
}


class Sender:
    """Another program, which knows the address of a hook alone."""

    def __init__(self, api: Api, **hook):
        # The test client's JSON would sort the paths.
        sent = {"data": json.dumps(hook), "content_type": "application/json"}
        self.api, self.id = api, api.post("/inbound-hooks", **sent).json["inbound_hook_id"]
        self.url = api.read(f"/inbound-hooks/{self.id}")["url"]
        host, _, self.path = self.url.removeprefix("http://").partition("/")
        self.host = host.partition(":")[0]

    def send(self, body=None, *, host="", **options):
        """Send JSON, or whatever the options of the test client say."""
        if body is not None:
            options["json"] = body
        headers = {"Host": host or self.host} | options.pop("headers", {})
        # Buffered: the answer ends, and with it the line of the log is written.
        return self.api.client.post(f"/{self.path}", headers=headers, buffered=True, **options)

    def calls(self):
        return self.api.read(f"/inbound-hooks/{self.id}/calls")

    def sent(self, body=None, **options):
        """Send what must be stored; gives the call."""
        answer = self.send(body, **options)
        assert answer.status_code == 200, answer.text
        return self.calls()[0]


@pytest.fixture
def send(api):
    return lambda **hook: Sender(api, **hook)


def test_calls_without_a_record_are_told_once_until_that_is_seen(crm, api, send):
    site = send(**LEAD)
    counts = []
    for _ in range(3):
        assert site.send({"Nonsense": "1"}).status_code == 200
        with crm.tenants.session("acme"):
            counts.append(alerts.count_unseen(OLENA, 9))
    assert counts == [1, 1, 1]
    page = Person(crm, user_id=OLENA).sees("/alerts")
    assert "Дані від іншої програми не збережено" in page
    with crm.tenants.session("acme"):
        alerts.mark_seen(OLENA)
    site.send({"Nonsense": "1"})
    with crm.tenants.session("acme"):
        assert alerts.count_unseen(OLENA, 9) == 1


def test_a_form_becomes_a_lead(api, send):
    site = send(**LEAD)
    form = {"Name": "  Олег Синиця ", "Phone": "067 123-45-67", "formid": "rec1"}
    call = site.sent(data=form)
    assert (call["state"], call["resource"], call["reasons"]) == ("done", "leads", [])
    lead = api.read(f"/leads/{call['record_id']}")
    assert (lead["name"], lead["phone"]) == ("Олег Синиця", "+380671234567")
    assert lead["source"] == "tilda"
    assert lead["created_by"] == "1"  # in the name of who has made the hook
    assert api.kinds() == ["lead.created"]
    # Without a name it is called by its phone: no lead is lost.
    nameless = site.sent({"Phone": "0501234567"})
    assert api.read(f"/leads/{nameless['record_id']}")["name"] == "+380501234567"


def test_an_order_becomes_a_deal_with_its_client_and_items(api, send):
    shop = send(**ORDER)
    call = shop.sent(BODY)
    assert call["state"] == "done", call["reasons"]
    deal = api.read(f"/deals/{call['record_id']}")
    assert (deal["title"], deal["amount"], deal["currency"]) == ("№ 7", 2600.9, "UAH")
    assert deal["created_at"] == "2026-03-01T08:00:00Z"  # by the zone of the tenant
    assert deal["extra"] == {"city": "Львів"}
    assert [item["name"] for item in api.read(f"/deals/{deal['id']}/items")] == ["Стіл", "Лампа"]
    client = api.read(f"/clients/{deal['client_id']}")
    assert (client["name"], client["phone"]) == ("Марія Коваль", "+380671112233")
    # The next order of the same person has the same client.
    again = shop.sent(BODY | {"id": 2, "number": "№ 8"})
    assert api.read(f"/deals/{again['record_id']}")["client_id"] == client["id"]
    assert len(api.read("/clients")) == 1


def test_an_order_of_nobody_is_a_deal_without_client_and_one_beyond_all_bounds_is_none(api, send):
    shop = send(**ORDER)
    call = shop.sent({"id": 1, "number": "№ 9", "billing": {}})
    assert api.read(f"/deals/{call['record_id']}")["client_id"] is None
    items = [{"name": f"Стіл {number}", "price": 1} for number in range(1000)]
    call = shop.sent({"id": 2, "number": "№ 10", "items": items})
    assert api.read(f"/deals/{call['record_id']}")["amount"] == 1000
    call = shop.sent({"id": 3, "number": "№ 11", "items": [*items, {"name": "Ще один"}]})
    assert [reason["code"] for reason in call["reasons"]] == ["too_many"]


@loop_over("known, title", [("skip", "№ 7"), ("update", "№ 7 змінене")])
def test_the_same_id_twice_is_one_record(known, title, api, send):
    shop = send(**ORDER, known=known)
    first = shop.sent(BODY)
    second = shop.sent(BODY | {"number": "№ 7 змінене", "billing": {"phone": "0509998877"}})
    assert second["record_id"] == first["record_id"]
    assert second["sender_id"] == "820982911946154508"
    assert api.read(f"/deals/{first['record_id']}")["title"] == title
    assert len(api.read("/deals")) == 1
    if known == "skip":
        assert len(api.read("/clients")) == 1
    api.delete(f"/deals/{first['record_id']}")
    api.delete(f"/inbound-hooks/{shop.id}")
    for client in api.read("/clients"):
        api.delete(f"/clients/{client['id']}")


def test_a_call_is_a_task_that_is_done_of_the_person_who_has_the_phone(api, send):
    client = api.create("/clients", name="Марія", phone="0671112233")
    lead = api.create("/leads", name="Олег", phone="0671234567")
    telephony = send(**CALL)
    form = {"call[phone]": "0671112233", "call[status]": "ANSWER", "call[seconds]": "65"}
    call = telephony.sent(data=form | {"call[at]": "1772440000", "call[id]": "77"})
    assert call["state"] == "done", call["reasons"]
    task = api.read(f"/tasks/{call['record_id']}")
    assert (task["type"], task["status"], task["result"]) == ("call", "done", "ANSWER")
    assert (task["client_id"], task["extra"]) == (client, {"duration": "65"})
    assert task["completed_at"] == "2026-03-02T08:26:40Z"
    of_lead = telephony.sent(data={"call[phone]": "0671234567"})
    assert api.read(f"/tasks/{of_lead['record_id']}")["lead_id"] == lead
    of_nobody = telephony.sent(data={"call[phone]": "0509999999"})
    task = api.read(f"/tasks/{of_nobody['record_id']}")
    assert (task["title"], task["client_id"], task["lead_id"]) == ("0509999999", None, None)


def test_a_note_goes_to_the_person_once(api, send):
    client = api.create("/clients", name="Марія", email="maria@example.com")
    mapping = {"from": "client.email", "subject": "text", "message": "text"}
    mail = send(name="Mail", target="note", mapping=mapping, id_path="id")
    body = {"id": "m1", "from": "Maria@Example.com", "subject": "Питання", "message": "Коли?"}
    mail.sent(body)
    assert mail.sent(body)["state"] == "done"
    (note,) = api.read(f"/clients/{client}/notes")
    assert note["text"] == "Питання\nКоли?"
    stranger = mail.sent(body | {"id": "m2", "from": "nobody@example.com"})
    assert [reason["code"] for reason in stranger["reasons"]] == ["not_found"]


def test_what_fits_nothing_stays_with_its_reasons_until_it_is_replayed(api, send):
    site = send(**LEAD)
    call = site.sent({"Name": "Олег", "tel": "067 123 45 67"})
    assert call["state"] == "failed"
    assert {reason["code"] for reason in call["reasons"]} == {"phone_or_email"}
    assert api.read(f"/inbound-hooks/{site.id}")["failed_calls"] == 1
    assert api.read("/leads") == []
    api.patch(f"/inbound-hooks/{site.id}", {"mapping": {"Name": "name", "tel": "phone"}})
    done = api.post(f"/inbound-calls/{call['id']}/replay").json
    assert (done["state"], done["reasons"]) == ("done", [])
    assert json.loads(done["body"])["tel"] == "067 123 45 67"
    assert api.read(f"/leads/{done['record_id']}")["phone"] == "+380671234567"
    assert api.read(f"/inbound-hooks/{site.id}")["failed_calls"] == 0
    # A call that has made a record changes it by the mapping of today.
    mapping = {"Name": "name", "tel": "phone", "Name ": "comment"}
    api.patch(f"/inbound-hooks/{site.id}", {"mapping": mapping, "defaults": {"comment": "VIP"}})
    again = api.post(f"/inbound-calls/{call['id']}/replay").json
    assert again["record_id"] == done["record_id"]
    assert api.read(f"/leads/{done['record_id']}")["comment"] == "VIP"
    assert len(api.read("/leads")) == 1


@loop_over(
    "body",
    [
        b"", b"{", b"[1, 2]", b'{"Name": ' * 5000, b"\xff\xfe\x00", b'{"Phone": {"a": []}}',
        b'{"Phone": "12"}', b'{"Phone": "0671234567\\u0000"}', b'{"Phone": 1e999999999999}',
        b'{"a":' * 600 + b"1" + b"}" * 600, b'{"id": "' + b"x" * 200 + b'", "Phone": "0671234567"}',
    ],
)  # fmt: skip
def test_every_body_is_stored(body, send):
    call = send(**LEAD, id_path="id").sent(data=body)
    assert call["state"] == "failed" and call["reasons"], body


def test_only_a_live_hook_of_the_host_takes_bodies(crm, api, ivan, send):
    site = send(**LEAD)
    assert site.send({"Phone": "0671234567"}, host="globex.localhost").status_code == 404
    assert site.send({"Phone": "0671234567"}, host="localhost").status_code == 404
    path, site.path = site.path, "in/" + "A" * 43
    assert site.send({"Phone": "0671234567"}).status_code == 404
    site.path = path
    assert api.client.get(f"/{path}", headers={"Host": site.host}).status_code == 405
    api.patch(f"/inbound-hooks/{site.id}", {"active": False})
    assert site.send({"Phone": "0671234567"}).status_code == 404
    assert site.calls() == []
    for path in (f"/inbound-hooks/{site.id}", f"/inbound-hooks/{site.id}/calls"):
        assert ivan.get(path).status_code == 404


def test_the_token_is_neither_in_the_tenants_data_nor_in_the_log(crm, send, caplog):
    site = send(**LEAD)
    token = site.path.removeprefix("in/")
    caplog.set_level(logging.INFO, "crm.requests")
    site.sent({"Phone": "0671234567"})
    assert site.send(data=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    site.api.client.put(f"/{site.path}", headers={"Host": site.host}, buffered=True)
    assert "/in/<token>" in caplog.text and token not in caplog.text
    with crm.tenants.session("acme"):
        stored = [str(row) for row in rows("SELECT * FROM inbound_hook")]
    assert stored and not any(token in row for row in stored)


def test_a_hook_from_another_installation_has_no_address(crm, api, send):
    site = send(**LEAD)
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE inbound_hook SET token_seed = 'of another key'")
    assert api.read(f"/inbound-hooks/{site.id}")["url"] is None
    assert site.send({"Phone": "0671234567"}).status_code == 200


def test_a_body_has_at_most_256_kib(send):
    site = send(**LEAD)
    start = b'{"Phone": "0671234567", "more": "'
    fits = start + b"x" * (MAX_BODY_BYTES - len(start) - 2) + b'"}'
    assert site.sent(data=fits)["state"] == "done"
    assert site.send(data=fits + b" ").status_code == 413
    assert len(site.calls()) == 1


def test_a_hook_takes_60_calls_a_minute(clock, api, send):
    site, other = send(**LEAD), send(**LEAD)
    codes = [site.send({"Phone": f"06712300{number}"}).status_code for number in range(10, 71)]
    assert codes == [200] * 60 + [429]
    refused = site.send({"Phone": "0671234567"})
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert other.send({"Phone": "0671234567"}).status_code == 200
    assert len(api.read(f"/inbound-hooks/{site.id}/calls?limit=200")) == 60


@loop_over("algorithm", ["sha256", "sha1", "sha512"])
def test_only_what_its_sender_has_signed_is_taken(algorithm, send):
    signed = {
        "signature_header": "X-Signature",
        "signature_secret": "спільний",
        "signature_algorithm": algorithm,
    }
    site = send(**LEAD, **signed)
    body = b'{"Phone": "0671234567"}'
    mac = hmac.new("спільний".encode(), body, getattr(hashlib, algorithm))
    for good in (
        mac.hexdigest(),
        f"{algorithm}={mac.hexdigest()}",
        base64.b64encode(mac.digest()).decode(),
    ):
        assert site.send(data=body, headers={"X-Signature": good}).status_code == 200, good
    for bad in ("", "0" * 64, mac.hexdigest()[:-1], "ї"):
        assert site.send(data=body, headers={"X-Signature": bad}).status_code == 403, bad
    assert site.send(data=body).status_code == 403
    good = {"X-Signature": mac.hexdigest()}
    assert site.send(data=body + b" ", headers=good).status_code == 403
    assert len(site.calls()) == 3
    assert "спільний" not in json.dumps(site.api.read("/inbound-hooks"), ensure_ascii=False)


@loop_over(
    "changed, pointer, code",
    [
        ({"mapping": {"a": "no_field"}}, "/mapping/a", "unknown_field"),
        ({"mapping": {"a": "client.phone"}}, "/mapping/a", "unknown_field"),
        ({"defaults": {"text": "x"}}, "/defaults/text", "unknown_field"),
        ({"signature_header": "X-S"}, "/signature_header", "required"),
    ],
)
def test_a_hook_that_cannot_work_is_refused(changed, pointer, code, api):
    assert faults(api.post("/inbound-hooks", LEAD | changed)) == [(pointer, code)]
    assert api.read("/inbound-hooks") == []


def test_a_key_decides_only_what_it_could_make_itself(crm, api, send):
    site = send(**LEAD)
    call = site.sent({"Phone": "0671234567"})
    weak = Api(crm, "acme", key_for(crm, "acme", "inbound:read,inbound:write"))
    for answer in (
        weak.post("/inbound-hooks", LEAD),
        weak.patch(f"/inbound-hooks/{site.id}", {"name": "Mine"}),
        weak.post(f"/inbound-calls/{call['id']}/replay"),
    ):
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
    assert {"inbound:read", "inbound:write"} <= set(rights.OFFERED_SCOPES)


def test_calls_are_kept_for_30_days(crm, clock, api, send):
    site = send(**LEAD)
    site.sent({"Phone": "0671234567"})
    clock.tick(29 * 86_400)
    site.sent({"Phone": "0671234568"})
    clock.tick(2 * 86_400)
    with crm.tenants.session("acme"):
        assert sweeps.run()
    (call,) = site.calls()
    assert api.get(f"/inbound-calls/{call['id']}").json["body"] == '{"Phone": "0671234568"}'
    assert len(api.read("/leads")) == 2


def test_what_was_sent_of_a_person_is_exported_and_erased(api, send):
    site = send(**LEAD)
    site.sent(data={"Name": "Олег Синиця", "Phone": "067 123-45-67"})
    site.sent(data={"Name": "Інший", "Phone": "0501112233"})
    client = api.create("/clients", name="Олег Синиця", phone="0671234567")
    exported = api.read(f"/clients/{client}/personal-data")["inbound_calls"]
    names = [read_body(call["body"], {"Name"}) for call in exported]
    assert names == [{"Name": "Олег Синиця"}]
    erased = api.post(f"/clients/{client}/erase").json["erased"]
    assert erased["inbound_calls"] == 1
    (left,) = site.calls()
    assert "1112233" in api.read(f"/inbound-calls/{left['id']}")["body"]


def test_paths_name_what_json_and_forms_have():
    body = {"a": {"b": [{"c": 1.50}, {"c": None}]}, "tags": ["x", 2, True], "big": 10**20}
    values = {"a.b.0.c": "1.5", "tags": "x, 2, true", "big": "100000000000000000000"}
    assert read_body(json.dumps(body), values.keys()) == values
    assert {path for path, _ in iterate_values(json.dumps(body), 100)} == values.keys()
    values = {"a.b.0.c": "1", "t": "x, y", "п": "я"}
    assert read_body("a[b][0][c]=1&t[]=x&t[]=y&п=%D1%8F", values.keys()) == values


def body_of_long_paths() -> str:
    """32 KiB, of which the paths of all values are 900 times as much."""
    return json.dumps({"A" * 4096: [[1]] * 7000}, separators=(",", ":"))


@loop_over(
    "read",
    [
        lambda body: read_body(body, {"a"}),
        lambda body: calls.Attempt(1, "id", targets.Rules("lead", {"a.*.b": "name"}, {}), body),
        lambda body: _list_values(body, {"a": "name"}),
        lambda body: calls._is_named_in(Named({}, ["Олег Синиця"]), (body,)),
    ],
)
def test_reading_a_body_takes_little_memory(crm, read):
    body = body_of_long_paths()
    with crm.tenants.session("acme"):
        read(body)
        assert peak_bytes(read, body) < 100 * len(body)


class CountedLookups(dict):
    """Values of a body that count how often one is looked for."""

    count = 0

    def __contains__(self, path):
        self.count += 1
        return super().__contains__(path)

    def get(self, path, default=None):
        self.count += 1
        return super().get(path, default)


def test_lists_are_looked_through_once_for_all_rows(crm):
    """Not once for each row: of 48 paths through 1,000 items that would be 46 million places."""
    mapping = {f"i.*.{number}": "comment" for number in range(46)}
    rules = targets.Rules("deal", {**mapping, "i.*.n": "item_name", "i.*.p": "item_price"}, {})
    body = json.dumps({"i": [{"n": "Стіл", "p": 1, "0": "дуб"}] * 1000})
    values = CountedLookups(read_body(body, targets.paths_of(rules)))
    with crm.tenants.session("acme"):
        reading = targets.read(rules, values, None)
    assert len(reading.record.entries[0].parts) == 1000
    assert reading.record.entries[0].values["comment"] == "дуб"
    assert values.count < 500_000


def test_items_that_repeat_a_long_text_are_refused(send):
    mapping = {"t": "title", "c": "comment", "i.*.n": "item_name"}
    shop = send(name="Shop", target="deal", mapping=mapping, defaults={"item_price": "1"})
    items = [{"n": "Стіл"}] * 1000
    assert shop.sent({"t": "№ 1", "c": "x" * 3900, "i": items})["state"] == "done"
    call = shop.sent({"t": "№ 2", "c": "x" * 4100, "i": items})
    assert [(reason["field"], reason["code"]) for reason in call["reasons"]] == [("", "too_long")]


@loop_over("field", ["name", "phone", "email", "tags"])
@loop_over(
    "text",
    [
        "0" + " " * 200_000 + "x", "1" + "," * 200_000 + " x y", "total" + " " * 200_000 + "!",
        "a;" * 100_000, '"' * 120_000, "x" * 200_000, "a@" + "a." * 100_000,
    ],
)  # fmt: skip
def test_long_texts_are_read_soon_and_stored(field, text, send):
    """One that is looked at again from each of its characters takes minutes."""
    site = send(name="Site", target="lead", mapping={"x": field, "p": "phone"})
    assert site.sent({"x": text, "p": "1"})["state"] == "failed"
    site.api.delete(f"/inbound-hooks/{site.id}")


def test_a_large_body_is_heavy_work(crm, send, monkeypatch):
    monkeypatch.setattr(heavy_work, "WAIT_SECONDS", 0.05)
    site = send(**LEAD)
    small = {"Phone": "0671234567", "more": ""}
    large = small | {"more": "x" * LARGE_BODY_CHARACTERS}
    with holding(crm.tenants, "acme", heavy_work.heavy_work):
        assert site.sent(small)["state"] == "done"
        answer = site.send(large)
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert site.sent(large)["state"] == "done"


@pytest.mark.parametrize("name, most", [("MAX_FAILED_CALLS", 3), ("MAX_FAILED_CHARACTERS", 6000)])
def test_a_hook_stores_so_many_calls_without_a_record(crm, send, monkeypatch, name, most):
    monkeypatch.setattr(calls, name, most)
    site, other = send(**LEAD), send(**LEAD)
    unfit = {"Nonsense": "x" * 2000}
    for _ in range(3):
        site.sent(unfit)
    with crm.tenants.session("acme"):
        alerts.mark_seen(OLENA)
    answer = site.send(unfit)
    assert (answer.status_code, answer.json["code"]) == (507, "too_many_failed_calls")
    with crm.tenants.session("acme"):
        assert alerts.count_unseen(OLENA, 9) == 1  # of the one that is not stored, too
    # No lead is lost, and other hooks have room of their own.
    assert site.sent({"Phone": "0671234567"})["state"] == "done"
    assert other.sent(unfit)["state"] == "failed"
    page = Person(crm, user_id=OLENA)
    assert "507" in page.sees(f"/settings/inbound-hooks/{site.id}")
    assert "507" not in page.sees(f"/settings/inbound-hooks/{other.id}")
    failed = [call["id"] for call in site.calls() if call["state"] == "failed"]
    assert len(failed) == 3
    site.api.delete(f"/inbound-calls/{failed[0]}")
    assert site.sent(unfit)["state"] == "failed"


def test_what_names_a_person_below_long_paths_is_found():
    body = json.dumps({"A" * 4096: [["Олег Синиця"]]})
    assert "Олег" not in body
    assert calls._is_named_in(Named({}, ["Олег Синиця"]), (body,))


def test_values_of_own_fields_are_mapped_and_what_does_not_fit_costs_no_lead(api, send):
    field = {"resource": "leads", "label": "Size", "type": "number"}
    api.create("/fields", **field)
    api.create("/fields", **{**field, "label": "Expert", "type": "user"})
    gone = api.create("/fields", **{**field, "label": "Gone"})
    mapping = {"size": "custom.size", "who": "custom.expert", "gone": "custom.gone"}
    sender = send(**{**LEAD, "mapping": {**LEAD["mapping"], **mapping}})
    person = {"Name": "Олена", "Phone": "067 111 22 33"}
    sender.sent({**person, "size": "1 250,5", "who": "Taras", "gone": "5"})
    api.post(f"/fields/{gone}/retire")
    assert api.patch("/inbound-hooks/1", {"name": "Сайт"}).status_code == 200
    sender.sent({**person, "size": "велика", "who": "хтось", "gone": "5", "extra": 1})
    unfit = {"size": "велика", "expert": "хтось", "gone": "5"}
    leads = [(lead["custom"], lead["extra"]) for lead in api.read("/leads?sort=id")]
    assert leads == [({"size": 1250.5, "expert": "2"}, {}), ({}, {"custom": unfit})]


def test_values_of_own_fields_of_a_client_are_mapped(api, send):
    api.create("/fields", resource="clients", label="Wood", type="text")
    sender = send(**{**ORDER, "mapping": {**ORDER["mapping"], "w": "client.custom.wood"}})
    sender.sent({**BODY, "w": "дуб"})
    assert api.read("/clients")[0]["custom"] == {"wood": "дуб"}


# Payments

PAYMENT = {
    "name": "Bank",
    "target": "payment",
    "mapping": {"purpose": "number", "sum": "paid_amount", "day": "paid_at"},
    "id_path": "id",
}
PAID = {"id": 1, "purpose": "Оплата за рахунком № 1/2026 від 02.03", "sum": "1 000,50"}
PAID |= {"day": "04.03.2026"}


@pytest.fixture
def invoice(crm, api, no_typst):
    with crm.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    deal = api.create("/deals", title="Крісла", amount="1250.50")
    return f"/papers/{api.create(f'/deals/{deal}/papers', kind='invoice')}"


def test_a_payment_is_noted_once(api, send, invoice):
    bank = send(**PAYMENT)
    for body in (PAID, PAID, PAID | {"sum": 1}):
        assert bank.send(body).status_code == 200
    paper = api.read(invoice)
    assert (paper["paid_at"], paper["paid_amount"]) == ("2026-03-04", 1000.5)
    assert paper["version"] == 2
    assert {(call["state"], call["resource"]) for call in bank.calls()} == {("done", "papers")}


def test_a_payment_without_a_day_and_a_sum_is_one_in_full(api, send, invoice):
    send(**PAYMENT).send({"purpose": "1/2026"})
    paper = api.read(invoice)
    assert (paper["paid_at"], paper["paid_amount"]) == ("2026-03-02", 1250.5)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"purpose": "№ 7/2026"}, "number", "not_found"),
        ({"sum": 5}, "number", "required"),
        ({"purpose": "1/2026", "sum": "багато"}, "paid_amount", "invalid_number"),
        ({"purpose": "1/2026", "day": "32.13.2026"}, "paid_at", "invalid_date"),
    ],
)
def test_a_payment_of_nothing_known_is_kept_with_its_reason(api, send, invoice, body, field, code):
    bank = send(**PAYMENT)
    assert bank.send(body).status_code == 200
    (call,) = bank.calls()
    (reason,) = call["reasons"]
    assert (call["state"], reason["field"], reason["code"]) == ("failed", field, code)
    assert api.read(invoice)["paid_at"] is None


def test_a_call_that_came_before_its_invoice_is_run_again(api, send, invoice):
    bank = send(**PAYMENT)
    call = bank.sent(PAID | {"purpose": "рахунок 2/2026"})
    assert call["state"] == "failed"
    paper = api.read(invoice)
    second = api.create(f"/deals/{paper['deal_id']}/papers", kind="invoice")
    for _ in range(2):
        assert api.post(f"/inbound-calls/{call['id']}/replay").json["state"] == "done"
    assert api.read(f"/papers/{second}")["paid_amount"] == 1000.5
    assert api.read(invoice) == paper


def test_a_hook_of_payments_needs_the_right_to_papers(crm, api):
    key = Api(crm, "acme", key_for(crm, "acme", "inbound:write"))
    answer = key.post("/inbound-hooks", PAYMENT)
    assert (answer.status_code, answer.json["scope"]) == (403, "papers:write")
    others = PAYMENT | {"mapping": {"a": "extra.b"}}
    assert faults(api.post("/inbound-hooks", others)) == [("/mapping/a", "unknown_field")]


# Files


def with_files(*files, **texts):
    return {"data": {**texts, "photo": [(io.BytesIO(data), name) for name, data in files]}}


def test_files_of_a_body_become_those_of_the_record_once(api, send):
    site = send(**LEAD, takes_files=True, id_path="id")
    for _ in range(2):
        sent = with_files(
            ("a.txt", b"1"), ("b.txt", b"2"), id="7", Name="Марія", Phone="0671112233"
        )
        assert site.send(**sent).status_code == 200
    (lead,) = api.read("/leads")
    assert (lead["name"], lead["phone"]) == ("Марія", "+380671112233")
    files = api.read(f"/leads/{lead['id']}/files")
    assert sorted(file["name"] for file in files) == ["a.txt", "b.txt"]
    assert api.get(f"/files/{files[0]['id']}").data in (b"1", b"2")


def test_files_are_bounded_and_none_is_kept_by_half(crm, api, send):
    site = send(**LEAD, takes_files=True)
    person = {"Name": "Марія", "Phone": "0671112233"}
    six = [(f"{number}.txt", b"1%d" % number) for number in range(6)]
    assert site.send(**with_files(*six, **person)).status_code == 413
    large = {"data": bytes((10 << 20) + 1), "content_type": "multipart/form-data; boundary=x"}
    assert site.send(**large).status_code == 413
    assert api.read("/leads") == [] and site.calls() == []
    assert site.send(**with_files(("a.txt", b"1"), Name="без телефону")).status_code == 200
    assert [call["state"] for call in site.calls()] == ["failed"]
    assert site.send(**with_files(("empty.txt", b""), **person)).status_code == 200
    (lead,) = api.read("/leads")
    assert api.read(f"/leads/{lead['id']}/files") == []


def test_a_hook_takes_no_files_unless_it_shall(api, send):
    site = send(**LEAD)
    site.send(**with_files(("a.txt", b"1"), Name="Марія", Phone="0671112233"))
    assert site.send(**with_files(("a", bytes(300 << 10)), Name="М")).status_code == 413
    assert api.read("/leads") == [] and [call["state"] for call in site.calls()] == ["failed"]
    refused = api.post("/inbound-hooks", PAYMENT | {"takes_files": True})
    assert faults(refused) == [("/takes_files", "invalid_choice")]
