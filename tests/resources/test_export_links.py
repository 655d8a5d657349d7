"""Export links: an address that gives one export to whoever has it (D12)."""

import pytest

from crm.access import api_keys, rights
from crm.api.request_limits import MAX_LINK_EXPORTS
from crm.resources import tenant, users
from crm.resources.export_links import MAX_DAYS
from crm.storage.session import rows
from tests.conftest import TARAS, Api, key_for
from tests.raw_wsgi import send_request

DAY = 86_400
WON = {"resource": "deals", "filters": {"status": ["won"], "sort": "-amount"}}


@pytest.fixture
def deals(api: Api) -> None:
    for title, status in (("Крісла", "won"), ("Столи", "open"), ("Шафи", "won")):
        api.create("/deals", title=title, amount=100, status=status)


@pytest.fixture
def reader(crm) -> Api:
    """A key that may read deals and nothing else."""
    return Api(crm, "acme", key_for(crm, "acme", "deals:read"))


def create(api: Api, **body: object) -> str:
    """The path of a new link."""
    answer = api.post("/export-links", {**WON, **body})
    assert answer.status_code == 201, answer.text
    assert set(answer.json) == {"status", "export_link_id", "expires_at", "url"}
    base = "http://acme.localhost:8000"
    assert answer.json["url"].startswith(f"{base}/export/crm_")
    return answer.json["url"].removeprefix(base)


def get(crm, path: str, host: str = "acme.localhost", method: str = "GET"):
    return send_request(crm, method, path, host=host)


def test_a_link_gives_the_export_of_its_filters_to_whoever_has_it(crm, api, reader, deals):
    path = create(reader)
    file = get(crm, path)
    assert (file.status, file.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert file.headers["Cache-Control"] == "no-store"
    assert file.body == reader.get("/deals/export?status=won&sort=-amount").data
    assert [title in file.body.decode() for title in ("Крісла", "Столи", "Шафи")] == [1, 0, 1]
    # Parameters of the address change nothing, and it is a link of this tenant alone.
    assert send_request(crm, path=path, query="status=open").body == file.body
    assert get(crm, path, "globex.localhost").status == 404
    assert get(crm, f"/export/{api_keys.generate_key()}.csv").status == 404
    assert get(crm, "/export/x.csv").status == 404
    assert get(crm, path, method="POST").status == 405
    # Whatever its maker may do, it tells managers by their ids, as a key without users:read does.
    assert get(crm, create(api)).body == file.body
    assert api.get("/deals/export?status=won&sort=-amount").data != file.body


def test_a_spreadsheet_that_opens_a_link_runs_no_formula(crm, reader, api):
    api.create("/deals", title='=HYPERLINK("https://thief.example")', amount=1, status="won")
    lines = get(crm, create(reader)).body.decode()
    assert """"'=HYPERLINK(""" in lines and "\n-" not in lines
    assert b"'=" not in reader.get("/deals/export").data  # which is for programs, and exact


def test_its_token_is_stored_as_a_hash_and_is_no_key_of_the_api(crm, api, reader, deals):
    headers = {"Idempotency-Key": "one"}
    first = api.post("/export-links", WON, headers=headers).json
    token = first["url"].rpartition("/")[2].removesuffix(".csv")
    again = api.post("/export-links", WON, headers=headers).json
    assert again == {name: first[name] for name in ("status", "export_link_id", "expires_at")}
    with crm.tenants.session("acme"):
        key = api_keys.find(first["export_link_id"])
        assert key.hash == rights.hash_key(token)
        for table in ("api_key", "idempotency_response", "audit_entry", "event"):
            assert token not in str(rows(f"SELECT * FROM {table}"))
    for path in ("/users/me", "/deals", "/deals/export"):
        assert Api(crm, "acme", token).get(path).status_code == 401
    assert get(crm, f"/export/{reader.key}.csv").status == 404  # nor is a key a link


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"resource": "users"}, "/resource"),
        ({"filters": {"status": "wun"}}, "/filters/status"),
        ({"filters": {"format": "xlsx"}}, "/filters/format"),
        ({"expires": "2026-03-02T09:00:00Z"}, "/expires"),
        ({"expires": "2027-03-04T09:00:00Z"}, "/expires"),
    ],
)
def test_what_does_not_fit_is_refused(api, more, pointer):
    answer = api.post("/export-links", {**WON, **more})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json["errors"]] == [pointer]


def test_a_link_ends_with_its_time_its_key_and_its_user(crm, api, clock, deals):
    def ended() -> list[int]:
        return [get(crm, path).status for path in paths]

    with crm.tenants.session("acme"):
        soon = "2026-03-12T09:00:00Z"
        id, secret = api_keys.create("sheet", "deals:read", 1, expires_at=soon)
    of_key = Api(crm, "acme", secret)
    of_taras = Api(crm, "acme", key_for(crm, "acme", "deals:read", TARAS))
    assert of_key.post("/export-links", WON).json["expires_at"] == soon
    paths = [create(api), create(of_key), create(of_taras), create(api, expires=soon)]
    revoked = api.post("/export-links", WON).json
    paths.append(revoked["url"].removeprefix("http://acme.localhost:8000"))
    assert ended() == [200] * 5
    with crm.tenants.session("acme"):
        api_keys.find(revoked["export_link_id"]).revoke()
        api_keys.find(id).revoke()
        users.update(TARAS, {"active": 0})
    assert ended() == [200, 404, 404, 200, 404]
    clock.tick(10 * DAY)
    assert ended() == [200, 404, 404, 404, 404]
    with crm.tenants.session("acme"):
        tenant.suspend()
    assert ended()[0] == 403
    with crm.tenants.session("acme"):
        tenant.resume()
    clock.tick(MAX_DAYS * DAY)
    assert ended() == [404] * 5


def test_a_link_is_used_sixty_times_a_minute(crm, api, clock, deals):
    path, other = create(api), create(api)
    answers = [get(crm, path) for _ in range(MAX_LINK_EXPORTS + 1)]
    assert [answer.status for answer in answers] == [200] * 60 + [429]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
    assert get(crm, other).status == 200
    clock.tick(60)
    assert get(crm, path).status == 200


def test_the_page_of_keys_lists_links_and_revokes_them(crm, api, olena, deals):
    path = create(api)
    with crm.tenants.session("acme"):
        (link,) = api_keys.list_export_links()
        assert link.name == "deals.csv?sort=-amount&status=won"
    page = olena.get("/settings/api-keys").text
    assert "Посилання на експорт" in page and "deals.csv?sort=-amount" in page
    olena.confirms(f"/settings/api-keys/{link.id}/revoke")
    assert get(crm, path).status == 404


def test_the_erasure_of_a_person_ends_links_that_look_for_them(crm, api):
    client = api.create("/clients", name="Марія Коваль", phone="+380671234567")
    paths = [
        create(api, resource="clients", filters={"phone": "067 123 45 67"}),
        create(api, resource="clients", filters={}),
    ]
    assert api.post(f"/clients/{client}/erase").status_code == 200
    assert [get(crm, path).status for path in paths] == [404, 200]
    with crm.tenants.session("acme"):
        assert "067" not in str([(key.name, key.export) for key in api_keys.list_all()])


def test_a_link_needs_the_right_to_read_its_resource(crm):
    for scopes in ("leads:read", "deals:write", "leads:create"):
        answer = Api(crm, "acme", key_for(crm, "acme", scopes)).post("/export-links", WON)
        assert (answer.status_code, answer.json["scope"]) == (403, "deals:read")
