"""Telegram: chats are connected by one-time codes, against a real HTTP server on loopback."""

import re
from functools import partial

import pytest

from crm.alerts import alerts, telegram_chats
from crm.alerts.kinds import TELEGRAM
from crm.alerts.sender import AlertSender
from crm.alerts.telegram_chats import TelegramReceiver
from crm.cabinet.alerts import answer_in_telegram, write_message
from crm.installation.tenants import Tenants
from crm.messages import Undelivered
from crm.messages.telegram import Telegram
from crm.outbox.sender import Sender
from crm.resources import tenant, users
from crm.storage.session import rows, transaction
from tests.cases import loop_over
from tests.conftest import TARAS
from tests.installations import config_for
from tests.page_client import Person
from tests.telegram_server import TOKEN, serve_telegram
from tests.waiting import wait_for

CODE = re.compile(r"/start (acme_[\w-]+)")


@pytest.fixture
def bot():
    with serve_telegram() as server:
        yield server


@pytest.fixture
def connected(crm, bot, monkeypatch):
    """The app by the real clock with the bot and its sender at work."""
    settings = {"telegram_token": TOKEN, "telegram_api": bot.url}
    crm.tenants = Tenants(config_for(crm.tenants.config.data, **settings))
    telegram = Telegram(TOKEN, bot.url)
    monkeypatch.setattr(crm, "telegram", telegram)
    receiver = TelegramReceiver(crm.tenants, telegram, partial(answer_in_telegram, crm))
    ports, write = {TELEGRAM: telegram.send}, partial(write_message, crm)
    alert_sender = AlertSender(crm.tenants, ports, write, receiver.receiving)
    sender = Sender(crm.tenants, alerts=alert_sender)
    sender.start()
    yield crm
    sender.close()
    crm.tenants.forget_idle()


def code_of(person):
    page = person.post("/settings/profile/telegram").text
    assert "https://t.me/acme_bot?start=acme_" in page
    return CODE.search(page)[1]


def test_a_code_connects_a_chat_and_alerts_come_there(connected, bot):
    taras = Person(connected, user_id=TARAS)
    code = code_of(taras)
    bot.receive("/start acme_" + "x" * 22, chat=6666)
    bot.receive(f"/start {code}", chat=5555, kind="group")  # others would read it there
    bot.receive("hello", chat=5555)
    bot.receive(f"/start {code.replace('acme', 'globex')}", chat=6667)
    bot.receive(f"/start {code}")
    bot.receive(f"/start {code}", chat=6668)  # once only
    answers = bot.wait_for(4)
    assert [chat for chat, text in answers if text.startswith("Connected")] == ["7001"]
    assert {chat for chat, text in answers if "not valid" in text} == {"6666", "6667", "6668"}
    with connected.tenants.session("acme"), transaction():
        alerts.add("no_next_step", to=TARAS)
    chat, text = bot.wait_for(5)[4]
    assert chat == "7001" and "http://acme.localhost:8000/alerts/1\n" in text
    page = taras.sees("/settings/profile")
    assert {*re.findall(r'name="(\w+)" value="telegram"', page)} >= {"lead_new", "task_due"}
    taras.sends("/settings/profile/telegram/end")
    with connected.tenants.session("acme"), transaction():
        alerts.add("no_next_step", to=TARAS)
        assert rows("SELECT send_at FROM alert WHERE id = 2") == [(None,)]


def test_a_thief_of_a_session_cannot_connect_a_chat(connected):
    taras = Person(connected, user_id=TARAS)
    code = code_of(taras)
    with connected.tenants.session("acme"):
        users.update(TARAS, {"email": "taras@acme.example"})  # ends what was sent before
        assert not telegram_chats.connect(code.removeprefix("acme_"), "7001")
    clock = connected.tenants.clock
    connected.tenants.clock = lambda: clock() + 11 * 60
    assert taras.post("/settings/profile/telegram").status_code == 403


def test_a_clone_tells_nobody(crm, clock):
    crm.tenants = Tenants(
        config_for(crm.tenants.config.data, telegram_token=TOKEN, telegram_api="http://127.0.0.1"),
        clock,
    )
    with crm.tenants.session("acme"), transaction():
        alerts.add("no_next_step", to=TARAS)
        alerts.set_reminder(1, TARAS, "2027-01-01T10:00:00Z")
        telegram_chats.connect(telegram_chats.links.create("telegram", TARAS), "7001")
        alerts.add("no_next_step", to=TARAS)
    tenant.clone(crm.tenants, "acme", "copy")
    with crm.tenants.session("copy"):
        assert rows("SELECT count(*) FROM alert WHERE send_at IS NOT NULL") == [(0,)]
        assert rows("SELECT * FROM telegram_chat") == []


def test_refusals_name_neither_token_nor_text(bot):
    telegram = Telegram(TOKEN, bot.url)
    telegram.send("7001", "", "таємно")
    for status, final in {400: True, 403: True, 429: False, 500: False, 404: False}.items():
        bot.status = status
        with pytest.raises(Undelivered) as refused:
            telegram.send("7001", "", "таємно")
        assert refused.value.reason == f"Telegram answered {status}"
        assert refused.value.final is final
    with pytest.raises(Undelivered) as refused:
        Telegram("wrong", bot.url).get_updates(0)
    assert "wrong" not in refused.value.reason


@loop_over("text", ["", "/start", "/start acme", "/start ACME_x", "/start ../x_y", "/start a_b c"])
def test_what_is_no_code_is_not_answered(crm, text):
    receiver = TelegramReceiver(crm.tenants, None, None)
    receiver._receive({"text": text, "chat": {"id": 1, "type": "private"}})


def test_the_token_of_an_unreachable_bot_reaches_no_log(crm, caplog):
    telegram = Telegram(TOKEN, "http://127.0.0.1:9")
    receiver = TelegramReceiver(crm.tenants, telegram, lambda language, is_connected: "")
    with receiver.receiving():
        wait_for(lambda: caplog.records)
    assert "Connection refused" in caplog.text and TOKEN not in caplog.text
