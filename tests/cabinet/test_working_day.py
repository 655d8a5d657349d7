"""The first day of a business in a real browser, against a real server and mail server."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests import log_leaks
from tests.chromium import open_page
from tests.installations import environ_for
from tests.messages.test_messages import MailBox, mailing
from tests.server_process import ROOT, find_free_port, run_listening_process
from tests.waiting import wait_for

# The steps by themselves: test_login.py, test_settings.py and tests/messages.
pytestmark = pytest.mark.deep

STAGES = ("Нова", "Кваліфікація", "Пропозиція", "Переговори", "Виграно", "Програно")
PHONE = "+380671234567"


@pytest.fixture(scope="module")
def mailbox() -> Iterator[tuple[MailBox, int]]:
    box = MailBox()
    with mailing(box) as port:
        yield box, port


@pytest.fixture(scope="module")
def server(tmp_path_factory, mailbox) -> Iterator[tuple[int, Path]]:
    """The port, and the file of the standard output, where the SMS of the console are."""
    data, said = tmp_path_factory.mktemp("day"), tmp_path_factory.mktemp("said") / "said"
    port = find_free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    settings = {
        "CRM_MAIL": f"smtp://127.0.0.1:{mailbox[1]}",
        "CRM_MAIL_FROM": "CRM <crm@example.com>",
    }
    environ = {"PATH": "/usr/bin:/bin", **environ_for(data), **settings}
    with (
        said.open("w") as output,
        run_listening_process(command, port, cwd=ROOT, env=environ, stdout=output),
    ):
        yield port, said


def read_code(said: Path) -> str:
    """The digits of the SMS."""

    code = re.compile(rf"^SMS to \{PHONE}: .*?(\d{{6}})", re.M)
    return log_leaks.note_code(wait_for(lambda: code.search(said.read_text("utf-8")))[1])


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
    send(page, code=read_code(server[1]))
    send(page, name="Олена", company="Меблі Затишок", label="zatyshok")
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
    wait_for(lambda: box.came)
    page.goto(re.search(r"http://\S+/email/\S+", box.read().get_content())[0])
    click(page, page.locator("main form button").first)
    page.goto(f"{home}/settings/profile")
    expect(page.locator("main [name=email]")).to_have_value("olena@example.com")
