"""Website forms (D12): a key that may create leads from its own pages, and nothing else."""

import difflib

import pytest

from crm.access import api_keys
from crm.api.request_limits import MAX_FORM_REQUESTS
from crm.errors import MAX_FAULTS
from crm.resources import tenant
from crm.resources.files.form_files import MAX_FORM_FILE_BYTES
from crm.resources.leads.record import HONEYPOT
from crm.storage.session import one_row, time_text
from tests.conftest import OLENA, Api, key_for
from tests.raw_wsgi import send_request

SHOP, BLOG, THIEF = (
    "https://shop.example.ua",
    "https://blog.example.ua:8443",
    "https://evil.example",
)
CORS = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers")
BODY = {"name": "Марія", "phone": "067 123 45 67"}


@pytest.fixture(scope="module")
def crm(module_app):
    return module_app


@pytest.fixture(autouse=True)
def next_minute(crm):
    crm.tenants.clock.tick(60)


@pytest.fixture(scope="module")
def shop(crm):
    """The shop's form: its key names two origins."""
    return Api(crm, "acme", key_for(crm, "acme", "leads:create", origins=f"{SHOP}, {BLOG}/"))


def post(who, origin: str | None = SHOP, body=BODY, address: str = "192.0.2.1", **headers):
    sent = headers | ({"Origin": origin} if origin else {})
    return who.post("/leads", body, headers=sent, environ_base={"REMOTE_ADDR": address})


def ask(crm, origin: str | None, label: str = "acme", **headers):
    """A browser's question before a POST."""
    sent = {"Access-Control-Request-Method": "POST", **headers}
    if origin is not None:
        sent["Origin"] = origin
    return send_request(crm, "OPTIONS", headers=sent, host=f"{label}.localhost")


# What such a key may


def test_what_is_the_offices_to_say_is_kept_but_not_obeyed(shop, api):
    sent = {
        "assigned_to": "2", "status": "qualified", "tags": ["vip"], "amount": 1_000_000,
        "client_id": "1", "deal_id": "1", "created_at": "2020-01-01T00:00:00Z", "created_by": "2",
        "external_id": "1C-1", "converted_at": "2020-01-01T00:00:00Z", "floor": 3,
    }  # fmt: skip
    answer = post(shop, body=BODY | sent)
    assert answer.status_code == 201
    lead = api.read(f"/leads/{answer.json['lead_id']}")
    assert (lead["assigned_to"], lead["status"], lead["tags"]) == (None, "new", [])
    assert (lead["amount"], lead["client_id"], lead["deal_id"]) == (None, None, None)
    assert lead["external_id"] is lead["converted_at"] is None
    assert lead["created_at"] > "2026" and lead["created_by"] == "1"
    assert set(sent) <= set(lead["extra"])
    assert lead["extra"]["tags"] == ["vip"] and lead["extra"]["floor"] == 3


def test_a_form_sends_the_fields_of_ones_own_that_were_chosen_for_it(crm, api):
    for key, type in (("size", "number"), ("urgent", "flag"), ("secret", "text")):
        api.create("/fields", resource="leads", key=key, label=key, type=type)
    with crm.tenants.session("acme"):
        chosen = '["custom.size","custom.urgent"]'
        _, secret = api_keys.create("form", "leads:create", OLENA, form_fields=chosen)
    form, custom = Api(crm, "acme", secret), {"size": "2.5", "urgent": True}

    def sent(custom, **more) -> tuple[dict, dict]:
        answer = post(form, None, BODY | {"custom": custom} | more)
        assert answer.status_code == 201
        lead = api.read(f"/leads/{answer.json['lead_id']}")
        return lead["custom"], lead["extra"]

    assert sent(custom) == ({"size": 2.5, "urgent": True}, {})
    unfit = {"size": "much", "secret": "x", "none": 1}
    assert sent(custom | unfit) == ({"urgent": True}, {"custom": unfit})
    assert sent("text") == ({}, {"custom": "text"})
    assert sent({"secret": "x"}, extra={"custom": 1}) == ({}, {"custom": {"secret": "x"}})
    other = Api(crm, "acme", key_for(crm, "acme", "leads:create"))
    lead = api.read(f"/leads/{post(other, None, BODY | {'custom': custom}).json['lead_id']}")
    assert (lead["custom"], lead["extra"]) == ({}, {"custom": {"size": 2.5, "urgent": True}})


def test_many_unknown_keys_of_a_robot_are_not_each_compared_with_all(form, api, monkeypatch):
    compared = []
    similar = difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches", lambda *a: compared.append(a) or similar(*a))
    api.create("/fields", resource="leads", key="wood", label="Wood", type="text")
    answer = post(form, None, BODY | {"custom": {f"x{n}": 1 for n in range(1000)}})
    assert answer.status_code == 201
    assert len([known for _, known, _ in compared if known]) == MAX_FAULTS


# Origins


@pytest.mark.parametrize("origin", [SHOP, BLOG])
def test_a_named_origin_may_read_the_answer(shop, origin):
    answer = post(shop, origin)
    assert answer.status_code == 201
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Location", "Retry-After", "X-RateLimit-Remaining", "X-RateLimit-Reset"} <= set(exposed)
    assert "Origin" in answer.headers["Vary"]
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [None, "", THIEF, "null", "*", "http://shop.example.ua", SHOP + "/", SHOP + ".evil.example",
     SHOP.upper(), f"{SHOP},{BLOG}"],
)  # fmt: skip
def test_any_other_origin_and_none_is_refused(shop, origin):
    answer = shop.post("/leads", BODY, headers={} if origin is None else {"Origin": origin})
    assert answer.status_code == 403
    assert answer.json["code"] == "origin_not_allowed"
    assert not any(name in answer.headers for name in CORS)
    assert answer.headers["X-RateLimit-Limit"] == "5000"


def test_a_key_that_names_no_origin_gets_no_cors(form):
    for origin in (None, SHOP, THIEF, "null"):
        answer = post(form, origin)
        assert answer.status_code == 201
        assert not any(name in answer.headers for name in CORS)


def test_errors_carry_cors_too(crm, shop):
    def told(answer, status: int):
        assert answer.status_code == status
        assert answer.headers["Access-Control-Allow-Origin"] == SHOP
        assert answer.mimetype == "application/problem+json"

    origin = {"Origin": SHOP}
    told(post(shop, body={"name": "x"}), 422)
    told(
        shop.call("POST", "/leads", headers=origin, data=b"{", content_type="application/json"), 400
    )
    told(shop.call("POST", "/leads", headers=origin, data=b"x", content_type="text/plain"), 415)
    told(shop.get("/leads", headers=origin), 403)
    told(shop.get("/nothing", headers=origin), 404)
    told(shop.put("/leads", headers=origin), 405)
    for _ in range(2500):
        crm.limiter.count_request("acme", 5000, crm.tenants.clock(), group="forms")
    told(post(shop), 429)


# Preflight


def test_a_preflight_from_a_forms_origin_is_allowed(crm, shop):
    for origin in (SHOP, BLOG):
        answer = ask(crm, origin, **{"Access-Control-Request-Headers": "authorization"})
        assert answer.status == 204 and answer.body == b""
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert answer.headers["Access-Control-Allow-Methods"] == "POST"
        allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert {"authorization", "content-type", "idempotency-key"} <= set(allowed)
        assert int(answer.headers["Access-Control-Max-Age"]) > 0
        assert answer.headers["Vary"] == "Origin"
        assert "X-RateLimit-Limit" not in answer.headers
    assert "Access-Control-Allow-Origin" not in ask(crm, SHOP, "globex").headers
    assert ask(crm, SHOP, "nobody").status == 404


@pytest.mark.parametrize("origin", [None, THIEF, "null", SHOP.upper(), "\xff"])
def test_a_preflight_from_elsewhere_is_allowed_nothing(crm, shop, origin):
    answer = ask(crm, origin)
    assert answer.status == 204
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]
    assert answer.headers["Vary"] == "Origin"


def test_the_origins_of_keys_that_ended_are_forgotten(crm):
    clock = crm.tenants.clock
    ends = time_text(int(clock()) + 30)
    key_for(crm, "globex", "leads:create", origins="https://late.example", expires_at=ends)
    key_for(crm, "globex", "leads:create", origins="https://gone.example")
    for origin in ("https://late.example", "https://gone.example"):
        assert "Access-Control-Allow-Origin" in ask(crm, origin, "globex").headers
    with crm.tenants.session("globex"):
        api_keys.list_all()[-1].revoke()
    clock.tick(30)
    for origin in ("https://late.example", "https://gone.example"):
        assert "Access-Control-Allow-Origin" not in ask(crm, origin, "globex").headers


# Limits


def test_forms_leave_half_of_the_window_to_integrations(crm, shop, form, api):
    with crm.tenants.session("acme"):
        tenant.change_plan("start")
    try:
        seen = [
            post(who, address=f"192.0.2.{visitor}").status_code
            for visitor in range(16)
            for who in (shop, form)
        ]
        assert seen == [201] * 30 + [429] * 2
        assert api.get("/leads").status_code == 200
    finally:
        with crm.tenants.session("acme"):
            tenant.change_plan("business")


def test_a_visitor_of_a_form_sends_ten_times_a_minute(crm, shop, api):
    addresses = [f"2001:db8::{number:x}" for number in range(MAX_FORM_REQUESTS + 3)]  # one network
    answers = [post(shop, address=address) for address in addresses]
    assert [answer.status_code for answer in answers] == [201] * MAX_FORM_REQUESTS + [429] * 3
    item = answers[-1]
    assert item.json["code"] == "rate_limited"
    left = int(item.headers["X-RateLimit-Reset"]) - int(crm.tenants.clock())
    assert item.headers["Retry-After"] == str(left)
    assert item.headers["Access-Control-Allow-Origin"] == SHOP
    assert item.headers["X-RateLimit-Remaining"] == str(2500 - MAX_FORM_REQUESTS)
    assert post(shop, address="192.0.2.2").status_code == 201
    assert api.get("/users/me").headers["X-RateLimit-Remaining"] == str(
        5000 - MAX_FORM_REQUESTS - 2
    )
    other = Api(crm, "globex", key_for(crm, "globex", "leads:create", origins=SHOP))
    assert post(other, address=addresses[0]).status_code == 201  # visitors of tenants are apart
    crm.tenants.clock.tick(60)
    assert post(shop).status_code == 201


def test_a_sites_own_server_sends_for_all_of_its_visitors(form, api):
    seen = {post(form, None).status_code for _ in range(MAX_FORM_REQUESTS + 3)}
    assert seen == {201}
    assert {api.get("/users/me").status_code for _ in range(MAX_FORM_REQUESTS + 3)} == {200}


# The trap


def stored(crm):
    """How many leads and events there are."""
    with crm.tenants.session("acme"):
        return one_row("SELECT (SELECT count(*) FROM lead), (SELECT count(*) FROM event)")


@pytest.mark.parametrize("trap", ["https://spam.example", " ", 1, ["x"]])
def test_what_a_robot_sends_is_answered_like_a_lead_and_not_kept(crm, shop, form, trap):
    for who in (shop, form):
        before = stored(crm)
        robot = post(who, body={**BODY, HONEYPOT: trap})
        assert stored(crm) == before
        person = post(who, body={**BODY, HONEYPOT: ""})
        assert (robot.status_code, set(robot.json)) == (person.status_code, set(person.json))
        assert robot.json == person.json  # the number is the next lead's
        assert robot.headers["Location"] == person.headers["Location"]
        assert {name for name, _ in robot.headers} == {name for name, _ in person.headers}


def test_an_empty_trap_leaves_no_trace_and_other_keys_have_none(shop, api):
    for empty in ("", None):
        answer = post(shop, body={**BODY, HONEYPOT: empty, "size": "XL"})
        assert api.read(f"/leads/{answer.json['lead_id']}")["extra"] == {"size": "XL"}
    id = api.create("/leads", **BODY, **{HONEYPOT: "https://client.example"})
    assert api.read(f"/leads/{id}")["extra"] == {HONEYPOT: "https://client.example"}


def test_a_form_sees_no_name_phone_or_address_of_its_user(form, api):
    assert api.read("/users/me")["email"] == "olena@acme.example"
    me = form.read("/users/me")
    assert (me["name"], me["email"], me["phone"]) == ("", None, None)
    assert "Olena" not in form.get("/users/me").text


def test_origins_are_kept_as_browsers_write_them(crm):
    key_for(crm, "globex", "leads:create", origins=" HTTPS://Mixed.Example/ ,http://localhost:3000")
    with crm.tenants.session("globex"):
        assert api_keys.list_all()[-1].origins == "https://mixed.example,http://localhost:3000"
    assert ask(crm, "https://mixed.example", "globex").status == 204


# Files


def send_file(who, lead_key, data=b"sketch", name="Ескіз.pdf"):
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"'
    parts = ('Content-Disposition: form-data; name="lead_key"', lead_key.encode()), (head, data)
    body = b"".join(b"--limit\r\n%s\r\n\r\n%s\r\n" % (one.encode(), of) for one, of in parts)
    return who.post(
        "/leads/files",
        data=body + b"--limit--\r\n",
        content_type="multipart/form-data; boundary=limit",
        headers={"Origin": SHOP},
        environ_base={"REMOTE_ADDR": "192.0.2.9"},
    )


def form(crm, **more):
    return Api(crm, "acme", key_for(crm, "acme", "leads:create", origins=SHOP, **more))


def test_a_form_that_takes_files_adds_them_to_its_lead(crm, api):
    taking, other = form(crm, form_fields='["files"]'), form(crm, form_fields='["files"]')
    lead = post(taking, **{"Idempotency-Key": "one"}).json["lead_id"]
    answer = send_file(taking, "one")
    assert (answer.status_code, answer.headers[CORS[0]]) == (204, SHOP)
    assert send_file(taking, "one").status_code == 204  # the answer was lost
    assert [file["name"] for file in api.read(f"/leads/{lead}/files")] == ["Ескіз.pdf"]
    for number in range(4):
        assert send_file(taking, "one", b"%d" % number).status_code == 204
    assert send_file(taking, "one", b"too many").json["errors"][0]["code"] == "too_many_files"
    assert send_file(taking, "two").status_code == 404
    assert send_file(other, "one").status_code == 404  # another form's lead
    crm.tenants.clock.tick(60)
    assert send_file(taking, "one", b"x" * (MAX_FORM_FILE_BYTES + 1)).status_code == 413
    assert api.delete(f"/leads/{lead}").status_code == 204
    assert send_file(taking, "one", b"late").status_code == 404


def test_other_keys_send_no_files_of_forms(crm, shop, api):
    post(shop, **{"Idempotency-Key": "shop"})
    for who in (shop, form(crm, form_fields="[]"), api):
        assert send_file(who, "shop").json["code"] == "form_takes_no_files"
