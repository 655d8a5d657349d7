"""Deals in the cabinet: the board, the list, the card, and what their forms change."""

import html
import re

import pytest

from crm.cabinet.deals import board
from crm.resources import users
from crm.resources.deals import items
from tests.conftest import TARAS
from tests.page_client import Person

each = pytest.mark.parametrize
NEW, QUALIFIED, PROPOSAL, NEGOTIATION, WON, LOST = "123456"  # ids of the first pipeline's stages


@pytest.fixture
def chairs(api) -> str:
    """The path of a deal with a client."""
    client = api.create("/clients", name="Світанок", type="company", phone="+380441234567")
    return f"/deals/{api.create('/deals', title='Крісла', client_id=client, amount=1200)}"


def column(page: str, stage: str) -> str:
    """The HTML of one column of the board."""
    return re.search(rf'data-stage="{stage}">(.*?)</section>', page, re.S)[1]


def text(page: str) -> str:
    """What a page says, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\xa0", " ").split())


def value(page: str, name: str) -> str:
    return html.unescape(re.search(rf'<input[^>]* name="{name}"[^>]* value="([^"]*)"', page)[1])


def refused(person: Person, path: str, sent: dict, status: int = 422) -> str:
    page = person.post(path, sent)
    assert page.status_code == status, page.text
    return page.text


# The board


def test_the_board_has_a_column_for_each_stage_with_count_and_sum_per_currency(olena, api):
    for amount, currency in ((100, "UAH"), (50.5, "UAH"), (7, "USD")):
        api.create("/deals", title="Стіл", amount=amount, currency=currency)
    page = olena.sees("/deals")
    names = [text(match) for match in re.findall(r"<header>\s*<h2[^>]*>(.*?)</h2>", page, re.S)]
    assert names == ["New 3", "Qualified 0", "Proposal 0", "Negotiation 0", "Won 0", "Lost 0"]
    assert "150,50 ₴ 7 USD" in text(column(page, NEW))


def test_a_card_tells_title_client_amount_manager_and_next_step(olena, api, chairs):
    card = text(column(olena.sees("/deals"), NEW))
    for response in ("Крісла", "Світанок", "1 200 ₴", "Olena", "без кроку"):
        assert response in card
    # The clock of the tests stands at 2026-03-02 11:00 in Kyiv.
    for due_at, shown in (
        (None, "заплановано"),
        ("2026-03-02T12:00:00Z", "14:00"),
        ("2026-02-27T09:00:00Z", "−3 дн."),
    ):
        api.create("/tasks", title="Дзвінок", deal_id=chairs.rpartition("/")[2], due_at=due_at)
        page = column(olena.sees("/deals"), NEW)
        assert shown in text(page) and ("step-late" in page) == ("−" in shown)


def test_the_board_has_the_filters_of_the_list(olena, api, chairs):
    api.create("/deals", title="Столи", amount=50, assigned_to=str(TARAS), stage_id=QUALIFIED)
    for asked, shown in (
        ("", {"Крісла", "Столи"}),
        ("assigned_to=me", {"Крісла"}),
        ("amount_to=50", {"Столи"}),
        ("q=крісл", {"Крісла"}),
        ("status=won&stage_id=2", {"Крісла", "Столи"}),  # those of a view of the list
    ):
        page = olena.sees(f"/deals?{asked}")
        titles = re.findall(r'class="deal-title"[^>]*>(.*?)</a>', page)
        assert set(titles) == shown, asked
        assert f'<span class="head-note">{len(shown)} · ' in page


def test_another_pipeline_has_its_own_board(olena, api, chairs):
    id = api.create("/pipelines", name="Сервіс", stages=[{"name": "Заявка", "type": "open"}])
    page = olena.sees(f"/deals?pipeline_id={id}")
    assert "Заявка" in page and "Крісла" not in page
    assert f"/deals?pipeline_id={id}" in olena.sees("/deals")
    olena.sees("/deals?pipeline_id=99", status=404)


def test_a_column_shows_30_and_more_on_demand(olena, api, monkeypatch):
    monkeypatch.setattr(board, "MAX_MORE_CARDS", 31)
    for number in range(32):
        api.create("/deals", title=f"Угода {number}")
    stage = column(olena.sees("/deals?assigned_to=me"), NEW)
    assert stage.count("data-deal=") == 30
    (address,) = re.findall(r'<a class="btn btn-link btn-sm" href="(.*?)#stage-1">\s*ще 2', stage)
    stage = column(olena.sees(html.unescape(address)), NEW)
    assert stage.count("data-deal=") == 31
    assert "ще 1 у списку" in stage
    assert "/deals?view=list&amp;stage_id=1" in stage


def test_an_open_stage_shows_what_is_open_and_counts_what_was_closed_in_it(olena, api):
    api.create("/deals", title="Виграна тут", stage_id=NEW, status="won", amount=10)
    api.create("/deals", title="Відкрита тут", amount=5)
    stage = column(olena.sees("/deals"), NEW)
    assert "Виграна тут" not in stage and "Відкрита тут" in stage
    assert "1 закрита тут" in stage and "5 ₴" in text(stage)
    page = olena.sees("/deals?view=list&stage_id=1&status=won&status=lost")
    assert "Виграна тут" in page and "Відкрита тут" not in page


def test_a_move_goes_by_the_deals_own_rule(manager, api, chairs):
    assert manager.sends(f"{chairs}/stage", {"stage_id": PROPOSAL}) == "/deals?pipeline_id=1"
    event = api.events()[-1]
    assert event["type"] == "deal.stage_changed"
    assert event["data"]["to_stage"]["id"] == PROPOSAL
    assert event["previous"]["stage_id"] == NEW
    page = manager.sees("/deals?pipeline_id=1")
    assert "Крісла" in column(page, PROPOSAL) and "Крісла" not in column(page, NEW)
    assert "«Крісла» переміщено на етап «Proposal»" in page
    assert api.read(f"{chairs}/history")[-1]["user_id"] == str(TARAS)


@each("stage", ["99", "x", ""])
def test_a_refused_move_says_why_where_it_was_sent_from(olena, api, chairs, stage):
    before = api.kinds()
    page = refused(olena, f"{chairs}/stage", {"stage_id": stage})
    assert 'id="board"' in page and "Цього запису вже немає." in page
    page = refused(olena, f"{chairs}/stage", {"stage_id": stage, "next": chairs})
    assert 'id="items"' in page and "Цього запису вже немає." in page
    assert api.kinds() == before


# A new deal


def test_a_new_deal(olena, api, chairs):
    sent = {
        **{"title": "Столи", "client": "світанок", "stage_id": QUALIFIED, "amount": "1 250,50"},
        **{"currency": "EUR", "assigned_to": str(TARAS), "expected_close_date": "2026-04-01"},
        **{"source": "ярмарок", "tags": "опт, терміново", "comment": "Зателефонувати"},
    }
    assert olena.sends("/deals", sent) == "/deals/2"
    deal = api.read("/deals/2")
    results = {name: deal[name] for name in sent if name not in ("client", "tags", "amount")}
    assert results == {name: sent[name] for name in results}
    assert (deal["amount"], deal["tags"]) == (1250.5, ["опт", "терміново"])
    assert (deal["client_id"], deal["client_name"]) == ("1", "Світанок")
    assert api.kinds()[-1] == "deal.created"


def test_the_form_proposes_what_the_way_to_it_says(olena, chairs):
    page = olena.sees("/deals/new?client_id=1&stage_id=3")
    assert value(page, "client") == "Світанок" and value(page, "client_id") == "1"
    assert '<option value="3" selected>' in page
    olena.sees("/deals/new?client_id=99", status=404)


def test_one_of_several_clients_is_chosen_and_none_is_taken_unasked(olena, api, chairs):
    api.create("/clients", name="Світанок", type="person", phone="+380501112233")
    sent = {"title": "Столи", "client": "Світанок", "stage_id": NEW}
    page = refused(olena, "/deals", sent)
    assert "Виберіть одного з цих клієнтів." in page and "050\u00a0111\u00a022\u00a033" in page
    assert olena.sends("/deals", {**sent, "client_id": "2"}) == "/deals/2"
    assert api.read("/deals/2")["client_id"] == "2"
    page = refused(olena, "/deals", {**sent, "client": "044 123-45-67"})
    assert '<option value="1" selected>Світанок' in page


def test_a_new_deal_may_convert_its_lead(olena, api):
    lead = api.create("/leads", name="Марія", phone="+380671234567")
    assert f'name="lead_id" value="{lead}"' in olena.sees(f"/deals/new?lead_id={lead}")
    olena.sends("/deals", {"title": "Шафа", "lead_id": lead, "stage_id": NEW})
    assert api.read(f"/leads/{lead}")["status"] == "converted"
    assert api.kinds()[-1] == "lead.converted"
    page = refused(olena, "/deals", {"title": "Ще", "lead_id": lead, "stage_id": NEW}, 409)
    assert "Цей лід уже став угодою." in page


# The card


def test_the_card_tells_the_deal(olena, api, chairs):
    api.patch(chairs, {"comment": "Терміново", "tags": ["опт"], "extra": {"utm": "осінь"}})
    api.create("/tasks", title="Зателефонувати", deal_id="1")
    api.create(f"{chairs}/notes", text="Просили знижку")
    page = olena.sees(chairs)
    for response in ("Крісла", "Терміново", "опт", "осінь", "Зателефонувати", "Просили знижку"):
        assert response in page
    assert '<a href="/clients/1">Світанок</a>' in page
    olena.sees("/deals/99", status=404)


def test_the_card_tells_the_way_through_the_stages(olena, api, chairs):
    api.patch(chairs, {"stage_id": PROPOSAL})
    timeline = text(re.search(r'id="timeline".*?</section>', olena.sees(chairs), re.S)[0])
    assert re.search(r"New змінено на Proposal.* New ", timeline)
    assert "Етап" not in timeline  # the move tells it


def test_lost_has_a_reason_which_is_proposed_next_time(olena, api, chairs):
    olena.sends(f"{chairs}/status", {"status": "lost", "lost_reason": "задорого"})
    deal = api.read(chairs)
    assert (deal["status"], deal["stage_id"], deal["lost_reason"]) == ("lost", LOST, "задорого")
    assert api.kinds()[-1] == "deal.lost"
    assert "задорого" in olena.sees(chairs)
    other = api.create("/deals", title="Столи", status="lost")
    assert '<option value="задорого">' in olena.sees(f"/deals/{other}/edit")


def test_reopened_it_returns_to_the_stage_where_it_was_closed(olena, api, chairs):
    api.patch(chairs, {"stage_id": QUALIFIED})
    api.patch(chairs, {"stage_id": LOST})
    assert "Відкрити знову" in olena.sees(chairs)
    olena.sends(f"{chairs}/status", {"status": "open"})
    deal = api.read(chairs)
    assert (deal["status"], deal["stage_id"]) == ("open", QUALIFIED)
    lost = f"/deals/{api.create('/deals', title='Ремонт', status='lost')}"
    olena.sends(f"{lost}/status", {"status": "open"})  # it was never at an open stage
    assert api.read(lost)["stage_id"] == NEGOTIATION


def test_a_client_who_is_not_there_is_added_with_the_deal(olena, api):
    sent = {"title": "Кухня", "client": "Марія Нова", "stage_id": NEW, "currency": "UAH"}
    page = refused(olena, "/deals", sent)
    assert "Клієнта не знайдено." in page and "Новий клієнт: Марія Нова" in page
    sent |= {"client_id": "new", "phone": "12", "assigned_to": str(TARAS)}
    page = refused(olena, "/deals", sent)
    assert "Марія Нова" in page and api.read("/clients") == []
    page = refused(olena, "/deals", sent | {"phone": "067 123 45 67", "amount": "багато"})
    assert 'value="new" selected' in page and api.read("/clients") == []
    path = olena.sends("/deals", sent | {"phone": "067 123 45 67"})
    (client,) = api.read("/clients")
    assert (client["name"], client["phone"]) == ("Марія Нова", "+380671234567")
    assert client["assigned_to"] == str(TARAS)
    assert api.read(path)["client_id"] == client["id"]


# Editing


def edited(person: Person, path: str, **changed: str) -> dict[str, str]:
    """The edit form as a browser would send it, with changes."""
    return person.form_as_it_is(f"{path}/edit") | changed


def test_what_is_edited_is_kept(olena, api, chairs):
    other = api.create("/clients", name="Обрій", type="company")
    changed = {"title": "Крісла та столи", "client": "Обрій", "amount": "2 000", "tags": ""}
    olena.sends(f"{chairs}/edit", edited(olena, chairs, **changed))
    deal = api.read(chairs)
    assert (deal["title"], deal["client_id"], deal["amount"]) == ("Крісла та столи", other, 2000)
    olena.sends(f"{chairs}/edit", edited(olena, chairs, client=""))
    assert api.read(chairs)["client_id"] is None


def test_a_contact_goes_with_its_client(olena, api, chairs):
    api.create("/clients/1/contacts", name="Ірина")
    api.create("/clients", name="Обрій", type="company")
    olena.sends(f"{chairs}/edit", edited(olena, chairs, contact_id="1"))
    assert api.read(chairs)["contact_id"] == "1"
    assert "Ірина" in olena.sees(chairs)
    olena.sends(f"{chairs}/edit", edited(olena, chairs, client="Обрій"))
    assert api.read(chairs)["contact_id"] is None


def test_the_amount_comes_from_the_items_or_from_hand(olena, api, chairs):
    api.create(f"{chairs}/items", name="Стіл", price=100)
    page = refused(olena, f"{chairs}/edit", edited(olena, chairs, amount="5"))
    assert "Сума рахується за позиціями" in page
    olena.sends(f"{chairs}/edit", edited(olena, chairs, amount="5", amount_mode="manual"))
    assert (api.read(chairs)["amount"], api.read(chairs)["amount_mode"]) == (5, "manual")
    assert "Взяти суму з позицій" in olena.sees(chairs)
    olena.sends(f"{chairs}/edit", {"amount_mode": "items"})
    assert (api.read(chairs)["amount"], api.read(chairs)["amount_mode"]) == (100, "items")
    assert (api.read(chairs)["title"], api.read(chairs)["client_id"]) == ("Крісла", "1")


def test_the_currency_of_a_deal_with_items_is_not_offered_and_stays(olena, api, chairs):
    assert 'name="currency"' in olena.sees(f"{chairs}/edit")
    api.create(f"{chairs}/items", name="Стіл", price=100)
    assert 'name="currency"' not in olena.sees(f"{chairs}/edit")
    page = refused(olena, f"{chairs}/edit", edited(olena, chairs, currency="USD"), 409)
    assert "Валюту не можна змінити, доки в угоді є позиції." in page


# Items


def lines(api, path: str) -> list[tuple]:
    return [
        (line["name"], line["quantity"], line["price"], line["discount"], line["total"])
        for line in api.read(f"{path}/items")
    ]


@pytest.fixture
def two_lines(api, chairs) -> str:
    items = [{"name": "Стіл", "price": 100, "quantity": 2}, {"name": "Стілець", "price": 30}]
    api.post(f"{chairs}/items", {"items": items})
    return chairs


def items_form(person: Person, path: str) -> dict[str, str]:
    """The form of the items as a browser would send it."""
    return person.form_as_it_is(f"{path}?items=edit", f"{path}/items")


def at(number: int, **values: str) -> dict[str, str]:
    """What is typed into one line."""
    return {f"items-{number}-{name}": text for name, text in values.items()}


def test_quantity_price_and_discount_of_several_lines_are_one_change(olena, api, two_lines):
    count, page = len(api.kinds()), olena.sees(f"{two_lines}?items=edit")
    assert value(page, "items-0-quantity") == "2" and value(page, "items-1-price") == "30"
    assert "Разом за позиціями 230 ₴" in text(page)
    changed = {**at(0, quantity="3", discount="10"), **at(1, price="25,50")}
    changed |= at(1, discount="5,5", discount_type="amount")
    way = olena.sends(f"{two_lines}/items", {**items_form(olena, two_lines), **changed})
    assert way == f"{two_lines}#items"
    assert lines(api, two_lines) == [("Стіл", 3, 100, 10, 270), ("Стілець", 1, 25.5, 5.5, 20)]
    assert api.read(two_lines)["amount"] == 290
    assert api.kinds()[count:] == ["deal.items_changed"]


def test_several_new_lines_are_saved_at_once(olena, api, two_lines):
    new = {**at(2, name="Доставка", price="50"), **at(4, name="Підйом", price="20", quantity="2")}
    olena.sends(f"{two_lines}/items", {**items_form(olena, two_lines), **new})
    assert [line[0] for line in lines(api, two_lines)] == ["Стіл", "Стілець", "Доставка", "Підйом"]
    assert api.read(two_lines)["amount"] == 320


@each("typed", ["KR-7", "kr-7", "Крісло", "крісло"])
def test_a_product_is_named_by_sku_or_name(olena, api, chairs, typed):
    product = api.create("/products", name="Крісло", sku="KR-7", price=900, unit="шт")
    olena.sends(f"{chairs}/items", {**items_form(olena, chairs), **at(0, name=typed)})
    (line,) = api.read(f"{chairs}/items")
    assert (line["product_id"], line["sku"], line["price"]) == (product, "KR-7", 900)


def test_a_part_of_a_name_asks_which_product_is_meant(olena, api, chairs):
    api.create("/products", name="Крісло офісне", sku="KR-7", price=900)
    api.create("/products", name="Крісло старе", price=1, active=False)
    sent = {**items_form(olena, chairs), **at(0, name="крісло", quantity="4")}
    page = refused(olena, f"{chairs}/items", sent)
    assert "Можливо, це один із цих товарів?" in page and "Крісло офісне · KR-7" in page
    assert "Крісло старе" not in page
    assert value(page, "items-0-name") == "крісло" and value(page, "items-0-quantity") == "4"
    olena.sends(f"{chairs}/items", {**sent, **at(0, product_id="1")})
    assert lines(api, chairs) == [("Крісло офісне", 4, 900, 0, 3600)]


def choices(person: Person, noun: str, q: str = "") -> list[str]:
    """The choices of a noun that the script shows, as texts."""
    page = person.sees(f"/choices/{noun}?q={q}")
    return [text(choice) for choice in re.findall(r"<li.*?</li>", page, re.S)]


def test_products_are_offered_by_name_sku_and_category_and_those_sold_often_first(
    olena, api, chairs
):
    for name, sku in (("Стіл", "T-1"), ("Крісло", "T-2"), ("Ящик", None)):
        api.create("/products", name=name, sku=sku, price=900.5, unit="шт", category="Меблі")
    api.create("/products", name="Стіл старий", price=1, active=False)
    assert choices(olena, "products")[0] == "Крісло 900,50 ₴ / шт T-2 · Меблі"
    for id in "332":
        api.create(f"{chairs}/items", product_id=id)
    for q, names in (("", "ЯКС"), ("меблі", "КСЯ"), ("t-1", "С"), ("Стіл", "С"), ("шафа", "")):
        assert [name[0] for name in choices(olena, "products", q)] == [*names], q


def test_clients_and_deals_are_offered_and_one_of_many_of_a_name_is_taken(olena, api, chairs):
    for number in range(25):
        api.create("/clients", name="Світанок", phone=f"+3805011122{number:02}")
    assert len(choices(olena, "clients", "Світанок")) == 20
    assert choices(olena, "clients")[0] == "Світанок 050 111 22 24"
    assert choices(olena, "deals", "крісла") == ["Крісла 1 200 ₴ Світанок · 0 позицій"]
    sent = {"title": "Столи", "client": "Світанок", "client_id": "26", "stage_id": NEW}
    deal = olena.sends("/deals", sent)
    assert api.read(deal)["client_id"] == "26"
    olena.sends(f"{deal}/edit", edited(olena, deal, client_id="25"))
    assert api.read(deal)["client_id"] == "25"


@each(
    "quantity, price, discount, kind",
    [
        ("3", "33,335", "", "percent"),
        ("1,5", "0,03", "12,5", "percent"),
        ("7", "19.99", "0,01", "amount"),
    ],
)
def test_totals_shown_while_typing_are_those_that_are_saved(
    olena, api, two_lines, quantity, price, discount, kind
):
    line = at(2, name="Лак", quantity=quantity, price=price, discount=discount, discount_type=kind)
    sent = {**items_form(olena, two_lines), **line}
    shown = dict(olena.post(f"{two_lines}/items/totals", sent).json)
    olena.sends(f"{two_lines}/items", sent)
    page = text(olena.sees(two_lines))
    assert (
        f"{shown['items-2-total']} Разом за позиціями {shown['items-total']}".replace("\xa0", " ")
        in page
    )
    wrong = dict(olena.post(f"{two_lines}/items/totals", {**sent, **at(2, discount="1000")}).json)
    assert wrong["items-2-total"] == wrong["items-total"] == ""


def test_the_price_of_a_product_is_shown_before_it_is_saved(olena, api, chairs):
    api.create("/products", name="Крісло", price=900.5, unit="шт")
    sent = {**items_form(olena, chairs), **at(0, name="крісло", quantity="2")}
    shown = dict(olena.post(f"{chairs}/items/totals", sent).json)
    assert (shown["items-0-price"], shown["items-0-unit"]) == ("900,50", "шт")
    assert shown["items-total"] == "1\xa0801\xa0₴"


def test_a_free_line_may_become_a_product(olena, api, chairs):
    sent = {**items_form(olena, chairs), **at(0, name="Монтаж", price="250,50", add="1")}
    sent |= at(1, name="Доставка", price="70")
    refused(olena, f"{chairs}/items", sent | at(1, discount="101"))
    assert api.read("/products") == []
    olena.sends(f"{chairs}/items", sent)
    (product,) = api.read("/products")
    assert (product["name"], product["price"]) == ("Монтаж", 250.5)
    assert [line["product_id"] for line in api.read(f"{chairs}/items")] == [product["id"], None]
    assert api.kinds()[-2:] == ["product.created", "deal.items_changed"]


def test_items_are_copied_from_another_deal(olena, api, two_lines):
    other = f"/deals/{api.create('/deals', title='Столи')}"
    sent = {**items_form(olena, other), **at(0, name="Лак", price="5"), "copy": "крісла"}
    assert olena.sends(f"{other}/items", sent) == f"{other}?items=edit#items"
    assert lines(api, other) == [("Лак", 1, 5, 0, 5), *lines(api, two_lines)]
    assert api.kinds()[-1] == "deal.items_changed" and api.read(other)["amount"] == 235
    page = refused(olena, f"{other}/items", {**items_form(olena, other), "copy": "немає"})
    assert "Угоду не знайдено" in page and 'value="немає"' in page
    dollars = f"/deals/{api.create('/deals', title='Стіл', currency='USD')}"
    page = refused(olena, f"{dollars}/items", {**items_form(olena, dollars), "copy": "крісла"})
    assert "Валюти різні" in page and lines(api, dollars) == []


def test_a_seller_is_offered_and_copies_own_deals_only(crm, api, two_lines):
    with crm.tenants.session("acme"):
        users.update(TARAS, {"role": "seller"})
    taras = Person(crm, user_id=TARAS)
    own = f"/deals/{api.create('/deals', title='Столи', assigned_to=str(TARAS))}"
    assert [name.split()[0] for name in choices(taras, "deals")] == ["Столи"]
    sent = {**items_form(taras, own), "copy": "Крісла", "copy_id": two_lines.rpartition("/")[2]}
    assert "Угоду не знайдено" in refused(taras, f"{own}/items", sent)


def test_faults_of_lines_stand_at_their_fields_and_nothing_is_kept(olena, api, two_lines):
    wrong = {**at(0, quantity="0"), **at(1, discount="101"), **at(2, price="5")}
    page = refused(olena, f"{two_lines}/items", {**items_form(olena, two_lines), **wrong})
    for name, was_typed in wrong.items():
        assert value(page, name) == was_typed
    assert 'id="items-0-quantity-fault"' in page
    assert lines(api, two_lines)[0][1] == 2
    right = {**wrong, **at(0, quantity="1")}
    page = refused(olena, f"{two_lines}/items", {**items_form(olena, two_lines), **right})
    for name in ("1-discount", "2-name"):
        assert f'id="items-{name}-fault"' in page
    right |= at(1, discount="") | at(2, price="") | at(4, name="Лак")  # lines between are empty
    page = refused(olena, f"{two_lines}/items", {**items_form(olena, two_lines), **right})
    assert 'id="items-4-price-fault"' in page
    emptied = at(0, quantity="", price="")
    page = refused(olena, f"{two_lines}/items", {**items_form(olena, two_lines), **emptied})
    for name in ("0-quantity", "0-price"):
        assert f'id="items-{name}-fault"' in page
    assert [line[:2] for line in lines(api, two_lines)] == [("Стіл", 2), ("Стілець", 1)]


def test_who_was_overtaken_keeps_the_others_line(olena, api, two_lines):
    sent = {**items_form(olena, two_lines), **at(0, quantity="9")}
    api.create(f"{two_lines}/items", name="Чужий", price=1)
    page = refused(olena, f"{two_lines}/items", sent, 409)
    assert "Хтось інший тим часом це змінив." in page
    assert [line[:2] for line in lines(api, two_lines)] == [
        ("Стіл", 2),
        ("Стілець", 1),
        ("Чужий", 1),
    ]
    assert value(page, "items-0-quantity") == "2" and value(page, "items-2-id") == "3"


# Who may, and what may be in it


def test_a_deal_of_many_items_shows_the_first_and_keeps_the_others(olena, crm, api, chairs):
    with crm.tenants.session("acme"):
        items.create_all(1, [{"name": f"Рядок {n}", "price": 10_0000} for n in range(300)])
    page = olena.sees(f"{chairs}?items=edit")
    assert "items-199-id" in page and "items-200-id" not in page
    assert "Показано перші 200 з усіх 300 позицій" in text(page) and "3 000" in text(page)
    before = api.read(f"{chairs}/items?limit=200")
    sent = {**items_form(olena, chairs), "items-0-quantity": "2"}
    olena.sends(f"{chairs}/items", sent)
    deal, after = api.read(chairs), api.read(f"{chairs}/items?limit=200")
    assert (deal["items_count"], deal["amount"]) == (300, 3010)
    assert (after[0]["quantity"], after[1:]) == (2, before[1:])


def test_the_color_of_a_stage_is_seen_at_the_deal_and_on_the_board(olena, api):
    stage = api.read("/pipelines/1")["stages"][0]["id"]
    api.patch(f"/pipelines/1/stages/{stage}", {"color": "#123abc"})
    deal = api.create("/deals", title="Кухня")
    for path in (f"/deals/{deal}", "/deals"):
        assert 'fill="#123abc"' in olena.sees(path), path
