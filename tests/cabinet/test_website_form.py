"""The form that Settings makes for another site, in a real browser on a page of that site."""

import re
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from crm import CRMApp
from crm.records.custom.types import TYPES
from crm.resources.files.form_files import MAX_FORM_FILE_BYTES
from crm.resources.files.record import File
from crm.resources.leads.record import Lead
from tests.cabinet.test_integrations import copied, make_form
from tests.chromium import serving
from tests.conftest import Api
from tests.page_client import Person

NAME, PHONE = (f'input[name="{name}"]' for name in ("name", "phone"))
ANSWER = ".crm-form-answer"
THANKS, WRONG, FAILED = "Дякуємо!", "Перевірте заповнені поля.", "Не вдалося надіслати."


class Shop:
    """A site whose page has the form, and the CRM behind it, whose answers can get lost."""

    def __init__(self, crm: CRMApp, owner: Person):
        self.crm, self.owner = crm, owner
        self.html, self.loses_answers = b"", False
        self.own_fields: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["HTTP_HOST"].startswith("localhost"):
            start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
            return [self.html]
        answer = self.crm(environ, start_response)
        if self.loses_answers and environ["REQUEST_METHOD"] == "POST":
            body = b"".join(answer)
            assert body.startswith(b'{"status":"ok"'), body
            # The lead is stored, and the browser never hears of it.
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return [b""]
        return answer

    def put_form(self, port: int) -> None:
        fields = ["phone", "email", *self.own_fields]
        origin = f"http://localhost:{port}"
        page = make_form(self.owner, origins=origin, thanks=THANKS, fields=fields)
        snippet = copied(page.text, "snippet").replace(":8000/", f":{port}/")
        assert f"acme.localhost:{port}" in snippet
        self.html = f"<!doctype html><meta charset=utf-8><title>Shop</title>{snippet}".encode()

    def leads(self) -> list[tuple[str, str | None]]:
        with self.crm.tenants.session("acme"):
            return [(lead.name, lead.phone) for lead in Lead.every("TRUE ORDER BY id")]


@pytest.fixture
def shop(crm: CRMApp, olena: Person) -> Shop:
    return Shop(crm, olena)


@pytest.fixture
def own_fields(shop: Shop, api: Api) -> None:
    """A field of each type that a form may have."""
    options = [{"key": "oak", "label": "Дуб"}, {"key": "ash", "label": "Ясен"}]
    for type, one in TYPES.items():
        more = {"options": options} if one.has_options else {}
        api.create("/fields", resource="leads", key=type, label=f"Поле {type}", type=type, **more)
    page = shop.owner.sees("/settings/forms")
    shop.own_fields = re.findall(r'value="(custom\.\w+)"', page)
    assert len(shop.own_fields) == len([one for one in TYPES.values() if not one.references])


@pytest.fixture
def page(shop: Shop, browser: Browser) -> Iterator[Page]:
    with serving(shop) as address:
        port = int(address.rpartition(":")[2])
        shop.put_form(port)
        context = browser.new_context(locale="uk-UA")
        result = context.new_page()
        result.goto(f"http://localhost:{port}/?utm_source=google")
        yield result
        context.close()


def send(page: Page, expected: str, **fields: str) -> None:
    for name, text in fields.items():
        page.fill(f'input[name="{name}"]', text)
    page.locator(ANSWER).evaluate("answer => answer.textContent = ''")
    page.click("text=Надіслати")
    page.locator(ANSWER, has_text=expected).wait_for()


def test_fields_of_ones_own_have_inputs_of_their_types(
    own_fields: None, api: Api, page: Page
) -> None:
    texts = {"text": "дуб", "number": "-2.5", "money": "10", "url": "https://example.com"}
    for key, text in (texts | {"date": "2026-12-01", "long_text": "раз\nдва"}).items():
        page.fill(f'[name="custom.{key}"]', text)
    page.check('[name="custom.flag"]')
    page.select_option('[name="custom.choice"]', "oak")
    page.select_option('[name="custom.choices"]', ["oak", "ash"])
    assert page.get_by_role("combobox", name="Поле choice", exact=True).count() == 1
    send(page, THANKS, name="Марія", phone="067 123 45 67")
    page.reload()
    send(page, THANKS, name="Ніна", phone="067 123 45 68")
    empty, lead = api.read("/leads")
    assert (empty["custom"], lead["extra"]) == ({}, {})
    assert lead["custom"] == {
        **texts, "number": -2.5, "money": 10, "date": "2026-12-01", "long_text": "раз\nдва",
        "flag": True, "choice": "oak", "choices": ["oak", "ash"],
    }  # fmt: skip


def test_what_is_sent_again_after_a_lost_answer_is_one_lead(shop: Shop, page: Page) -> None:
    shop.loses_answers = True
    send(page, FAILED, name="Марія", phone="067 123 45 67")
    send(page, FAILED)
    assert shop.leads() == [("Марія", "+380671234567")]
    shop.loses_answers = False
    send(page, THANKS)
    assert shop.leads() == [("Марія", "+380671234567")]
    assert page.input_value(NAME) == ""


def test_what_is_edited_after_a_lost_answer_is_a_lead_of_its_own(shop: Shop, page: Page) -> None:
    shop.loses_answers = True
    send(page, FAILED, name="Марія", phone="067 123 45 67")
    shop.loses_answers = False
    send(page, THANKS, phone="067 123 45 68")
    assert shop.leads() == [("Марія", "+380671234567"), ("Марія", "+380671234568")]


def test_a_mistyped_phone_is_shown_at_its_field_and_costs_nothing(shop: Shop, page: Page) -> None:
    send(page, WRONG, name="Марія", phone="067 123 45 6")
    assert shop.leads() == []
    assert (page.input_value(NAME), page.input_value(PHONE)) == ("Марія", "067 123 45 6")
    about = page.locator(PHONE).evaluate("input => input.validationMessage")
    assert about.startswith("Введіть номер телефону повністю: 067 123 45 67")
    send(page, THANKS, phone="067 123 45 67")
    assert shop.leads() == [("Марія", "+380671234567")]


@pytest.fixture
def taking_files(shop: Shop) -> None:
    shop.own_fields = ["files"]


def test_files_go_with_the_lead(taking_files: None, shop: Shop, page: Page) -> None:
    files = page.locator('input[name="files"]')
    page.fill(NAME, "Марія")
    page.fill(PHONE, "067 123 45 67")
    large = b"0" * (MAX_FORM_FILE_BYTES + 1)
    files.set_input_files({"name": "Відео.mp4", "mimeType": "video/mp4", "buffer": large})
    page.click("text=Надіслати")
    assert "10" in files.evaluate("input => input.validationMessage")
    assert shop.leads() == []
    names = ["Ескіз 1.txt", "Ескіз 2.txt"]
    files.set_input_files(
        [{"name": name, "mimeType": "text/plain", "buffer": name.encode()} for name in names]
    )
    send(page, THANKS)
    with shop.crm.tenants.session("acme"):
        assert [file.name for file in File.every("noun = 'lead' AND record_id = 1")] == names
