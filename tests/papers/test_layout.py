"""What papers show, in both languages."""

import itertools

from crm.papers import KINDS, LANGUAGES
from crm.papers.layout import payment_purpose, show
from tests.cases import loop_over
from tests.papers.snapshots import BUYER, CHAIR, SELLER, snapshot

PAPERS = list(itertools.product(KINDS, LANGUAGES))
MODES = ("none", "inside", "on_top")


def plain(text: str) -> str:
    return text.replace("\xa0", " ")


def test_each_kind_has_its_title() -> None:
    assert [plain(show(snapshot(kind))["title"]) for kind in KINDS] == [
        "Комерційна пропозиція № 7 від 28 листопада 2026 р.",
        "Рахунок на оплату № 7 від 28 листопада 2026 р.",
        "Акт наданих послуг № 7 від 28 листопада 2026 р.",
        "Видаткова накладна № 7 від 28 листопада 2026 р.",
    ]
    assert plain(show(snapshot("invoice", "en"))["title"]) == "Invoice No. 7 of 28 November 2026"


def test_an_invoice_shows_lines_sums_and_where_to_pay() -> None:
    shown = show(snapshot(terms="Оплата за 5 днів.\nДоставка.", valid_until="2026-12-12"))
    assert shown["columns"] == [
        *("Найменування", "К-сть", "Од.", "Ціна з ПДВ, грн", "Знижка", "ПДВ", "Сума з ПДВ, грн")
    ]
    (row,) = shown["rows"]
    assert [plain(text) for text in row.pop("cells")] == [
        *("2", "шт", "1 250,50", "10%", "20%", "2 250,90")
    ]
    assert row == {"number": "1", "name": "Стілець дубовий", "sku": "арт. CH-0012", "picture": ""}
    assert [(label, plain(amount)) for label, amount in shown["totals"]] == [
        *(("Всього без ПДВ", "1 875,75"), ("ПДВ 20%", "375,15"), ("Всього з ПДВ", "2 250,90"))
    ]
    words = "Дві тисячі двісті п’ятдесят гривень 90 копійок, у т. ч. ПДВ 375,15 грн"
    assert shown["words"] == f"Всього до сплати: {words}"
    assert plain(shown["valid_until"]) == "Рахунок дійсний до 12 грудня 2026 р."
    assert shown["terms"] == ["Оплата за 5 днів.", "Доставка."]
    purpose = "Оплата за рахунком № 7 від 28.11.2026, у т. ч. ПДВ 375.15 грн"
    assert dict(shown["payment"]) == {
        **{"Отримувач": "ТОВ «Ромашка»", "Код отримувача": "14360570", "Призначення": purpose},
        **{"Рахунок (IBAN)": SELLER["iban"], "Банк": SELLER["bank"]},
    }
    assert shown["parties"][1] == {
        **{"label": "Покупець", "name": BUYER["name"]},
        "details": ["РНОКПП 1234567899", "м. Львів, пл. Ринок, 1"],
    }


def test_english_papers_and_other_currencies_are_written_their_way() -> None:
    shown = show(snapshot("offer", "en", vat_mode="none", currency="USD", valid_until="2026-12-12"))
    assert shown["columns"][-1] == "Amount, USD" and shown["rows"][0]["cells"][-1] == "2,250.90"
    assert shown["totals"] == [("Total (without VAT)", "2,250.90")]
    assert plain(shown["valid_until"]) == "This offer is valid until 12 December 2026"
    assert (shown["payment"], shown["qr"]) == ([], "")


@loop_over("kind, language", PAPERS)
def test_vat_has_a_column_only_where_there_is_some(kind: str, language: str) -> None:
    for mode in MODES:
        shown = show(snapshot(kind, language, [CHAIR, CHAIR | {"vat_rate": 0}], mode))
        assert ("VAT" in shown["columns"] or "ПДВ" in shown["columns"]) == (mode != "none")
        assert len(shown["totals"]) == (1 if mode == "none" else 4)
        assert len({len(shown["columns"]) - 1, *(len(row["cells"]) for row in shown["rows"])}) == 1


def test_empty_columns_are_left_out() -> None:
    bare = {"name": "Послуга", "quantity": "1.5", "price": "0.1234", "total": "0.19"}
    shown = show(snapshot(lines=[bare], vat_mode="none"))
    assert shown["columns"] == ["Найменування", "К-сть", "Ціна, грн", "Сума, грн"]
    assert shown["rows"][0]["cells"] == ["1,5", "0,1234", "0,19"]
    amount = show(snapshot(lines=[bare, bare | {"discount": "1000.00"}]))
    assert [plain(row["cells"][2]) for row in amount["rows"]] == ["", "1 000,00"]


def test_who_signs_is_as_the_kind_needs() -> None:
    signers = {kind: show(snapshot(kind))["signatures"] for kind in KINDS}
    director = [SELLER["director"]]
    assert signers["offer"] == []
    assert signers["invoice"] == [{"label": "Постачальник", "captions": director}]
    labels = [side["label"] for side in (*signers["act"], *signers["delivery_note"])]
    assert labels == ["Виконавець", "Замовник", "Відвантажив", "Отримав"]
    own = show(snapshot("act", signatures=["Директор", "Бухгалтер"]))["signatures"]
    assert [side["captions"] for side in own] == [["Директор", "Бухгалтер"], [""]]
    assert "не мають претензій" in show(snapshot("act"))["texts"]["statement"]


def test_the_purpose_says_whether_there_is_vat() -> None:
    assert payment_purpose(snapshot(vat_mode="none")).endswith("від 28.11.2026, без ПДВ")


@loop_over("kind, language", PAPERS)
def test_papers_of_what_is_known_least_are_whole(kind: str, language: str) -> None:
    nobody = {"name": "Олена"}
    shown = show(snapshot(kind, language, seller=nobody, buyer=nobody))
    assert [party["details"] for party in shown["parties"]] == [[], []]
    assert (shown["payment"], shown["terms"], shown["valid_until"]) == ([], [], "")
    assert "{" not in "".join([shown["title"], shown["words"], *shown["columns"]])
