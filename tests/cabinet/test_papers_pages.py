"""Papers on pages: made on a deal, shared with a client, sent, paid, voided; and their settings."""

import re
from io import BytesIO

import pytest
from flask import Flask

from crm import CRM
from crm.cabinet import papers
from crm.config import Config
from crm.papers import pdf
from crm.resources import tenant, users
from crm.resources.papers import company, links
from tests.installations import settings_for
from tests.page_client import Person, cells
from tests.pictures import png

pytestmark = pytest.mark.process  # Typst runs in one

SELLER = {"legal_name": "ТОВ «Дубок»", "edrpou": "14360570"}
SELLER |= {"iban": "UA213223130000026007233566001"}


@pytest.fixture
def deal(crm, api) -> str:
    """The path of a deal with items, of a company with requisites."""
    with crm.tenants.session("acme"):
        company.update(requisites=SELLER)
    client = api.create("/clients", name="ТОВ Світанок", email="olha@svitanok.example")
    deal = api.create("/deals", title="Крісла", client_id=client)
    api.create(f"/deals/{deal}/items", name="Крісло", price=1250.5, quantity=2, discount=10)
    return f"/deals/{deal}"


@pytest.fixture
def invoice(olena, deal) -> str:
    """The path of an invoice of that deal."""
    return olena.sends(f"{deal}/papers", {"kind": "invoice", "language": "uk"})


def link_to(person: Person, paper: str, **sent: str) -> str:
    """The path of a new link."""
    page = person.post(f"{paper}/links", sent)
    assert page.status_code == 200, page.text
    return re.search(r"http://acme\.localhost:8000(/p/[\w-]{43})<", page.text)[1]


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page).replace("\N{NO-BREAK SPACE}", " "))


def test_one_tap_makes_a_paper_and_opens_it(olena, deal):
    assert 'value="delivery_note"' in olena.sees(deal)
    paper = olena.sends(f"{deal}/papers", {"kind": "invoice", "language": "uk"})
    page = plain(olena.sees(paper))
    for text in (
        *("Рахунок на оплату № 1/2026 від 2 березня 2026 р.", "ТОВ «Дубок»", "ЄДРПОУ 14360570"),
        *("ТОВ Світанок", "Крісло", "1 250,50", "10%", "2 250,90"),
        "Дві тисячі двісті п’ятдесят гривень 90 копійок",
    ):
        assert text in page, text
    assert "<svg" in olena.page.text and 'aria-label="QR"' in olena.page.text
    row = ["Рахунок на оплату № 1/2026", "2 бер. 2026", "2 250,90 ₴", ""]
    assert f'href="{paper}"' in olena.sees("/search?q=1/2026")
    assert row in [[text.replace("\N{NO-BREAK SPACE}", " ") for text in line]
                   for line in cells(olena.sees(deal))]  # fmt: skip
    assert "Рахунок на оплату № 1/2026" in olena.sees(f"{deal}/timeline")
    assert olena.get(f"{paper}.pdf").data.startswith(b"%PDF")


def test_a_form_that_was_sent_twice_makes_one_paper(olena, api, deal):
    sent = {"kind": "offer", "language": "en", "csrf_token": olena.form_fields(
        olena.sees(deal), f"{deal}/papers")["csrf_token"]}  # fmt: skip
    answers = [olena.open("POST", f"{deal}/papers", data=sent) for _ in range(2)]
    assert [answer.location for answer in answers] == ["/papers/1"] * 2
    assert len(api.read("/papers")) == 1
    assert "Offer No. 1/2026 of 2 March 2026" in plain(olena.sees("/papers/1"))


def test_a_refusal_says_what_to_do(crm, olena, api, deal):
    with crm.tenants.session("acme"):
        company.update(requisites={"iban": None})
    page = olena.post(f"{deal}/papers", {"kind": "invoice", "language": "uk"})
    assert page.status_code == 409
    assert "Немає реквізитів" in page.text and "/settings/company#papers" in page.text
    api.patch(deal, {"amount": 2000})
    page = olena.post(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    assert page.status_code == 409 and "Суму угоди введено вручну" in page.text
    olena.sends(f"{deal}/edit", olena.form_fields(page.text, f"{deal}/edit"))
    assert olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"}) == "/papers/1"
    empty = api.create("/deals", title="Без суми")
    page = olena.post(f"/deals/{empty}/papers", {"kind": "offer", "language": "uk"})
    assert page.status_code == 409 and f"/deals/{empty}?items=edit#items" in page.text


def test_a_client_sees_the_paper_by_its_link_alone(crm, olena, api, invoice):
    path = link_to(olena, invoice)
    assert path not in olena.sees(invoice), "it is shown once"
    stranger = Person(crm)
    page = stranger.get(path)
    assert page.status_code == 200 and "Рахунок на оплату № 1/2026" in page.text
    assert "Угоди" not in page.text and "csrf_token" not in page.text
    headers = page.headers
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert headers["X-Robots-Tag"] == "noindex" and "Set-Cookie" not in headers
    answer = stranger.get(f"{path}.pdf")
    assert answer.data == olena.get(f"{invoice}.pdf").data
    assert answer.headers["X-Robots-Tag"] == "noindex"
    assert answer.headers["Cache-Control"] == "no-store"
    assert stranger.open("HEAD", path).status_code == 200
    assert olena.get(path).status_code == 200, "who works here is not counted"
    (link,) = api.read(f"{invoice}/links")
    assert link["seen_count"] == 1
    assert "відкрито 1 раз" in olena.sees(invoice)
    assert "відкрито 1 раз" in olena.sees("/papers")


def test_a_link_ends(crm, olena, api, invoice, clock):
    stranger, other = Person(crm), Person(crm, "globex")
    revoked, kept = link_to(olena, invoice), link_to(olena, invoice)
    expiring = link_to(olena, invoice, expires_at="2026-03-05")
    assert other.get(kept).status_code == 404
    first = min(api.read(f"{invoice}/links"), key=lambda link: int(link["id"]))["id"]
    olena.sends(f"{invoice}/links/revoke", {"link_id": first})
    page = stranger.get(revoked)
    assert page.status_code == stranger.get(f"{revoked}.pdf").status_code == 404
    assert "Строк посилання минув" in page.text and "There is no paper at this link" in page.text
    assert "Set-Cookie" not in page.headers
    clock.tick(4 * 86_400)
    assert [stranger.get(path).status_code for path in (expiring, kept)] == [404, 200]
    olena.confirms(f"{invoice}/void")
    assert stranger.get(kept).status_code == 404
    assert "Анульовано" in olena.sees(invoice)


def test_a_suspended_tenant_shows_no_papers(crm, olena, invoice):
    path = link_to(olena, invoice)
    with crm.tenants.session("acme"):
        tenant.suspend()
    assert Person(crm).get(path).status_code == 404


def test_sellers_send_papers_of_their_own_deals(crm, olena, api, deal, invoice):
    with crm.tenants.session("acme"):
        id = users.create({"name": "Ігор", "role": "seller"}).id
    seller = Person(crm, user_id=id)
    path = link_to(olena, invoice)
    for hidden in (invoice, f"{invoice}.pdf", "/papers/7"):
        assert seller.get(hidden).status_code == 404
    assert seller.post(f"{invoice}/send", {"to": "a@b.example"}).status_code == 404
    assert "№ 1/2026" not in seller.sees("/papers")
    assert seller.get(path).status_code == 200, "as anybody who has the link"
    api.patch(deal, {"assigned_to": str(id)})
    assert "№ 1/2026" in seller.sees("/papers") and seller.sees(invoice)


def test_a_paper_goes_by_email_with_its_pdf(crm, olena, post, deal, invoice, caplog):
    assert 'value="olha@svitanok.example"' in olena.sees(invoice)
    olena.sends(f"{invoice}/send", {"to": "olha@svitanok.example"})
    ((to, subject, _),), (file,) = post.letters, post.attachments
    assert to == "olha@svitanok.example"
    assert subject.startswith("Рахунок на оплату № 1/2026 від") and subject.endswith("ТОВ «Дубок»")
    assert (file.name, file.content_type) == ("invoice-1-2026.pdf", "application/pdf")
    assert file.content == olena.get(f"{invoice}.pdf").data
    assert Person(crm).get(post.link()).status_code == 200
    assert "→ olha@svitanok.example" in olena.sees(deal)
    assert "svitanok" not in caplog.text
    page = olena.post(f"{invoice}/send", {"to": "olha"})
    assert page.status_code == 422 and 'id="to-fault"' in page.text
    for _ in range(2):
        olena.sends(f"{invoice}/send", {"to": "olha@svitanok.example"})
    assert olena.post(f"{invoice}/send", {"to": "olha@svitanok.example"}).status_code == 429


def test_without_typst_a_paper_is_printed_and_its_link_is_sent(crm, olena, post, deal, monkeypatch):
    monkeypatch.setattr(pdf, "find_spec", lambda name: None)
    paper = olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    page = olena.sees(paper)
    assert "/guides/papers.md" in page and "data-print" in page and ".pdf" not in page
    assert olena.get(f"{paper}.pdf").status_code == 409
    olena.sends(f"{paper}/send", {"to": "olha@svitanok.example"})
    assert post.attachments == [None]
    monkeypatch.setattr(post, "sends_mail", False)
    assert "CRM_MAIL" in olena.sees(paper)
    page = olena.post(f"{paper}/send", {"to": "olha@svitanok.example"})
    assert page.status_code == 409 and "CRM_MAIL" in page.text


def test_an_invoice_is_marked_paid_and_not(olena, api, invoice):
    form = olena.form_as_it_is(invoice, f"{invoice}/payment")
    assert (form["paid_at"], form["paid_amount"]) == ("2026-03-02", "2250,90")
    olena.sends(f"{invoice}/payment", form | {"paid_amount": "1 000,50"})
    paper = api.read(invoice)
    assert (paper["paid_at"], paper["paid_amount"]) == ("2026-03-02", 1000.5)
    page = plain(olena.sees("/papers?is_paid=true"))
    assert "Рахунок на оплату · 1 2 250,90 ₴ , сплачено: 1 000,50 ₴" in page
    assert "№ 1/2026" not in olena.sees("/papers?kind=invoice&is_paid=false&is_void=false")
    olena.sends(f"{invoice}/payment", {})
    assert api.read(invoice)["paid_at"] is None


def test_the_list_narrows_and_exports(olena, deal, invoice):
    olena.sends(f"{deal}/papers", {"kind": "act", "language": "uk"})
    page = olena.sees("/papers")
    assert "Акт наданих послуг · 1 2 250,90 ₴" in plain(page)
    assert "Акт наданих послуг № 1/2026" not in olena.sees("/papers?kind=invoice&since=2026-03-01")
    assert "Документів тут немає" in olena.sees("/papers?since=2026-03-03")
    (export,) = re.findall(r'href="(/papers/export\.csv[^"]*)"', page)
    answer = olena.get(export.replace("&amp;", "&"))
    assert answer.mimetype == "text/csv" and answer.text.count("2250,90") == 2


def test_the_settings_have_requisites_and_how_papers_are_made(olena, deal):
    form = olena.form_as_it_is("/settings/company", "/settings/company/papers")
    assert (form["requisites-edrpou"], form["paper_settings-vat_rate"]) == ("14360570", "20")
    wrong = form | {"requisites-iban": "UA213223130000026007233566002"}
    page = olena.post("/settings/company/papers", wrong)
    assert page.status_code == 422 and 'id="requisites-iban-fault"' in page.text
    chosen = {"requisites-bank": "АТ «Банк»", "paper_settings-vat_mode": "inside"}
    chosen |= {"paper_settings-number_prefix": "РФ-", "paper_settings-terms": "Перший\nДругий"}
    chosen |= {"requisites-iban": "UA21 3223 1300 0002 6007 2335 6600 1"}
    chosen |= {"paper_settings-signatures": "Директор, Бухгалтер"}
    olena.sends("/settings/company/papers", form | chosen)
    kept = olena.form_as_it_is("/settings/company", "/settings/company/papers")
    assert kept["requisites-iban"] == SELLER["iban"]
    assert kept["paper_settings-signatures"] == "Директор, Бухгалтер"
    paper = olena.sends(f"{deal}/papers", {"kind": "invoice", "language": "uk"})
    page = plain(olena.sees(paper))
    assert "№ РФ-1/2026" in page and "ПДВ 20%" in page and "Бухгалтер" in page


def test_a_client_has_requisites(olena, api, deal):
    client = f"/clients/{api.read(deal)['client_id']}"
    form = olena.form_as_it_is(f"{client}/edit")
    olena.sends(f"{client}/edit", form | {"requisites-edrpou": "31451288"})
    assert api.read(client)["requisites"] == {"edrpou": "31451288"}
    assert "31451288" in olena.sees(client)
    assert "ЄДРПОУ" in olena.sees(f"{client}/edit")
    form = olena.form_as_it_is(f"{client}/edit")
    page = olena.post(f"{client}/edit", form | {"requisites-edrpou": "31451289"})
    assert page.status_code == 422 and 'id="requisites-edrpou-fault"' in page.text
    olena.sends(f"{client}/edit", form | {"requisites-edrpou": "", "requisites-bank": "Банк"})
    assert api.read(client)["requisites"] == {"bank": "Банк"}
    paper = olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    assert "Банк" in plain(olena.sees(paper))


def test_a_product_has_its_rate_of_vat(olena, api):
    product = f"/products/{api.create('/products', name='Книга', price=100)}"
    form = olena.form_as_it_is(product)
    assert form["vat"] == ""
    olena.sends(product, form | {"vat": "0"})
    assert api.read(product)["vat"] == 0
    assert olena.form_as_it_is(product)["vat"] == "0"


def test_an_offer_shows_the_pictures_of_its_products(crm, olena, api, deal):
    product = api.create("/products", name="Стіл", price=10)
    picture = {"file": (BytesIO(png(64)), "стіл.png")}
    assert api.post(f"/products/{product}/files", data=picture).status_code == 201
    api.create(f"{deal}/items", product_id=product)
    paper = olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    for person, path in ((olena, paper), (Person(crm), link_to(olena, paper))):
        (address,) = re.findall(r'<img class="paper-picture" src="([^"]+)"', person.sees(path))
        answer = person.get(address)
        assert (answer.data, answer.mimetype) == (png(64), "image/png")
        assert person.get(f"{address[:-1]}x").status_code == 404


def test_an_erased_offer_shows_nothing(olena, api, deal):
    offer = olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    client = f"/clients/{api.read(deal)['client_id']}"
    olena.confirms(f"{client}/erase")
    assert "Персональні дані клієнта стерто" in olena.sees(offer)
    assert olena.get(f"{offer}.pdf").status_code == 404


def test_a_link_of_an_embedded_crm_needs_no_login_of_the_site(crm, olena, api, invoice, furnished):
    site = Flask("shop", static_folder=None)
    options = settings_for(crm.tenants.config.data) | {"public_url": "https://shop.example/crm"}
    embedded = CRM(site, url_prefix="/crm", tenant="acme", current_user=lambda: None,
                   login_url="/login", **options, sends=False)  # fmt: skip
    with embedded.app.tenants.session("acme"):
        url = links.create(1, {})[1]
    assert url.startswith("https://shop.example/crm/p/")
    path = url.removeprefix("https://shop.example")
    page = site.test_client().get(path, base_url="https://shop.example")
    assert page.status_code == 200 and f'href="{path}.pdf"' in page.text
    assert "Set-Cookie" not in page.headers
    pdf = site.test_client().get(f"{path}.pdf", base_url="https://shop.example")
    assert pdf.data.startswith(b"%PDF")
    embedded.app.tenants.forget_idle()


def test_a_young_tenant_sends_few_papers(crm, olena, post, invoice, monkeypatch):
    monkeypatch.setattr(papers, "settings", lambda: Config(signup=True))
    sent = [olena.post(f"{invoice}/send", {"to": f"{number}@a.example"}) for number in range(11)]
    assert [answer.status_code for answer in sent] == [303] * 10 + [429]
    assert len(post.letters) == 10


def test_an_erasure_says_which_papers_stay(olena, api, deal, invoice):
    olena.sends(f"{deal}/papers", {"kind": "offer", "language": "uk"})
    client = api.read(deal)["client_id"]
    page = olena.post(f"/clients/{client}/erase").text
    assert "комерційні пропозиції: 1" in page
    assert "Рахунки, акти й накладні залишаться без змін, як вимагає закон: 1." in page
    olena.confirms(f"/clients/{client}/erase")
    assert olena.get(invoice).status_code == 200
