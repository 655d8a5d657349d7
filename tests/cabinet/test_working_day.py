"""A day of a small business in a real browser, against a real server, mail server and receiver."""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from email import message_from_bytes, policy
from tempfile import TemporaryFile

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from playwright.sync_api import Locator, Page, expect

from tests import log_leaks
from tests.chromium import open_page
from tests.installations import environ_for
from tests.server_process import ROOT, find_free_port, wait_until_listening
from tests.webhook_receiver import WebhookReceiver, receive_webhooks

STAGES = ("Нова", "Кваліфікація", "Пропозиція", "Переговори", "Виграно", "Програно")
PHONE = "+380671234567"


class Told:
    """What the server says on its standard output: the SMS of the console."""

    def __init__(self, stream) -> None:
        self.lines: list[str] = []
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream) -> None:
        for line in stream:
            with self._came:
                self.lines.append(line)
                self._came.notify_all()

    def code(self, number: int) -> str:
        """The digits of the SMS with that number."""

        def codes() -> list[str]:
            return re.findall(rf"^SMS to \{PHONE}: .*?(\d{{6}})", "".join(self.lines), re.M)

        with self._came:
            assert self._came.wait_for(lambda: len(codes()) >= number, 10), self.lines
        return log_leaks.note_code(codes()[number - 1])


class Mailbox(Message):
    """Every e-mail that came, by a real SMTP server."""

    def __init__(self) -> None:
        super().__init__()
        self.letters: list[str] = []
        self.came = threading.Event()

    def handle_message(self, message) -> None:
        whole = message_from_bytes(message.as_bytes(), policy=policy.default)
        self.letters.append(whole.get_content())
        self.came.set()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box, port = Mailbox(), find_free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield box, port
    controller.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory, mailbox) -> Iterator[tuple[int, Told]]:
    port = find_free_port()
    data = tmp_path_factory.mktemp("day")
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    settings = {
        "CRM_WEBHOOK_ALLOW": "127.0.0.0/8",
        "CRM_MAIL": f"smtp://127.0.0.1:{mailbox[1]}",
        "CRM_MAIL_FROM": "CRM <crm@example.com>",
    }
    log = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
    process = subprocess.Popen(
        command, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environ_for(data), **settings},
        text=True, stdout=subprocess.PIPE, stderr=log,
    )  # fmt: skip
    try:
        wait_until_listening(port, process)
        yield port, Told(process.stdout)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        with log:
            log.seek(0)
            said = log.read()
    log_leaks.heard("server", said)
    lines = [json.loads(line) for line in said.splitlines()]
    assert "error" not in {line["level"] for line in lines}, said
    assert {"/login/password", "/api/v1/leads"} <= {line.get("route") for line in lines}
    assert PHONE not in said


@pytest.fixture(scope="module")
def page(browser) -> Iterator[Page]:
    """One browser for the whole day, whose tests follow each other."""
    with open_page(browser) as result:
        yield result


@pytest.fixture(scope="module")
def home(server) -> str:
    return f"http://zatyshok.localhost:{server[0]}"


def send(page: Page, **fields: str) -> None:
    """Fill the form of the page and send it as by the Enter key."""
    for name, value in fields.items():
        page.locator(f"main [name={name}]").fill(value)
    with page.expect_navigation():
        page.locator(f"main [name={[*fields][-1]}]").press("Enter")


def click(page: Page, what: Locator) -> None:
    """Click what leads to another page, and wait for that."""
    with page.expect_navigation():
        what.click()


def test_1_sign_up_by_the_code_of_an_sms(page, server, home):
    page.goto(f"http://localhost:{server[0]}/")
    click(page, page.locator("main a[href$='/signup']"))
    send(page, phone="067 123 45 67")
    send(page, code=server[1].code(1))
    send(page, name="Олена", company="Меблі Затишок")
    expect(page.locator("main [name=label]")).to_have_value("mebli-zatyshok")
    send(page, label="zatyshok")
    page.wait_for_url(f"{home}/")
    expect(page.locator("header .brand")).to_have_text("Меблі Затишок")
    page.goto(f"{home}/deals")
    for stage in STAGES:
        expect(page.get_by_role("heading", name=stage)).to_be_visible()


def test_2_confirm_an_address_and_reset_the_password_by_its_mail(page, mailbox, home):
    box = mailbox[0]
    page.goto(f"{home}/settings/profile")
    page.locator("main [name=email]").fill("olena@example.com")
    click(page, page.locator("form:has([name=email])").first.locator("button").last)
    assert box.came.wait(10)
    page.goto(re.search(r"http://\S+/email/\S+", box.letters[-1])[0])
    click(page, page.locator("main form button").first)
    click(page, page.get_by_role("button", name="Вийти"))
    box.came.clear()
    page.goto(f"{home}/forgot")
    send(page, email="olena@example.com")
    assert box.came.wait(10)
    page.goto(re.search(r"http://\S+/reset/\S+", box.letters[-1])[0])
    send(page, password="дуже довгий пароль")
    page.wait_for_url(f"{home}/")
    click(page, page.get_by_role("button", name="Вийти"))
    page.goto(f"{home}/login/password")
    send(page, email="olena@example.com", password="дуже довгий пароль")
    page.wait_for_url(f"{home}/")


def test_3_a_key_made_here_works_at_the_api(page, server, home):
    page.goto(f"{home}/settings/api-keys/new?preset=full")
    send(page, name="ERP")
    key = re.search(r"crm_\w{46}", page.locator("main").inner_text())[0]
    request = urllib.request.Request(
        f"http://127.0.0.1:{server[0]}/api/v1/leads",
        b'{"name": "Petro", "phone": "+380501234567"}',
        {
            "Host": f"zatyshok.localhost:{server[0]}",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    page.goto(f"{home}/leads")
    expect(page.get_by_role("link", name="Petro")).to_be_visible()
    page.goto(f"{home}/settings/api-keys")
    assert key not in page.content()


def test_4_a_webhook_and_its_test_in_the_log(page, hook_of_the_day: WebhookReceiver, home):
    page.goto(f"{home}/settings/webhooks")
    send(page, url=hook_of_the_day.url)
    assert re.search(r"whsec_\S{40,}", page.locator("main").inner_text())
    page.goto(f"{home}/settings/webhooks")
    click(page, page.locator("main table a").first)
    click(page, page.locator("form[action$='/test'] button"))
    (received,) = hook_of_the_day.wait_for(1)
    assert received.event["type"] == "webhook.test"
    until = time.monotonic() + 10
    while "204" not in page.locator("main").inner_text():  # it is noted just after it arrived
        assert time.monotonic() < until
        page.reload()


def test_5_a_deal_dragged_to_won_tells_the_receiver(page, hook_of_the_day: WebhookReceiver, home):
    page.goto(f"{home}/deals/new")
    send(page, title="Кухня")
    page.set_viewport_size({"width": 1900, "height": 900})
    page.goto(f"{home}/deals")
    card = page.locator("[data-deal]", has_text="Кухня").bounding_box()
    won = page.locator(".column", has=page.get_by_role("heading", name="Виграно")).bounding_box()
    page.mouse.move(card["x"] + card["width"] - 8, card["y"] + 8)
    page.mouse.down()
    page.mouse.move(won["x"] + won["width"] / 2, won["y"] + won["height"] / 2, steps=12)
    page.mouse.up()
    hook_of_the_day.wait_until(
        lambda: "deal.won" in [request.event["type"] for request in hook_of_the_day.received]
    )
    page.wait_for_load_state("networkidle")
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.fixture(scope="module")
def hook_of_the_day() -> Iterator[WebhookReceiver]:

    with receive_webhooks() as hook:
        yield hook
