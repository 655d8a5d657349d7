"""Settings of a business: who sees them, profile, company, users, pipelines, plan."""

import re

import pytest

from crm.access import links, passwords, sessions
from crm.cabinet.settings import emails
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.pipelines.record import PIPELINE, Pipeline
from crm.resources.users import USER
from crm.storage.session import row, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS
from tests.installations import config_for
from tests.page_client import Person
from tests.passwords import set_password

pytestmark = pytest.mark.usefixtures("cheap_hashes")

each = pytest.mark.parametrize


def user(crm, id=TARAS):
    with crm.tenants.session("acme"):
        return USER.one(id)


def user_names(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [record["name"] for record in USER.every("TRUE ORDER BY id")]


def tokens_of(letter) -> str:
    return re.search(r"http://acme\.localhost:\d+(/\S+)", letter[-1])[1]


# Who sees what


@each("role", ["manager", "viewer"])
def test_the_others_have_their_profile(crm, manager, role):
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"role": role})
    assert manager.get("/settings").location == "/settings/profile"
    page = manager.sees("/settings/profile")
    assert "Taras" in page and "/settings/company" not in page
    manager.sends("/settings/profile", {"name": "Тарас", "language": "uk"})
    assert user(crm)["name"] == "Тарас"


# Profile


def test_a_profile_that_does_not_fit_is_shown_again(olena):
    page = olena.post("/settings/profile", {"name": " ", "language": "en"})
    assert page.status_code == 422 and 'id="name-fault"' in page.text
    assert '<option value="en" selected' in page.text
    assert 'value="olena@acme.example"' in page.text
    assert olena.post("/settings/profile", {"name": "O", "language": "de"}).status_code == 422


def test_a_new_address_counts_once_its_link_is_opened(crm, olena, post):
    olena.sends("/settings/profile/email", {"email": " olena@new.example "})
    assert user(crm, OLENA)["email"] == "olena@acme.example"
    (to, subject, text), (before, _, notice) = post.letters
    assert (to, before) == ("olena@new.example", "olena@acme.example") and subject
    path = tokens_of(post.letters[0])
    assert "olena@new.example" not in notice and path.rpartition("/")[2] not in notice
    assert path.startswith("/email/")
    with crm.tenants.session("acme"):
        link = links.peek(links.EMAIL, path.rpartition("/")[2])
    assert (link.user_id, link.about) == (OLENA, "olena@new.example")


@loop_over(
    ("email", "status"),
    [("", 422), ("olena", 422), ("TARAS@acme.example", 409), ("olena@acme.example", 303)],
)
def test_an_address_that_cannot_be_taken_gets_no_letter(crm, olena, post, email, status):
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"email": "taras@acme.example"})
    page = olena.post("/settings/profile/email", {"email": email})
    assert page.status_code == status
    assert post.letters == []
    if status > 400:
        assert f'value="{email}"' in page.text
        assert 'value="Olena"' in page.text


def test_the_first_password_needs_no_other(crm, olena):
    assert 'name="current"' not in olena.sees("/settings/profile")
    other = Person(crm, user_id=OLENA)
    olena.sends("/settings/profile/password", {"password": "довгий пароль"})
    with crm.tenants.session("acme"):
        assert passwords.matches(passwords.find_hash(OLENA), "довгий пароль")
    assert 'name="current"' in olena.sees("/settings/profile")
    assert other.get("/settings/profile").status_code == 302  # logged out there


def test_a_password_is_changed_by_who_knows_the_current_one(crm, olena):
    with crm.tenants.session("acme"):
        set_password(OLENA, "first password")
        link = links.create(links.RESET, OLENA)
    page = olena.post(
        "/settings/profile/password", {"current": "wrong", "password": "second password"}
    )
    assert page.status_code == 422 and 'id="current-fault"' in page.text
    assert "second password" not in page.text
    sent = {"current": "first password", "password": "short"}
    page = olena.post("/settings/profile/password", sent)
    assert page.status_code == 422 and 'id="password-fault"' in page.text
    olena.sends("/settings/profile/password", {**sent, "password": "second password"})
    with crm.tenants.session("acme"):
        assert passwords.matches(passwords.find_hash(OLENA), "second password")
        assert links.peek(links.RESET, link) is None


def test_a_session_is_ended(crm, olena, manager):
    other, third = Person(crm, user_id=OLENA), Person(crm, user_id=OLENA)
    with crm.tenants.session("acme"):
        own, *_ = sorted(session.id for session in sessions.list_live(OLENA))
        (theirs,) = sessions.list_live(TARAS)
    page = olena.sees("/settings/profile")
    assert f"/sessions/{own}/end" not in page and f"/sessions/{own + 2}/end" in page
    olena.sends(f"/settings/profile/sessions/{own + 2}/end")
    assert other.get("/settings/profile").status_code == 302
    third.sees("/settings/profile")
    olena.sends(f"/settings/profile/sessions/{theirs.id}/end")
    manager.sees("/settings/profile")
    olena.sends("/settings/profile/sessions/end-others")
    assert third.get("/settings/profile").status_code == 302
    olena.sees("/settings/profile")


@loop_over(
    ("agent", "shown"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/149.0 Safari/537.36 Edg/1", "Edge, Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0) Safari/604.1", "Safari, iPhone"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ],
)  # fmt: skip
def test_a_browser_is_told_in_words(crm, agent, shown):
    with crm.tenants.session("acme"):
        sessions.open(OLENA, agent)
    page = Person(crm, user_id=OLENA).sees("/settings/profile")
    assert f">{shown}</td>" in page
    assert "<script>alert" not in page


# Company


def test_a_company_is_renamed_and_settled(crm, olena):
    sent = {"name": "<b>Меблі</b>", "currency": "EUR", "time_zone": "Europe/Warsaw"}
    olena.sends("/settings/company", sent)
    with crm.tenants.session("acme"):
        about = tenant.about()
        assert {name: about[name] for name in sent} == sent
    page = olena.sees("/settings/company")
    assert "&lt;b&gt;Меблі" in page and "<b>Меблі" not in page
    assert '<option value="Europe/Warsaw" selected>' in page


# Users


def test_a_colleague_is_invited_by_e_mail(crm, olena, post):
    sent = {"name": "Марія", "email": "m@acme.example", "phone": "0671234567", "role": "viewer"}
    assert olena.sends("/settings/users", sent) == "/settings/users"
    made = user(crm, 3)
    assert (made["name"], made["phone"], made["role"]) == ("Марія", "+380671234567", "viewer")
    ((to, _, text),) = post.letters
    assert to == "m@acme.example" and "Acme" in text
    path = post.link()
    with crm.tenants.session("acme"):
        assert links.peek(links.INVITE, path.removeprefix("/invite/")).user_id == 3
    assert "Марія" in olena.sees("/settings/users")


def test_a_colleague_without_e_mail_is_invited_by_sms(crm, olena, post):
    olena.sends("/settings/users", {"name": "Марія", "phone": "0671234567", "role": "manager"})
    ((to, text),) = post.texts
    assert to == "+380671234567"
    page = Person(crm).sees(tokens_of(post.texts[0]))
    assert "Марія" in page
    assert Person(crm).sends(re.search(r'action="(/invite/[^"]+)"', page)[1]) == "/"


@each("sent", [{"email": "m@acme.example"}, {"phone": "0671234567"}])
def test_while_nothing_is_sent_the_link_is_shown_once_to_who_invited(crm, olena, post, sent):
    post.sends_sms = post.sends_mail = False  # both are written to the console
    to = sent.get("email") or "067\u00a0123\u00a045\u00a067"
    page = olena.post("/settings/users", {"name": "Марія", "role": "viewer", **sent})
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store"
    assert f"На {to} нічого не надіслано" in page.text and "Запрошення надіслано" not in page.text
    link = re.search(r'<pre id="invitation"[^>]*><code>(.*?)</code>', page.text)[1]
    assert link.startswith("http://acme.localhost:8000/i")
    path = link.removeprefix("http://acme.localhost:8000")
    for other in ("/settings/users", "/settings/users/3", "/"):
        assert path not in olena.sees(other)
    assert "нічого не надіслано" not in olena.sees("/settings/users")
    # Another one ends the first.
    page = olena.post("/settings/users/3/invite")
    again = re.search(r"<code>http://acme.localhost:8000(.*?)</code>", page.text)[1]
    newcomer = Person(crm)
    newcomer.sees(path, 404)
    shown = newcomer.sees(again)
    newcomer.sends(re.search(r'action="(/invite/[^"]+)"', shown)[1])
    assert "Сьогодні" in newcomer.sees("/")
    Person(crm).sees(again, 404)


def test_the_list_shows_who_is_invited_and_has_not_come_in(crm, olena, post, clock):
    assert "Запрошено" not in olena.sees("/settings/users")
    olena.sends("/settings/users", {"name": "Марія", "email": "m@a.example", "role": "manager"})
    page = olena.sees("/settings/users")
    assert page.count("Запрошено") == 1
    assert "2 бер. 2026" in page and "11:00, входу ще не було" in page
    assert 'action="/settings/users/3/invite"' in page
    clock.tick(7 * 86_400 + 1)
    olena = Person(crm, user_id=OLENA)
    page = olena.sees("/settings/users")
    assert "Строк дії минув" in page and "входу так і не було" in page
    olena.sends("/settings/users/3/invite")
    assert "9 бер. 2026" in olena.sees("/settings/users")
    newcomer = Person(crm)
    shown = newcomer.sees(post.link())
    newcomer.sends(re.search(r'action="(/invite/[^"]+)"', shown)[1])
    assert "Запрошено" not in olena.sees("/settings/users")
    assert "/settings/users/3/invite" not in olena.sees("/settings/users")


def test_sms_of_invitations_are_counted(crm, post, clock):
    clock.tick(8 * 86_400)  # a young business may send no more than that anyway
    olena = Person(crm, user_id=OLENA)  # just logged in
    seen = [olena.post("/settings/users/2/invite").status_code for _ in range(6)]
    assert seen == [303] * 3 + [429] * 3 and len(post.texts) == 3
    new = {"name": "Марія", "phone": "+380501110002", "role": "manager"}
    assert olena.post("/settings/users", new).status_code in (409, 429)
    assert user_names(crm) == ["Olena", "Taras"]


@each(("days", "most"), [(6.9, 5), pytest.param(7, 50, marks=pytest.mark.deep)])
def test_a_business_sends_few_letters_a_day(crm, post, clock, days, most):
    clock.tick(days * 86_400)
    olena = Person(crm, user_id=OLENA)  # just logged in
    with crm.tenants.session("acme"):
        for number in range(most):
            emails.require_letter_allowed()
            links.create((links.INVITE, links.EMAIL)[number % 2], TARAS)
        set_password(OLENA, "a password")  # which ends links, and they count all the same
    sent = {"name": "Марія", "email": "m@a.example", "role": "manager"}
    page = olena.post("/settings/users", sent)
    assert page.status_code == 409 and 'value="Марія"' in page.text
    asked = {"email": "o@n.example", "current": "a password"}
    assert olena.post("/settings/profile/email", asked).status_code == 409
    assert post.letters == []
    assert user_names(crm) == ["Olena", "Taras"]
    clock.tick(86_401)
    olena.sends("/settings/users", {**sent, "current": "a password"})
    assert len(post.letters) == 1


@loop_over(
    ("sent", "status", "place"),
    [
        ({"name": "", "email": "m@a.example"}, 422, "name-fault"),
        ({"name": "M", "email": "m"}, 422, "email-fault"),
        ({"name": "M"}, 422, "phone-fault"),
        ({"name": "M", "phone": "050 111 00 02"}, 409, "trouble"),
        ({"name": "M", "email": "m@a.example", "role": "boss"}, 422, "role-fault"),
    ],
)
def test_who_cannot_be_invited_is_told_at_the_place(api, olena, post, sent, status, place):
    page = olena.post("/settings/users", {"role": "viewer", **sent})
    assert page.status_code == status and f'id="{place}"' in page.text
    for value in sent.values():
        assert f'value="{value}"' in page.text or value == "boss"
    assert len(api.read("/users")) == 2 and not post.letters and not post.texts


def test_a_user_is_changed(crm, olena):
    sent = {"name": "Т", "email": "t@a.example", "phone": "0671234567", "role": "viewer"}
    olena.sends("/settings/users/2", sent)
    changed = user(crm)
    assert (changed["name"], changed["email"]) == ("Т", "t@a.example")
    assert (changed["phone"], changed["role"]) == ("+380671234567", "viewer")


def test_the_own_address_is_not_changed_among_users(crm, olena):
    assert 'name="email"' not in olena.sees("/settings/users/1")
    sent = {"name": "O", "email": "x@a.example", "phone": "0501110001", "role": "owner"}
    olena.sends("/settings/users/1", sent)
    assert (user(crm, 1)["name"], user(crm, 1)["email"]) == ("O", "olena@acme.example")


def test_who_is_deactivated_is_out_and_comes_back_anew(crm, olena, manager, taras):
    manager.sees("/settings/profile")
    olena.sends("/settings/users/2/deactivate")
    assert user(crm)["active"] is False
    assert manager.get("/settings/profile").status_code == 302
    assert taras.get("/users/me").status_code == 401
    olena.sends("/settings/users/2/activate")
    assert user(crm)["active"] is True
    assert manager.get("/settings/profile").status_code == 302  # that session has ended
    assert taras.get("/users/me").status_code == 401  # and so has the key


def test_what_a_former_colleague_had_open_is_found_and_handed_over_with_undo(crm, api, olena):
    lead = api.create("/leads", name="Марія", phone="0501234567", assigned_to="2")
    api.create("/deals", title="Столи", assigned_to="2")
    page = olena.sees("/settings/users/2")
    assert "Ліди: 1, угоди: 1, завдання: 0" in page and 'value="2"' not in page
    olena.sends("/settings/users/2/deactivate")
    for path in ("/leads", "/deals?view=list", "/deals", "/clients", "/tasks"):
        assert '<option value="2">Taras (без доступу)</option>' in olena.sees(path), path
    assert '<option value="1">Olena</option>' in olena.sees("/settings/users/2")
    assert olena.sends("/settings/users/2/hand-over", {"hand_over": "1"}) == "/settings/users"
    page = olena.sees("/settings/users")
    assert "Ліди: Змінено 1 запис" in page and "Угоди: Змінено 1 запис" in page
    assert api.read(f"/leads/{lead}")["assigned_to"] == "1"
    assert "Taras (без доступу)" not in olena.sees("/leads")
    olena.sends(re.findall(r'action="(/leads/batches/\d+/undo)"', page)[0])
    assert api.read(f"/leads/{lead}")["assigned_to"] == "2"
    assert "Ліди: 1, угоди: 0, завдання: 0" in olena.sees("/settings/users/2")


def test_access_ends_and_the_work_becomes_nobodys_in_one_step(api, olena):
    lead = api.create("/leads", name="Марія", phone="0501234567", assigned_to="2")
    olena.sends("/settings/users/2/deactivate", {"hand_over": "none"})
    assert api.read(f"/leads/{lead}")["assigned_to"] is None
    assert '"hand_over"' not in olena.sees("/settings/users/2")


# Pipelines


def stages(crm, id=1):
    with crm.tenants.session("acme"):
        return PIPELINE.one(id)["stages"]


def names(crm, id=1):
    return [stage["name"] for stage in stages(crm, id)]


def test_a_pipeline_is_made_with_the_usual_stages_renamed_moved_and_made_the_default(crm, olena):
    assert olena.sends("/settings/pipelines", {"name": "Опт"}) == "/settings/pipelines/2"
    with crm.tenants.session("acme"):
        made = PIPELINE.one(2)
    assert (made["name"], made["is_default"], made["position"]) == ("Опт", False, 2)
    types = [stage["type"] for stage in made["stages"]]
    assert types == ["open"] * 4 + ["won", "lost"]
    names = [stage["name"] for stage in made["stages"]]
    assert " ".join(names) == "Нова Кваліфікація Пропозиція Переговори Виграно Програно"
    olena.sends("/settings/pipelines/2", {"name": "C"})
    olena.sends("/settings/pipelines/2/move", {"position": "1"})
    olena.sends("/settings/pipelines/2/default")
    with crm.tenants.session("acme"):
        results = [(p.name, p.is_default) for p in Pipeline.every("TRUE ORDER BY position")]
    assert results == [("C", 1), ("Sales", 0)]


def test_a_stage_is_added_changed_and_moved(crm, olena):
    sent = {"name": "Договір", "type": "open", "probability": "90", "color": "#1f6feb"}
    olena.sends("/settings/pipelines/1/stages", sent)
    made = stages(crm)[4]  # before won and lost
    assert (made["name"], made["probability"], made["color"]) == ("Договір", 90, "#1f6feb")
    at = f"/settings/pipelines/1/stages/{made['id']}"
    olena.sends(f"{at}/move", {"position": "1"})
    assert names(crm)[0] == "Договір"
    olena.sends(at, {"name": "Угода", "type": "won", "probability": "", "color": "#6c757d"})
    changed = stages(crm)[0]
    assert (changed["name"], changed["type"]) == ("Угода", "won")
    assert changed["probability"] is changed["color"] is None


def test_a_stage_in_use_is_deleted_with_a_word_where_its_deals_go(crm, api, olena):
    deal = api.create("/deals", title="D")
    assert olena.post("/settings/pipelines/1/stages/1/delete").status_code == 409
    page = olena.post("/settings/pipelines/1/stages/1/delete", {"move_to": "99"})
    assert page.status_code == 422 and 'id="move_to-fault"' in page.text
    olena.confirms("/settings/pipelines/1/stages/1/delete", {"move_to": "2"})
    assert "New" not in names(crm)
    assert api.read(f"/deals/{deal}")["stage_id"] == "2"
    assert api.kinds()[-1] == "deal.stage_changed"
    with crm.tenants.session("acme"):
        (by,) = row("SELECT user_id FROM audit_entry WHERE noun = 'deal' ORDER BY id DESC LIMIT 1")
    assert by == OLENA


# Plan


def test_the_plan_tells_what_this_minute_has_used(crm, olena, api, clock):
    with crm.tenants.session("acme"):
        tenant.change_plan("start")
    for _ in range(7):
        api.get("/users/me")
    page = olena.sees("/settings/plan")
    assert '<meter min="0" max="60" value="7"' in page
    assert crm.limiter.get_count("acme", clock()) == 7
    assert crm.limiter.get_count("globex", clock()) == 0
    clock.tick(60)
    assert 'value="0"' in olena.sees("/settings/plan")
    assert api.get("/users/me").headers["X-RateLimit-Remaining"] == "59"  # looking cost nothing


@each("closed", [{"signup": False}, {"tenant": "acme"}])
def test_a_plan_is_shown_only_where_sign_up_is_open(crm, olena, clock, closed):
    provider = "хто надає цей сервіс"
    assert 'href="/settings/plan"' in olena.sees("/settings")
    assert provider in olena.sees("/settings/plan")
    crm.tenants.forget_idle()
    crm.tenants = Tenants(config_for(crm.tenants.config.data, **closed), clock)
    for path in ("/settings", "/settings/profile", "/settings/company", "/"):
        page = olena.sees(path)
        assert "/settings/plan" not in page and provider not in page
    olena.sees("/settings/plan", 404)
