"""Files of a record in a real browser: dropped, chosen, several with progress; on a phone, too."""

import pytest
from playwright.sync_api import Page, expect

from crm.resources.files.record import MAX_BYTES
from crm.resources.logo import read_head
from tests.cabinet.test_pages import check
from tests.chromium import NARROW, WIDE, Tab, log_in
from tests.pictures import png
from tests.resources.test_files import FIRST, PLURALS

BOTH = pytest.mark.parametrize("width", [WIDE, NARROW])
PDF = {"name": "Ескіз.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 sketch"}
# Drops files of these names and texts on the heading of the page.
DROP = """async names => {
  const data = new DataTransfer()
  for (const name of names) data.items.add(new File([`text of ${name}`], name))
  const target = document.querySelector("h1")
  for (const kind of ["dragover", "drop"]) {
    const event = new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true})
    if (target.dispatchEvent(event)) throw "the browser would open the file"
    if (kind === "dragover" && !document.querySelector("main.over")) throw "no sign of a drop"
  }
}"""

# Too large to be given to the browser by a test.
CHOOSE = """([name, size]) => {
  const [data, input] = [new DataTransfer(), document.getElementById("file")]
  data.items.add(new File([new Uint8Array(size)], name))
  input.files = data.files
  input.dispatchEvent(new Event("change", {bubbles: true}))
}"""


@pytest.fixture
def acme(crm, served: str, tab: Tab, width) -> Page:
    page = tab(width, base_url=served)
    log_in(page, crm, served)
    return page


@BOTH
def test_dropped_files_are_added_one_after_the_other(acme, api, width):
    lead = f"/leads/{api.create('/leads', **FIRST['leads'])}"
    acme.goto(lead)
    names = ["a.txt", "б.txt", "c.txt"]
    acme.evaluate(DROP, names)
    expect(acme.locator("#file-list li")).to_have_count(3)
    expect(acme.locator("#uploads li")).to_have_count(0)
    expect(acme.locator("main.over")).to_have_count(0)
    assert [one["name"] for one in api.read(f"{lead}/files")] == names[::-1]
    expect(acme.locator("#timeline")).to_contain_text("б.txt")
    check(acme, lead)
    # Deleted and put back by the message, without another page.
    entry = acme.locator("#file-list li", has_text="б.txt")
    entry.locator("summary").click()
    entry.get_by_role("button", name="Видалити").click()
    expect(acme.locator("#file-list li")).to_have_count(2)
    acme.locator("#messages").get_by_role("button", name="Скасувати").click()
    expect(acme.locator("#file-list li")).to_have_count(3)


@BOTH
@pytest.mark.parametrize("plural", PLURALS)
def test_a_record_with_files_is_accessible_and_fits(acme, api, plural, width):
    record = f"/{plural}/{api.create(f'/{plural}', **FIRST[plural])}"
    acme.goto(record)
    long_name = PDF | {"name": f"{'Дуженазвадовга' * 12}.pdf"}
    acme.locator("#file").set_input_files([PDF, long_name])
    expect(acme.locator("#file-list li")).to_have_count(2)
    check(acme, record)


@pytest.mark.parametrize("width", [WIDE])
def test_progress_and_errors_are_told_for_each_file(acme, api, width):
    lead = f"/leads/{api.create('/leads', **FIRST['leads'])}"
    acme.goto(lead)
    seen = []
    acme.route("**/files", lambda route: (seen.append(1), route.continue_()))
    acme.evaluate("""() => {
      window.shown = []
      new MutationObserver(() => shown.push(document.querySelectorAll("#uploads progress").length))
        .observe(document.getElementById("uploads"), {childList: true})
      const send = XMLHttpRequest.prototype.send
      window.progress = []
      XMLHttpRequest.prototype.send = function (data) {
        this.upload.addEventListener("progress", event => progress.push(event.loaded))
        send.call(this, data)
      }
    }""")
    empty = {"name": "порожній.txt", "mimeType": "text/plain", "buffer": b""}
    acme.locator("#file").set_input_files([empty, PDF])
    acme.evaluate(CHOOSE, ["велике.mov", MAX_BYTES + 1])
    expect(acme.locator("#file-list li")).to_have_count(1)
    lines = acme.locator("#uploads .text-danger")
    expect(lines).to_have_text(
        [
            "порожній.txt: Файл порожній.",
            "велике.mov: Файл може мати не більше ніж 20 МБ.",
        ]
    )
    assert seen == [1], "nothing is sent that would be refused"
    assert max(acme.evaluate("shown")) == 2 and acme.evaluate("progress").pop() > 0
    check(acme, f"{lead}, with errors")
    # What the server refuses is told, too.
    acme.locator(".upload input[name=csrf_token]").evaluate("one => one.value = 'x'")
    acme.locator("#file").set_input_files([PDF])
    expect(lines.last).to_contain_text("Ескіз.pdf: Поверніться, оновіть сторінку")


@pytest.mark.parametrize("width", [WIDE])
def test_a_photo_of_a_product_is_made_small_by_the_browser(acme, api, crm, width):
    product = f"/products/{api.create('/products', **FIRST['products'])}"
    acme.goto(product)
    photo = {"name": "стіл.png", "mimeType": "image/png", "buffer": png(3000, 1500)}
    text = {"name": "no.png", "mimeType": "image/png", "buffer": b"no picture"}
    acme.locator("#file").set_input_files([photo, text])
    expect(acme.locator("#file-list li")).to_have_count(2)
    expect(acme.locator("img.picture")).to_be_visible()
    other, stored = api.read(f"{product}/files")
    assert (other["name"], stored["name"]) == ("no.png", "стіл.jpg")
    data = api.get(f"/files/{stored['id']}").data
    assert read_head(data) == ("image/jpeg", 1200, 600) and b"Exif" not in data
    for path in ("/products", product):
        acme.goto(path)
        check(acme, path)
        shown = acme.locator("img.thumb").first
        assert shown.evaluate("one => one.decode().then(() => one.naturalWidth)") == 1200
        assert shown.bounding_box()["width"] in (32, 40)


@pytest.mark.parametrize("width", [NARROW])
def test_a_phone_offers_its_camera(served, crm, tab, api, width):
    page = tab(width, base_url=served, has_touch=True, is_mobile=True)
    log_in(page, crm, served)
    lead = f"/leads/{api.create('/leads', **FIRST['leads'])}"
    page.goto(lead)
    assert page.locator("#photo").get_attribute("capture") == "environment"
    for name in ("Додати файли", "Сфотографувати"):
        button = page.locator(".upload label", has_text=name)
        expect(button).to_be_visible()
        assert button.bounding_box()["height"] >= 43.5
    photo = {"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": png(40)}
    page.locator("#photo").set_input_files([photo])
    expect(page.locator("#file-list li")).to_have_count(1)


@pytest.mark.parametrize("width", [WIDE])
def test_without_the_script_the_form_sends_files(served, crm, tab, api, width):
    page = tab(width, base_url=served, java_script_enabled=False)
    log_in(page, crm, served)
    lead = f"/leads/{api.create('/leads', **FIRST['leads'])}"
    page.goto(lead)
    page.locator("#file").set_input_files([PDF, PDF | {"name": "b.pdf"}])
    page.get_by_role("button", name="Надіслати").click()
    expect(page.locator("#file-list li")).to_have_count(2)
    page.goto(lead)
    page.get_by_role("button", name="Надіслати").click()
    expect(page.locator(".error-about")).to_contain_text("Виберіть файл.")
