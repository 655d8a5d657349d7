"""The first day of a business in a real browser, against a real server and mail server."""

import json
import re
import subprocess
import sys
import threading
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

# The steps by themselves: test_login.py, test_settings.py and tests/messages.
pytestmark = pytest.mark.deep

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
    assert "/signup/code" in {line.get("route") for line in lines}
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


def test_2_confirm_an_address_by_its_mail(page, mailbox, home):
    box = mailbox[0]
    page.goto(f"{home}/settings/profile")
    page.locator("main [name=email]").fill("olena@example.com")
    click(page, page.locator("form:has([name=email])").first.locator("button").last)
    assert box.came.wait(10)
    page.goto(re.search(r"http://\S+/email/\S+", box.letters[-1])[0])
    click(page, page.locator("main form button").first)
    page.goto(f"{home}/settings/profile")
    expect(page.locator("main [name=email]")).to_have_value("olena@example.com")
