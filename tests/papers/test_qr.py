"""The payment QR, read back by other programs: lines by the rules, the picture by ZXing."""

import base64
import re
from pathlib import Path

import pytest
import typst
import zxingcpp
from pypdfium2 import PdfDocument

from crm.papers import qr
from tests.cases import loop_over
from tests.papers.snapshots import SELLER

PURPOSE = "Оплата за рахунком № 7 від 28.11.2026, у т. ч. ПДВ 375.15 грн"


def lines_of(url: str | None) -> list[str]:
    assert url is not None and url.startswith("https://bank.gov.ua/qr/")
    data = url.removeprefix("https://bank.gov.ua/qr/")
    assert len(data) <= 475 and not set(data) & set("+/=\n ")
    padded = data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)
    return base64.b64decode(padded, validate=True).decode("utf-8").split("\n")


def read(url: str, folder: Path) -> zxingcpp.Barcode:
    """What a reader sees in the picture, printed 38 mm wide with 150 points an inch."""
    (folder / "qr.svg").write_text(qr.picture(url))
    (folder / "qr.typ").write_text('#set page(width: 48mm, height: 48mm)\n#image("qr.svg")')
    typst.compile(folder / "qr.typ", output=folder / "qr.pdf", root=folder)
    with PdfDocument(folder / "qr.pdf") as pages:
        (barcode,) = zxingcpp.read_barcodes(pages[0].render(scale=150 / 72).to_numpy())
        return barcode


def test_the_address_has_the_lines_of_format_002() -> None:
    assert lines_of(qr.payment_url(SELLER, "2250.90", "UAH", PURPOSE)) == [
        *("BCD", "002", "1", "UCT", "", "ТОВ «Ромашка»", "UA213223130000026007233566001"),
        *("UAH2250.90", "14360570", "", "", PURPOSE, ""),
    ]
    person = {"name": "ФОП Петренко", "rnokpp": "1234567899", "iban": SELLER["iban"]}
    lines = lines_of(qr.payment_url(person, "3.00", "UAH", PURPOSE))
    assert lines[5:9] == ["ФОП Петренко", SELLER["iban"], "UAH3", "1234567899"]


@loop_over(
    "seller, amount, currency",
    [
        (SELLER, "2250.90", "EUR"),
        (SELLER, "0.00", "UAH"),
        (SELLER, "1000000000.00", "UAH"),
        (SELLER | {"iban": None}, "1.00", "UAH"),
        (SELLER | {"iban": "DE89370400440532013000"}, "1.00", "UAH"),
        (SELLER | {"edrpou": ""}, "1.00", "UAH"),
        (SELLER | {"legal_name": "", "name": "🌼"}, "1.00", "UAH"),
    ],
)
def test_there_is_none_for_what_a_bank_cannot_transfer(
    seller: dict[str, str], amount: str, currency: str
) -> None:
    assert qr.payment_url(seller, amount, currency, PURPOSE) is None
    assert qr.payment_url(SELLER, "999999999.99", "UAH", PURPOSE)


@loop_over(
    "name, purpose",
    [
        ("ж" * 300, "щ" * 900),
        ("w" * 300, "ї" * 900),
        ("ТОВ «А»\nБ\x07🌼\u00adВ", "За\r\n\tтовар 漢"),
    ],
)
def test_long_and_strange_texts_stay_in_their_lines(name: str, purpose: str) -> None:
    url = qr.payment_url(SELLER | {"legal_name": name}, "1.00", "UAH", purpose)
    lines = lines_of(url)
    assert len(lines) == 13 and lines[6:9] == [SELLER["iban"], "UAH1", "14360570"]
    assert name.startswith(lines[5]) if len(name) == 300 else lines[5] == "ТОВ «А» Б В"
    assert purpose.startswith(lines[11]) if len(purpose) == 900 else lines[11] == "За товар"
    assert len("\n".join(lines).encode()) > 354 or len(name) < 300  # cut no more than needed


@pytest.mark.parametrize("purpose", ["", PURPOSE, "щ" * 420])
def test_the_picture_is_read_with_the_sign_of_the_hryvnia_in_it(
    purpose: str, tmp_path: Path
) -> None:
    url = qr.payment_url(SELLER, "2250.90", "UAH", purpose)
    assert url is not None
    barcode = read(url, tmp_path)
    assert (barcode.text, barcode.ec_level) == (url, "M")
    side = re.search(r'viewBox="0 0 (\d+) ', picture := qr.picture(url))
    assert side and 10 <= (int(side[1]) - 8 - 17) / 4 <= 20
    assert "<circle" in picture


def test_a_short_address_has_at_least_version_10() -> None:
    side = 4 * 10 + 17 + 2 * 4
    assert f'viewBox="0 0 {side} {side}"' in qr.picture("https://bank.gov.ua/qr/QkNE")
