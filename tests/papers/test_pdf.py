"""The PDF of papers: what other programs read in it, and the limits of its process."""

import os
import re
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zxingcpp
from pypdfium2 import PdfDocument

from crm.papers import KINDS, LANGUAGES, pdf
from crm.papers.layout import show
from tests.papers.snapshots import BUYER, CHAIR, SELLER, snapshot
from tests.pictures import png

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def folder_of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())


def texts_of(data: bytes) -> list[str]:
    """The text of each page, on one line, without what lets long words break."""
    with PdfDocument(data) as document:
        pages = [page.get_textpage().get_text_bounded() for page in document]
    return [" ".join(re.sub("[\u200b\ufffe]", "", text).split()) for text in pages]


def numbered(count: int) -> list[dict[str, Any]]:
    return [CHAIR | {"name": f"Товар-{number} для офісу"} for number in range(1, count + 1)]


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_pdf_says_what_the_page_says(kind: str, language: str) -> None:
    for mode, pictures in (("none", {}), ("inside", {"logo": png(300, 100)})):
        paper = snapshot(kind, language, vat_mode=mode, terms="Оплата.", signatures=["Директор"])
        data, shown = pdf.compile(paper, pictures), show(paper)
        (text,) = texts_of(data)
        expected = [shown["title"], *shown["columns"], *shown["rows"][0]["cells"], "Оплата."]
        expected += [label for label, _ in shown["totals"]] + ["Директор", BUYER["name"]]
        expected += [] if kind == "offer" else [shown["words"], shown["texts"]["statement"]]
        expected += [SELLER["iban"]] + [text for _, text in shown["payment"]]
        assert [part for part in expected if plain(part) not in text] == []
        assert data.startswith(b"%PDF-") and b"<pdfaid:part>3</pdfaid:part>" in data
        assert b"<pdfaid:conformance>B</pdfaid:conformance>" in data
        with PdfDocument(data) as document:
            codes = zxingcpp.read_barcodes(document[0].render(scale=2).to_numpy())
        assert [code.text for code in codes] == ([paper["qr"]] if kind == "invoice" else [])


def test_the_same_paper_has_the_same_bytes() -> None:
    paper, pictures = snapshot(), {"logo": png(64)}
    first = pdf.compile(paper, pictures)
    time.sleep(1.1)  # another second, as a PDF notes it
    assert pdf.compile(paper, pictures) == first
    assert b"20261128000000Z" in first
    assert pdf.compile(paper | {"number": "8"}, pictures) != first


def test_long_lists_have_their_header_on_each_page() -> None:
    pages = texts_of(pdf.compile(snapshot("delivery_note", lines=numbered(300)), {}))
    with_lines = [page for page in pages if "Товар-" in page]
    assert len(with_lines) > 5
    assert all("Найменування К-сть" in page for page in with_lines)
    assert [int(n) for n in re.findall(r"Товар-(\d+)", " ".join(pages))] == [*range(1, 301)]
    assert f"Сторінка 1 з {len(pages)}" in pages[0]


@pytest.mark.slow
def test_totals_stand_on_the_page_of_the_last_line() -> None:
    page_counts = set()
    for count in range(6, 24):
        pages = texts_of(pdf.compile(snapshot("act", lines=numbered(count)), {}))
        page_counts.add(len(pages))
        (page,) = [page for page in pages if "Всього з ПДВ" in page]
        assert f"Товар-{count} " in page and "Всього без ПДВ" in page, count
    assert page_counts >= {1, 2}


HOSTILE = {
    "import": '#import "paper.typ": * #panic("x") #read("/etc/passwd")',
    "brackets": "] } ) \\ $x^2$ @label <label> `raw` *bold* _it_ = Title // no /* no */ ~ -- '\"",
    "sys": "#sys.inputs \\u{41} {{ 7*7 }} %s {0} {title}",
}


@pytest.mark.slow
def test_a_paper_of_3000_lines_is_made_in_time() -> None:
    data = pdf.compile(snapshot("offer", lines=[CHAIR] * 3000), {})
    with PdfDocument(data) as document:
        assert len(document) > 100


def test_markup_in_records_is_text() -> None:
    for text in HOSTILE.values():
        party = dict.fromkeys(SELLER, text) | {"iban": SELLER["iban"]}
        line = CHAIR | {"name": text, "sku": text, "unit": text, "picture": "/data.json"}
        more = {"seller": party, "buyer": party, "terms": text, "signatures": [text]}
        paper = snapshot(
            "offer", lines=[line], number=text, deal={"id": "1", "title": text}, **more
        )
        read = "".join(texts_of(pdf.compile(paper, {})))
        # Signs of several letters are joined in print, and lines may break anywhere.
        wanted, read = (re.sub(r"\s", "", each) for each in (text, read))
        assert read.count(wanted) >= 6, text


@pytest.mark.parametrize(
    "name",
    [
        "щ" * 10_000,
        "слово " * 1700,
        "😀👩‍👩‍👧",
        "漢字の会社",
        "שלום עולם",
        "شركة",
        "a\x01b\x07\ufeff\u202ec",
        "\ue000",
    ],
    ids=["long word", "long", "emoji", "Chinese", "Hebrew", "Arabic", "controls", "private use"],
)
def test_any_name_makes_a_pdf(name: str) -> None:
    for kind in ("invoice", "offer"):
        paper = snapshot(kind, lines=[CHAIR | {"name": name}] * 2, buyer={"name": name})
        pages = texts_of(pdf.compile(paper, {}))
        assert "2 250,90" in " ".join(pages)
        if len(name) > 1000:
            assert " ".join(pages).replace(" ", "").count(name[:5]) > 1000


def test_a_damaged_picture_is_left_out() -> None:
    line = CHAIR | {"picture": "chair"}
    whole = pdf.compile(snapshot("offer", lines=[line]), {"chair": png(64), "logo": png(64)})
    damaged = {"chair": png(64)[:60], "logo": b"\x89PNG\r\n\x1a\n"}
    head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png(64)[24:29]  # no memory for it
    large = png(64)[:12] + head + struct.pack(">I", zlib.crc32(head)) + png(64)[33:]
    for pictures in (damaged, {"chair": large}):
        assert texts_of(pdf.compile(snapshot("offer", lines=[line]), pictures))
    with PdfDocument(whole) as document:
        assert len([*document[0].get_objects(filter=[3])]) == 2  # FPDF_PAGEOBJ_IMAGE


@pytest.fixture
def own_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "paper.typ").touch()
    monkeypatch.setattr(pdf, "TEMPLATES", tmp_path)
    return tmp_path / "invoice.typ"


def test_a_template_that_loops_ends_in_time(
    own_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_template.write_text(
        "#for i in range(10000) { for j in range(10000) { let x = calc.sin(i * j) } }"
    )
    monkeypatch.setattr(pdf, "TIMEOUT", 1.0)
    begun = time.monotonic()
    with pytest.raises(pdf.PdfFailed) as failed:
        pdf.compile(snapshot(), {})
    assert 1 <= time.monotonic() - begun < 20
    assert "1.0 seconds" in failed.value.reason


@pytest.mark.parametrize(
    "text",
    [
        *(
            '#read("/etc/passwd")',
            '#read("../../../../../../etc/passwd")',
            '#read("/../paper.typ")',
        ),
        "#range(200000000).map(n => str(n)).join()",  # beyond the memory allowed
        '#panic("no")',
    ],
)
def test_a_template_reads_only_its_folder_within_limits(own_template: Path, text: str) -> None:
    own_template.write_text("text")
    assert texts_of(pdf.compile(snapshot(), {})) == ["text"]
    own_template.write_text(text)
    with pytest.raises(pdf.PdfFailed):
        pdf.compile(snapshot(), {})


def test_templates_load_no_packages() -> None:
    templates = {path.stem: path.read_text() for path in Path(pdf.__file__).parent.glob("*.typ")}
    assert templates.keys() == {"paper", *KINDS}
    assert not [name for name, text in templates.items() if re.search("@|https?:", text)]


def test_without_typst_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "find_spec", lambda name: None)
    with pytest.raises(pdf.NoTypst, match=r"crm\[pdf\]") as refused:
        pdf.compile(snapshot(), {})
    assert refused.value.code == "pdf_not_installed"


def test_twenty_threads_make_papers_at_once() -> None:
    papers = [snapshot(number=str(number), lines=numbered(number)) for number in range(1, 21)]
    with ThreadPoolExecutor(20) as threads:
        made = [*threads.map(lambda paper: texts_of(pdf.compile(paper, {})), papers)]
    for number, pages in enumerate(made, 1):
        assert f"№ {number} від" in pages[0] and f"Товар-{number} " in " ".join(pages)


def test_what_a_killed_process_has_left_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    for name, age in (
        ("crm-paper-old", 2 * pdf.LEFT_SECONDS),
        ("crm-paper-new", 0),
        ("other", 1e6),
    ):
        (folder / name).mkdir()
        (folder / name / "data.json").write_text("{}")
        os.utime(folder / name, (time.time() - age,) * 2)
    assert pdf.compile(snapshot(), {}).startswith(b"%PDF")
    assert sorted(path.name for path in folder.iterdir()) == ["crm-paper-new", "other"]
