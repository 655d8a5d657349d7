"""Every page in a real browser: silent under its CSP, accessible, and fit for a phone.

On a wide screen, too, where all is asked for; in the dark the page of pieces (test_pieces.py).
"""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from crm import CRMApp, create_app, demo
from crm.spreadsheets import all_resources
from tests.cases import loop_over
from tests.chromium import NARROW, WIDE, log_in, open_page, serving, silent
from tests.installations import config_for

AXE = Axe()
AXE_OPTIONS = {
    "rules": {  # that axe does not check unless told
        name: {"enabled": True} for name in ("label-content-name-mismatch", "target-size")
    },
    "resultTypes": ["violations"],  # only these with all their elements, in half of the time
}
PAGES = (
    *("/", "/reports", "/reports/activity", "/leads", "/leads/new", "/leads/1?compose=call"),
    *("/leads/1/edit", "/deals", "/deals?view=list", "/deals/1", "/deals/1?items=edit"),
    *("/deals/new", "/clients", "/clients/1", "/tasks", "/tasks/done", "/tasks/1", "/alerts"),
    *("/products", "/search?q=стіл", "/leads/import", "/leads/imports"),
    *("/papers", "/papers/1"),
    *("/settings", "/settings/profile", "/settings/company", "/settings/pipelines"),
    *("/settings/users", "/settings/api-keys", "/settings/webhooks", "/settings/forms"),
    *("/settings/fields", "/settings/fields/new"),
    *("/nothing", "/guides/api.md"),
)
ALIKE = (  # pages of the same templates
    *("/reports/people?period=year", "/leads/1/timeline", "/deals?assigned_to=me", "/products/1"),
    *("/clients/new", "/tasks/new", "/tasks?status=cancelled", "/products/imports"),
    *(f"/{each.plural}/import" for each in all_resources() if each.plural != "leads"),
    *("/settings/plan", "/guides/"),
)
FILES = {
    "products": "sku;name;price\nZ-1;Стіл;дорого\n;Полиця;5\n",
    "deals": "title;client;status;amount;item_name;item_quantity\n"
    "Меблі для офісу;ТОВ Невідоме;open;;;\nКрісла;;win;дорого;Крісло;\n",
    "leads": f"name;phone;comment\nМарія;ні;{'довгий' * 60}\n;;\nІгор;;\n",
}


@pytest.fixture(scope="module")
def served_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CRMApp, str]]:
    """The app with a demo, and the address of its tenant."""
    app = create_app(config_for(tmp_path_factory.mktemp("demo")), sends=False)
    demo.prepare(app.tenants)
    with serving(app) as home:
        yield app, home
    app.tenants.forget_idle()


@pytest.fixture(scope="module")
def owner(browser: Browser, served_demo: tuple[CRMApp, str]) -> Iterator[Page]:
    """The page of the owner's browser: a new one would load and compile all files anew."""
    app, home = served_demo
    with open_page(browser, base_url=home) as page:
        log_in(page, app, home)
        yield page


def check(page: Page, path: str) -> None:
    assert page.title(), path
    assert page.locator("h1").count() == 1, path
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{path} is {wide} px wider than the screen"
    result = AXE.run(page, options=AXE_OPTIONS)
    assert result.response["passes"], "axe did not run"
    assert result.violations_count == 0, f"{path}\n{result.generate_report()}"


# Controls of the page and of the bar at the lower edge that are too low for a finger. A circle that
# completes a task is larger than it looks (test_phone_day.py touches it).
LOW_CONTROLS = """() => {
  const fields = "input:not([type=hidden], [type=checkbox], [type=radio])"
  const controls = `main :is(button, select, textarea, summary, ${fields}, a.btn, .call, .views a)`
  const isLow = box => box.width > 1 && box.height < 43.5
  return [...document.querySelectorAll(`${controls}, .tabs .menu-link`)]
    .filter(one => one.checkVisibility({opacityProperty: true}) && !one.matches(".done-button"))
    .filter(one => isLow(one.getBoundingClientRect()))
    .map(one => one.outerHTML.slice(0, 100))
}"""


def send(form: Locator, name: str, data: bytes) -> None:
    file = {"name": name, "mimeType": "text/csv", "buffer": data}
    form.locator("input[type=file]").set_input_files(file)
    form.locator("button").click()


deep = pytest.mark.deep
widths = pytest.mark.parametrize("width", [NARROW, pytest.param(WIDE, marks=deep)])


@pytest.mark.parametrize("path", [*PAGES, *(pytest.param(path, marks=deep) for path in ALIKE)])
@widths
def test_a_page_is_silent_accessible_and_fits(owner, path, width):
    owner.set_viewport_size({"width": width, "height": 900})
    with silent(owner):
        owner.goto(path)
        check(owner, path)
        assert owner.url.endswith(quote(path, "/?=")), "not the page that was asked for"
        if width == NARROW:
            assert owner.locator(".tabs .menu-link").count() == 4 or "/guides/" in path
            assert owner.evaluate(LOW_CONTROLS) == []


@pytest.mark.parametrize(
    ("size", "rows"), [pytest.param((WIDE, 800), 15, marks=deep), ((NARROW, 812), 8)]
)
def test_a_list_shows_many_rows_on_one_screen(owner, size, rows):
    owner.set_viewport_size({"width": size[0], "height": size[1]})
    for path in ("/leads", "/deals?view=list", "/clients", "/products"):
        owner.goto(path)
        bar = owner.locator(".tabs").bounding_box()
        edge = bar["y"] if bar else size[1]
        boxes = [row.bounding_box() for row in owner.locator("tbody tr").all()[: rows + 2]]
        assert sum(box["y"] + box["height"] <= edge for box in boxes) >= rows, path


@widths
@pytest.mark.parametrize(
    "noun", ["deals", *(pytest.param(one, marks=deep) for one in FILES if one != "deals")]
)
def test_an_import_is_silent_accessible_and_fits_at_each_step(owner, noun, width):
    page = owner
    page.set_viewport_size({"width": width, "height": 900})
    with silent(page):
        form = page.locator(f"main form[action='/{noun}/import']")
        page.goto(f"/{noun}/import")
        send(form, "bad.csv", b"")
        page.locator("#trouble").wait_for()
        check(page, f"/{noun}/import, refused")
        send(form, "аркуш.csv", FILES[noun].encode("cp1251"))
        page.wait_for_url("**/import/*")
        check(page, f"/{noun}/import/…")
        page.locator(f"main form[action^='/{noun}/import/'] button").first.click()
        page.wait_for_url("**/imports/*")
        check(page, f"/{noun}/imports/…")


@widths
def test_pages_of_strangers_are_silent_accessible_and_fit(browser, served_demo, width):
    home = served_demo[1]
    base = home.replace("acme.", "")
    with open_page(browser, width) as page:
        for address in (f"{home}/login", f"{home}/forgot", base, f"{base}/signup"):
            page.goto(address)
            check(page, address)


@loop_over(
    ("path", "values"),
    [
        ("/leads", {"name": "Gone", "phone": "+380671234567"}),
        ("/clients", {"name": "Gone"}),
        ("/deals", {"title": "Gone"}),
        ("/products", {"name": "Gone", "price": 1}),
        ("/tasks", {"title": "Gone"}),
    ],
)
def test_a_list_has_no_deleted_records_whatever_its_address_says(api, olena, path, values):
    api.delete(f"{path}/{api.create(path, **values)}")
    page = olena.sees(f"{path}?include_deleted=true&updated_since=2020-01-01T00:00:00Z")
    assert "Gone" not in page
