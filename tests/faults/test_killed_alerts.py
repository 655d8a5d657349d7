"""kill -9 of the server while it sends alerts: each arrives, once or twice with the same number."""

import random
import re
import time
from collections import Counter

import pytest

from crm.alerts import alerts, sending, telegram_chats
from crm.installation.opening import open_tenants
from crm.resources import users
from crm.storage.session import rows, transaction
from tests.faults.killing import killed
from tests.installations import config_for, on_postgres
from tests.server_process import run_server
from tests.telegram_server import TOKEN, serve_telegram
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

USERS, ALERTS_OF_EACH = 4, 30
ANSWER_SECONDS = 0.02  # of Telegram: most kills come between sending and recording
# Of a database nobody knows whether the sender of another node lives until its lease has ended.
PATIENCE_SECONDS = 30 + (sending.LEASE_SECONDS if on_postgres() else 0)


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_each_alert_arrives_once_or_twice_though_senders_are_killed(crm, kills):
    folder = crm.tenants.config.data
    with serve_telegram() as bot:
        settings = {"telegram_token": TOKEN, "telegram_api": bot.url}
        tenants = open_tenants(config_for(folder, **settings))
        with tenants.session("acme"):
            ids = [
                users.create({"name": f"User {number}", "email": f"u{number}@acme.example"}).id
                for number in range(USERS)
            ]
            with transaction():
                for id in ids:
                    code = telegram_chats.links.create("telegram", id)
                    assert telegram_chats.connect(code, f"{7000 + id}")
                    for number in range(ALERTS_OF_EACH):
                        alerts.add("assigned", "deal", number + 1, to=id)
        tenants.forget_idle()
        bot.delay_seconds = ANSWER_SECONDS
        environ = {"CRM_TELEGRAM_TOKEN": TOKEN, "CRM_TELEGRAM_API": bot.url}
        for _ in range(kills):
            before = len(bot.sent)
            with killed(folder, 1, **environ):
                bot.wait_for(before + random.randint(1, 10))
                time.sleep(random.uniform(0, ANSWER_SECONDS))
        bot.delay_seconds = 0

        def is_done() -> bool:
            with tenants.session("acme"):
                return rows("SELECT count(*) FROM alert WHERE send_at IS NOT NULL") == [(0,)]

        with run_server(folder, **environ):
            wait_for(is_done, PATIENCE_SECONDS)
        tenants.forget_idle()
    counts = Counter(re.search(r"/alerts/(\d+)\n", text)[1] for _, text in bot.sent)
    assert {int(id) for id in counts} == {*range(1, USERS * ALERTS_OF_EACH + 1)}
    assert max(counts.values()) <= 2
    assert sum(count - 1 for count in counts.values()) <= kills
