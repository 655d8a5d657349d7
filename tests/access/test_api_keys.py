"""API keys (spec: Authentication; D12): shown once, kept as a hash, refused all alike."""

import re
import zlib
from base64 import b64encode

import pytest

from crm.access import api_keys, rights
from crm.errors import Forbidden, Invalid, NotFound
from crm.resources import tenant
from crm.storage.session import execute, row, time_text, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.raw_wsgi import send_request
from tests.tables import read_tables

parametrize = pytest.mark.parametrize


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def authorize(crm, value: str | None, host: str = "acme.localhost"):
    headers = {"X-Request-Id": "same"} | ({} if value is None else {"Authorization": value})
    return send_request(crm, "GET", "/api/v1/users/me", headers, host=host)


# The key itself


def test_a_key_is_crm_and_40_characters_and_6_of_checksum():
    keys = {api_keys.generate_key() for _ in range(200)}
    assert len(keys) == 200
    for key in keys:
        assert re.fullmatch(r"crm_[0-9A-Za-z]{46}", key)
        digits = [api_keys.ALPHABET.index(letter) for letter in key[-6:]]
        checksum = sum(digit * 62**place for place, digit in enumerate(digits))
        assert checksum == zlib.crc32(key[4:-6].encode())


def test_the_database_has_the_hash_and_nowhere_the_key(crm):
    with crm.tenants.session("acme"):
        _, key = api_keys.create("site", "*", OLENA)
        (stored_hash,) = row("SELECT hash FROM api_key WHERE name = 'site'")
    content = repr(read_tables(crm.tenants, "acme"))
    assert repr(stored_hash) in content
    for secret in (key, key[4:], key[8:40], key[-20:]):
        assert secret not in content


# Refusals


def test_what_is_written_in_another_way_is_refused_alike(crm, furnished):
    """Keys that are good no more, or elsewhere: test_rights.py."""
    typo = furnished[1]["olena"][:-1] + "!"
    values = [
        None, "", "Bearer", "Bearer ", "Bearer x", f"Basic {furnished[1]['olena']}",
        furnished[1]["olena"], f"Bearer {furnished[1]['olena']} x", f"Bearer {typo}",
        f"Bearer {api_keys.generate_key()}", "Bearer \xe9\xff",
        "Bearer " + "a" * 60_000, "Basic", "Basic \xe9", basic("", furnished[1]["olena"]),
        basic(furnished[1]["olena"], "x"), basic(furnished[1]["ivan"], ""), "Basic /w==",
        f"Basic {b64encode(furnished[1]['olena'].encode()).decode()}",
    ]  # fmt: skip
    answers = [authorize(crm, value) for value in values]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    headers = {tuple(sorted(dict(answer.headers).items())) for answer in answers}
    assert len(headers) == 1
    headers = answers[0].headers
    assert headers["WWW-Authenticate"] == "Bearer"
    assert headers["Content-Type"] == "application/problem+json"
    assert "X-RateLimit-Limit" not in headers
    assert answers[0].json["code"] == "invalid_key"


@parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_scheme_has_no_case(crm, furnished, scheme):
    assert authorize(crm, f"{scheme} {furnished[1]['olena']}").status == 200


@parametrize("scheme", ["Basic", "basic"])
def test_a_program_that_knows_basic_alone_sends_the_key_as_user_name(crm, furnished, scheme):
    value = basic(furnished[1]["olena"], "").replace("Basic", scheme)
    answer = authorize(crm, value)
    assert (answer.status, answer.json["name"]) == (200, "Olena")
    assert answer.headers["X-RateLimit-Remaining"] == "4999"


def test_a_key_in_the_address_is_refused(crm, furnished):
    path, query = "/api/v1/users/me", f"key={furnished[1]['olena']}"
    assert send_request(crm, path=path, query=query).status == 401
    headers = {"Authorization": f"Bearer {furnished[1]['olena']}"}
    answer = send_request(crm, path=path, headers=headers, query=query)
    assert answer.status == 422 and furnished[1]["olena"] not in answer.body.decode()


def test_a_key_ends_by_the_clock(crm, clock):
    ends = time_text(int(clock()) + 60)
    api = Api(crm, "acme", key_for(crm, "acme", "*", expires_at=ends))
    clock.tick(59)
    assert api.get("/users/me").status_code == 200
    clock.tick(1)
    assert api.get("/users/me").status_code == 401
    with crm.tenants.session("acme"):
        assert api_keys.list_all()[-1].state() == "expired"


def test_revocation_is_seen_at_once(crm, api):
    assert api.get("/users/me").status_code == 200
    with crm.tenants.session("acme"):
        key = api_keys.find(1)
        assert key.state() == "live"
        key.revoke()
        first = api_keys.find(1).revoked_at
        assert api_keys.find(1).state() == "revoked"
    assert api.get("/users/me").status_code == 401
    with crm.tenants.session("acme"):
        api_keys.find(1).revoke()
        assert api_keys.find(1).revoked_at == first


def test_a_suspended_tenants_good_keys_are_told(crm, api):
    with crm.tenants.session("acme"):
        tenant.suspend()
    answer = api.get("/users/me")
    assert (answer.status_code, answer.json["code"]) == (403, "tenant_suspended")
    assert authorize(crm, "Bearer x").status == 401
    assert api.post("/leads", {"name": "a", "phone": "+380671234567"}).status_code == 403
    with crm.tenants.session("acme"):
        tenant.resume()
    assert api.get("/users/me").status_code == 200


# Use


def test_the_last_use_is_noted_at_most_every_ten_minutes(crm, api, clock):
    def noted():
        with crm.tenants.session("acme"):
            return api_keys.find(1).last_used_at

    assert noted() is None
    api.get("/users/me")
    first = noted()
    assert first == time_text(int(clock()))
    clock.tick(600)
    api.get("/users/me")
    assert noted() == first
    clock.tick(1)
    api.get("/users/me")
    assert noted() == time_text(int(clock()))


def test_a_refused_key_notes_no_use(crm, api):
    with crm.tenants.session("acme"):
        api_keys.find(1).revoke()
    api.get("/users/me")
    with crm.tenants.session("acme"):
        assert api_keys.find(1).last_used_at is None


def test_a_key_acts_for_its_user(crm, taras):
    id = taras.create("/leads", name="Марія", phone="+380671234567")
    assert taras.read(f"/leads/{id}")["created_by"] == str(TARAS)


# Making keys


def test_a_key_keeps_what_it_may(crm):
    with crm.tenants.session("acme"):
        id, key = api_keys.create(" ERP ", "leads:write, leads:read clients:read", TARAS)
        caller = rights.authenticate(key)
        api_key = api_keys.find(id)
    assert (api_key.name, api_key.scopes) == ("ERP", "clients:read,leads:read,leads:write")
    assert caller.scopes == {"leads:write", "leads:read", "clients:read"}
    assert (caller.user_id, caller.key_id, caller.plan, caller.is_form) == (
        TARAS, id, "business", False,
    )  # fmt: skip


@loop_over(
    ("scopes", "code"),
    [
        ("", "required"),
        (" , ,", "required"),
        ("leads", "unknown_scope"),
        ("leads:delete", "unknown_scope"),
        ("lead:read", "unknown_scope"),
        ("leads:*", "unknown_scope"),
        ("leads:read,keys:write", "unknown_scope"),
        ("clients:create", "unknown_scope"),
    ],
)
def test_scopes_that_do_not_exist_are_named(scopes, code):
    with pytest.raises(Invalid) as refused:
        rights.parse_scopes(scopes)
    assert refused.value.faults[0].code == code
    assert refused.value.faults[0].where == "/scopes"


def test_writing_does_not_imply_reading(crm):
    assert not rights.allows(frozenset({"leads:write"}), "leads:read")
    assert not rights.allows(frozenset({"leads:read"}), "leads:write")
    assert rights.allows(frozenset({"leads:write"}), "leads:create")
    assert not rights.allows(frozenset({"clients:write"}), "leads:create")
    assert all(rights.allows(frozenset({"*"}), scope) for scope in rights.SCOPES)
    with crm.tenants.session("acme") as session, pytest.raises(Forbidden) as refused:
        session.scopes = frozenset({"leads:read"})
        rights.require(("leads:read", "deals:write"))
    assert refused.value.code == "missing_scope" and "deals:write" in refused.value.detail


@parametrize(
    ("more", "field"),
    [
        ({"name": " "}, "name"),
        ({"user_id": 77}, "user_id"),
        ({"origins": "https://a.example"}, "origins"),
        ({"scopes": "leads:create", "origins": "a.example"}, "origins"),
        ({"scopes": "leads:create", "origins": "https://a.example/form"}, "origins"),
        ({"scopes": "leads:create", "origins": "*"}, "origins"),
        ({"scopes": "leads:create", "origins": "null"}, "origins"),
        ({"scopes": "leads:create", "origins": "https://a.example https://b.example"}, "origins"),
    ],
)
def test_a_key_that_could_not_work_is_not_made(crm, more, field):
    values = {"name": "x", "scopes": "*", "user_id": OLENA} | more
    with crm.tenants.session("acme"):
        before = len(api_keys.list_all())
        with pytest.raises(Invalid) as refused:
            api_keys.create(**values)
        assert refused.value.faults[0].where == f"/{field}"
        assert len(api_keys.list_all()) == before


def test_a_deactivated_user_gets_no_key(crm):
    with crm.tenants.session("acme"):
        with transaction():
            execute('UPDATE "user" SET active = 0 WHERE id = ?', (TARAS,))
        with pytest.raises(Invalid):
            api_keys.create("x", "*", TARAS)


def test_an_unknown_key_is_not_found(crm):
    with crm.tenants.session("acme"):
        for id in (77, "x", "0", -1, 1 << 70, None):
            with pytest.raises(NotFound):
                api_keys.find(id)
