"""A seller's day on a phone, from the lead's arrival to the won deal, by touch, counting taps; an
offer from a long price list, by touch and by the keyboard."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from crm.access import sessions
from crm.cabinet.login.authentication import COOKIE
from crm.resources import deals, leads, products, users
from crm.resources.deals.items import items_of
from crm.resources.deals.record import Deal
from crm.resources.leads.record import LEAD_IN
from crm.storage.session import transaction
from tests.chromium import log_in, open_page, serving
from tests.waiting import wait_for

PHONE = {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True}
MIN_TARGET = 44  # px; where a border is half a pixel, 43 are counted
# The smaller of the width and the height where a finger hits the target, through its middle.
HIT_SIZE = """target => {
  const {left, top, width, height} = target.getBoundingClientRect()
  const [x, y] = [left + width / 2, top + height / 2]
  const around = [...Array(121).keys()].map(step => step - 60)
  const hits = points => points.filter(
    point => target.contains(document.elementFromPoint(...point))).length
  return Math.min(hits(around.map(off => [x + off, y])), hits(around.map(off => [x, y + off])))
}"""

SCROLLED = """() => { const before = scrollY;
    return new Promise((end) => setTimeout(() => end(scrollY === before), 200)); }"""


class Hand:
    """Taps what it sees; every target is large enough for a finger."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.taps = 0

    def tap(self, what: Locator) -> None:
        what.scroll_into_view_if_needed()
        assert what.evaluate(HIT_SIZE) >= MIN_TARGET - 1, f"{what} is too small for a finger"
        what.tap()
        self.taps += 1

    def write(self, where: Locator, text: str) -> None:
        """One tap into the field; what is typed then is no tap."""
        self.tap(where)
        self.page.keyboard.type(text)

    def took(self) -> int:
        """How many taps it was since the last question."""
        taps, self.taps = self.taps, 0
        return taps


@pytest.fixture
def page(crm, olena, browser):
    with crm.tenants.session("acme"), transaction():
        token = sessions.open(users.owner_id(), "tests")
        person = {"name": "Марія Коваленко", "phone": "+380671234567"}
        leads.create(LEAD_IN.parse(person | {"comment": "Стіл і шість стільців", "amount": 24000}))
    with (
        serving(crm) as home,
        open_page(browser, base_url=home, **PHONE) as result,
    ):
        result.context.add_cookies([{"name": COOKIE, "value": token, "url": home}])
        yield result


def test_a_day_from_the_lead_to_the_won_deal(page, crm):
    hand = Hand(page)
    main = page.locator("main")
    page.goto("/")

    # A new lead is called: one tap where the day begins.
    call = main.locator("li", has_text="Марія Коваленко").locator("a.call")
    assert call.get_attribute("href") == "tel:+380671234567"
    page.evaluate("""addEventListener("click", event => {
      const link = event.target.closest("a[href^='tel:']")
      if (link) { event.preventDefault(); document.title = link.href } })""")
    hand.tap(call)
    assert page.title() == "tel:+380671234567"
    assert hand.took() <= 2

    # What was said is noted.
    hand.tap(main.get_by_role("link", name="Марія Коваленко", exact=True))
    hand.write(main.locator(".composer-note textarea"), "Хоче дубовий стіл")
    hand.tap(main.get_by_role("button", name="Додати нотатку"))
    expect(page.locator("#timeline")).to_contain_text("Хоче дубовий стіл")
    assert hand.took() <= 3

    # The next step: it stays on the same page.
    hand.tap(main.locator(".composer label[for=compose-task]"))
    hand.write(main.locator(".composer-task [name=title]"), "Надіслати ескіз")
    main.locator(".composer-task [name=due_at]").fill("2026-03-06T10:00")
    hand.taps += 1  # into the day, which the phone's own picker asks for
    hand.tap(main.get_by_role("button", name="Додати завдання"))
    expect(page.locator("#next-step")).to_contain_text("Надіслати ескіз")
    assert hand.took() <= 4

    hand.tap(page.locator("#next-step").get_by_role("button", name="Виконати"))
    hand.tap(page.locator("#next-step").get_by_role("button", name="Завтра"))
    expect(page.locator("#next-step .step")).to_contain_text("Передзвонити")
    assert hand.took() <= 2

    # The lead becomes a deal, with its task and its note.
    hand.tap(main.get_by_role("link", name="Створити угоду"))
    hand.tap(main.get_by_role("button", name="Створити угоду"))
    page.wait_for_url(re.compile(r"/deals/\d+$"))
    expect(page.locator("#timeline")).to_contain_text("Хоче дубовий стіл")
    expect(page.locator("#timeline")).to_contain_text("Надіслати ескіз")
    assert hand.took() <= 2

    # It is won, from the page where the day begins.
    page.goto("/")
    hand.tap(page.locator(".tabs").get_by_role("link", name="Угоди"))
    hand.tap(main.get_by_role("link", name="Марія Коваленко").first)
    hand.tap(main.get_by_role("button", name="Виграно"))
    assert hand.took() <= 3

    def is_won() -> bool:
        with crm.tenants.session("acme"):
            return Deal.first("title = ?", "Марія Коваленко").status == "won"

    wait_for(is_won)


@pytest.fixture
def price_list(crm, olena) -> list[str]:
    """5,000 products, and the names of five of them."""
    with crm.tenants.session("acme"), transaction():
        for number in range(5000):
            name = f"Стіл дубовий {number}"
            products.create({"name": name, "price": 12_345_600 + number, "unit": "шт"})
    return [f"Стіл дубовий {number}" for number in (7, 1234, 2500, 3999, 4998)]


def offer_of(crm, id: int) -> list[tuple[str, int]]:
    with crm.tenants.session("acme"):
        return [(item["name"], item["quantity"]) for item in items_of(Deal.find(id))]


def test_an_offer_of_five_items_by_taps(page, crm, price_list):
    with crm.tenants.session("acme"):
        id = deals.create({"title": "Кухня"})
    hand, form = Hand(page), page.locator("#items")
    page.goto(f"/deals/{id}")
    hand.tap(form.get_by_role("link", name="Додати з прайсу"))
    for number, name in enumerate(price_list):
        hand.write(page.locator(f"[name=items-{number}-name]"), name)
        hand.tap(page.get_by_role("option", name=re.compile(rf"^{name}\b")).first)
        page.keyboard.type("2")  # the quantity, which has the focus now
    expect(page.locator("#items-total")).to_have_text("12 348,15 ₴".replace(" ", "\xa0"))
    hand.tap(form.get_by_role("button", name="Зберегти позиції"))
    expect(page.locator("#hero")).to_contain_text("5 позицій")
    expect(page.locator("#items")).to_be_in_viewport()
    assert hand.took() <= 25
    assert offer_of(crm, id) == [(name, 2) for name in price_list]


def test_an_offer_by_the_keyboard_alone(crm, price_list, served, tab):
    with crm.tenants.session("acme"):
        id = deals.create({"title": "Кухня"})
    page = tab()
    log_in(page, crm, served)
    page.goto(f"{served}/deals/{id}")
    page.get_by_role("link", name="Додати з прайсу").press("Enter")
    for number, name in enumerate(price_list):
        expect(page.locator(f"[name=items-{number}-name]")).to_be_focused()
        page.keyboard.type(name)
        option = page.get_by_role("option", name=re.compile(rf"^{name}\b")).first
        option.wait_for()
        assert Axe().run(page).violations_count == 0 or number
        page.keyboard.press("ArrowDown")
        expect(option).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
    page.wait_for_function(SCROLLED)  # to the new line
    top = page.evaluate("scrollY")
    page.keyboard.press("Enter")  # in an empty line
    expect(page.locator("#hero")).to_contain_text("5 позицій")
    assert page.evaluate("scrollY") <= top and page.url.endswith(f"/deals/{id}")
    assert offer_of(crm, id) == [(name, 2) for name in price_list]
    # The other forms of the page are of the version that was saved.
    page.get_by_role("link", name="Змінити").last.press("Enter")
    page.locator("#facts [name=title]").fill("Кухня, дуб")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Кухня, дуб")
    page.locator(".stage").nth(1).press("Enter")
    expect(page.locator(".stage[aria-current]")).to_have_text("Qualified")
