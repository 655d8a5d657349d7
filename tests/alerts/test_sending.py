"""Messages about alerts: leases, retries, quiet hours, digests, and the text of an e-mail."""

import re
from email.headerregistry import Address
from functools import partial

import pytest

from crm.alerts import alerts, sending
from crm.alerts.kinds import EMAIL, KINDS
from crm.alerts.sender import AlertSender
from crm.cabinet.alerts import write_message
from crm.config import MailServer
from crm.installation.tenants import Tenants
from crm.messages import Undelivered
from crm.resources import tenant, users
from crm.storage.session import execute, rows, transaction
from tests.conftest import OLENA, TARAS
from tests.installations import config_for

HOUR, DAY = 3600, 86_400


class Box:
    """A mail server's end: what came, and how it answers."""

    def __init__(self) -> None:
        self.letters = []
        self.refusal = None

    def send(self, to: str, subject: str, text: str) -> None:
        if self.refusal:
            raise self.refusal
        self.letters.append((to, subject, text))

    def take(self) -> list:
        letters, self.letters = self.letters, []
        return letters


def change_taras(crm, fields):
    with crm.tenants.session("acme"):
        users.update(TARAS, fields)


@pytest.fixture
def mailed(crm, clock):
    """The app of an installation that sends e-mail."""
    mail = MailServer("127.0.0.1", 25, False, "", "")
    sender = Address("CRM", "crm", "crm.example")
    config = config_for(crm.tenants.config.data, mail=mail, mail_from=sender)
    crm.tenants = Tenants(config, clock)
    change_taras(crm, {"email": "taras@acme.example"})
    return crm


@pytest.fixture
def box():
    return Box()


@pytest.fixture
def send(mailed, box, monkeypatch):
    """Send what is due at acme, and return the letters; without threads and pauses."""
    monkeypatch.setattr("crm.alerts.sender.PAUSE_SECONDS", 0)
    sender = AlertSender(mailed.tenants, {EMAIL: box.send}, partial(write_message, mailed))

    def send_due():
        while sender._send_next("acme"):
            pass
        return box.take()

    return send_due


def add(crm, count=1, to=TARAS, **more):
    with crm.tenants.session("acme"), transaction():
        for number in range(count):
            alerts.add("assigned", "deal", number + 1, to=to, **more)


def waiting(crm):
    with crm.tenants.session("acme"):
        return rows("SELECT id, send_at FROM alert WHERE send_at IS NOT NULL ORDER BY id")


def test_an_alert_is_a_letter_with_its_text_and_a_link_that_has_its_id(mailed, api, send, manager):
    api.create("/leads", name="Марія", phone="0501234567", assigned_to=str(TARAS))
    ((to, subject, text),) = send()
    assert (to, subject) == ("taras@acme.example", "Новий лід: Марія")
    assert "http://acme.localhost:8000/alerts/1\n" in text
    assert "http://acme.localhost:8000/settings/profile#alerts" in text
    assert manager.get("/alerts/1").location == "/leads/1"
    change_taras(mailed, {"language": "en"})
    api.create("/leads", name="Mary", phone="0501234567", assigned_to=str(TARAS))
    assert send()[0][1] == "New lead: Mary"


def test_channels_are_chosen_by_kind(mailed, api, send, manager):
    page = manager.sees("/settings/profile")
    of_owners = {"webhook_paused", "hook_failed", "key_expiring", "grant_ended", "without_access"}
    assert {*re.findall(r'name="(\w+)" value="email"', page)} == KINDS.keys() - of_owners
    chosen = {"lead_new": ["email"], "assigned": ["bell", "sms"]}
    manager.sends("/settings/profile/alerts", chosen)
    api.create("/leads", name="Марія", phone="0501234567", assigned_to=str(TARAS))
    add(mailed)
    assert [subject for _, subject, _ in send()] == ["Новий лід: Марія"]
    assert manager.get("/bell").json[:2] == ["/alerts", "1"]
    manager.sends("/settings/profile/alerts")
    add(mailed)
    with mailed.tenants.session("acme"):
        assert rows("SELECT count(*) FROM alert") == [(2,)]  # of the third nobody is to be told
        channels = alerts.chosen_channels(TARAS)
    assert channels == {kind: [] for kind in KINDS} | {
        kind: list(KINDS[kind].channels) for kind in of_owners
    }


def test_no_name_of_a_stranger_or_of_a_user_of_a_site_is_a_lure(mailed, form, api, send):
    form.create("/leads", name="Бонус: https://evil.example/login", phone="0501234567")
    assert {subject for _, subject, _ in send()} == {"Новий лід: —"}
    with mailed.tenants.session("acme"):
        lure = {"name": "https://evil.example", "role": "seller"}
        left = users.find_or_create_for_site("7", lure).id
        users.update(left, {"active": 0})
    api.create("/clients", name="Ромашка", assigned_to=str(left))
    ((_, subject, text),) = send()
    assert subject == "Нові записи для колеги без доступу (—) нічиї" and "evil" not in text


def test_what_was_refused_is_tried_again_some_times_and_what_cannot_succeed_once(
    mailed, send, box, clock
):
    add(mailed)
    box.refusal = Undelivered("the mail server refused the message (451)")
    delays = []
    while pending := (send(), waiting(mailed))[1]:
        clock.tick(1)
        assert send() == []
        delays.append(pending)
        clock.tick(24 * HOUR)
    assert len(delays) == len(sending.RETRY_DELAYS_SECONDS)
    add(mailed)
    box.refusal = Undelivered("the mail server refused the recipient (550)", final=True)
    send()
    assert waiting(mailed) == []


def test_an_alert_whose_sender_died_is_sent_again_once_with_the_same_id(mailed, send, clock):
    add(mailed)
    for _ in range(2):
        with mailed.tenants.session("acme"):
            assert sending.claim("one that died")
        clock.tick(sending.LEASE_SECONDS + 1)
    assert send() == []
    add(mailed)
    with mailed.tenants.session("acme"):
        sending.claim("one that died")
    clock.tick(sending.LEASE_SECONDS + 1)
    ((_, _, text),) = send()
    assert "/alerts/2\n" in text


def test_a_suspended_tenant_sends_none_until_it_is_resumed(mailed, send):
    add(mailed)
    with mailed.tenants.session("acme"):
        tenant.suspend()
        assert sending.next_due() is None
    assert send() == []
    with mailed.tenants.session("acme"):
        tenant.resume()
        assert sending.next_due()
    assert len(send()) == 1


def test_quiet_hours_hold_messages_back_and_the_bell_not(mailed, send, clock, manager):
    # The clock of the tests stands at 11:00 in Kyiv.
    night = {"quiet_from": "22:00", "quiet_until": "08:00"}
    chosen = {"assigned": ["bell", "email"]}
    manager.sends("/settings/profile/alerts", chosen | night)
    clock.tick(11 * HOUR)  # 22:00
    add(mailed)
    assert send() == []
    assert waiting(mailed) == [(1, "2026-03-03T06:00:00Z")]
    assert manager.get("/bell").json[:2] == ["/alerts", "1"]
    clock.tick(10 * HOUR - 1)
    assert send() == []
    clock.tick(1)
    assert len(send()) == 1
    noon = {"quiet_from": "13:00", "quiet_until": "14:00"}
    manager.sends("/settings/profile/alerts", chosen | noon)
    clock.tick(4 * HOUR)  # 12:00
    add(mailed)
    assert len(send()) == 1
    clock.tick(HOUR)
    add(mailed)
    assert send() == [] and waiting(mailed) == [(3, "2026-03-03T12:00:00Z")]


def test_of_more_than_sixty_in_an_hour_the_rest_comes_as_one_message(mailed, send, clock):
    add(mailed, 59)
    assert len(send()) == 59
    add(mailed, 500)
    ((_, subject, text),) = send()
    assert subject == "500 сповіщень" and text.count("Призначено") == 20
    assert "http://acme.localhost:8000/alerts#559" in text
    add(mailed, 2)
    assert send() == []
    clock.tick(HOUR)
    assert len(send()) == 2


def test_what_was_seen_meanwhile_or_is_of_a_former_user_or_hidden_is_not_sent(
    mailed, send, clock, manager, monkeypatch
):
    add(mailed, 3)
    clock.tick(5)
    manager.get("/alerts/1")
    monkeypatch.setattr(sending, "visible", lambda user_id: "record_id <> 2")
    assert [re.search(r"alerts/(\d+)", text)[1] for *_, text in send()] == ["3"]
    add(mailed)
    change_taras(mailed, {"active": 0})
    assert send() == [] and waiting(mailed) == []


def test_without_an_address_nothing_is_to_be_sent(crm, mailed, send):
    change_taras(mailed, {"email": None})
    add(mailed)
    add(mailed, to=OLENA)
    assert [to for to, *_ in send()] == ["olena@acme.example"]
    with mailed.tenants.session("acme"), transaction():
        execute("DELETE FROM alert")


def test_reminders_are_sent_at_their_time(mailed, api, send, clock):
    api.create("/tasks", title="Дзвінок", remind_at="2026-03-02T10:00:00Z", assigned_to=str(TARAS))
    assert [subject for _, subject, _ in send()] == ["Призначено вам: Дзвінок"]
    with mailed.tenants.session("acme"):
        assert sending.next_due() == "2026-03-02T10:00:00Z"
    clock.tick(HOUR)
    assert [subject for _, subject, _ in send()] == ["Нагадування: Дзвінок"]


def test_a_task_of_a_deleted_record_reminds_nobody_until_it_is_restored(mailed, api, send, clock):
    client = api.create("/clients", name="Олена")
    at = "2026-03-02T10:00:00Z"
    id = api.create("/tasks", title="Дзвінок", remind_at=at, client_id=client)
    api.patch(f"/tasks/{id}", {"assigned_to": str(TARAS)})
    send()
    api.delete(f"/clients/{client}")
    clock.tick(HOUR)
    assert send() == []
    with mailed.tenants.session("acme"):
        assert [alert.kind for alert in alerts.list_newest(TARAS)] == ["assigned"]
        api.post(f"/clients/{client}/restore")
        assert [alert.kind for alert in alerts.list_newest(TARAS)] == ["task_due", "assigned"]
