"""Files that are no CSV in UTF-8: workbooks, hostile ones too, old Cyrillic encodings."""

import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from crm.spreadsheets.conversion import plain_csv
from crm.spreadsheets.csv_format import UnusableFile, decode
from crm.spreadsheets.encodings import recognize_encoding
from tests.cases import loop_over

ROOT = Path(__file__).parents[2]
OLD_ENCODINGS = {"koi8-u": "koi8_u", "cp1125": "cp1125", "mac-cyrillic": "mac_cyrillic"}
PRICE_LIST = "Артикул;Назва;Ціна\r\nСТ-1;Стіл дубовий «Їжак», № 5;12 500,00\r\nСТ-2;Ґанок;7\r\n"
PEOPLE = "Прізвище;Ім'я;Телефон\r\nШевченко;Олена;067 123 45 67\r\nКоваль;Юрій;050 111 22 33\r\n"
HEADERS = ("Артикул;Назва;Ціна", "артикул;назва;ціна;категорія", "ПІБ;Телефон;Компанія;Коментар")
RUSSIAN = "Фамилия;Имя;Отчество;Город\r\nИванов;Пётр;Сергеевич;Запорожье\r\n"


def words() -> list[str]:
    """The words of the Ukrainian translations, long ones and short ones."""
    folder = ROOT / "crm" / "cabinet" / "translations" / "uk"
    texts = " ".join(path.read_text("utf-8") for path in folder.glob("*.po"))
    found = set(re.findall(r"[а-яіїєґА-ЯІЇЄҐ’']*[а-яіїєґА-ЯІЇЄҐ]+", texts))
    # Units such as кБ are letters in the case of words of other encodings.
    return sorted(word for word in found if word.isupper() or word[1:].islower() or len(word) == 1)


def refused(data: bytes, sheet: str | None = None) -> tuple[str, str]:
    with pytest.raises(UnusableFile) as refused:
        plain_csv(data, sheet)
    return refused.value.code, refused.value.faults[0].detail


# Encodings


@pytest.mark.parametrize("text", [PRICE_LIST, PEOPLE, *HEADERS, RUSSIAN, PRICE_LIST * 2000])
@pytest.mark.parametrize("encoding", OLD_ENCODINGS)
def test_old_encodings_are_recognized(encoding: str, text: str) -> None:
    data = text.encode(OLD_ENCODINGS[encoding], "ignore")  # without « and the like
    assert decode(data) == (encoding, data.decode(OLD_ENCODINGS[encoding]))


def test_cp866_is_recognized_as_far_as_it_differs_from_its_ukrainian_kind() -> None:
    for text in (RUSSIAN, "Назва;Одиниця\r\nЄвростандарт;немає\r\nПоїздка;її\r\n"):
        assert decode(text.encode("cp866"))[1] == text


def test_no_windows_1251_file_is_taken_for_another() -> None:
    """Of one word to many, in any case, among Latin cells and signs, each left as it is."""
    chance, vocabulary = random.Random(22), words()
    assert len(vocabulary) > 1000
    ends = (
        "",
        " № 5",
        " 5 °C",
        "—",
        ";sku;name;Table x200",
        " «А»",
        ";±1;5 %;§ 7",
        "\r\nA4;USB;PVC",
    )
    for count in (1, 1, 1, 2, 3, 5, 10, 100):
        for _ in range(400 if count < 100 else 20):
            case: Callable[[str], str] = chance.choice([str, str.lower, str.title, str.upper])
            chosen = [case(chance.choice(vocabulary)) for _ in range(count)]
            text = chance.choice([";", " ", "\r\n", ";12,50;"]).join(chosen) + chance.choice(ends)
            data = text.encode("windows-1251")
            assert recognize_encoding(data) == "windows-1251", text


@loop_over("text", [PRICE_LIST, PEOPLE, *HEADERS, RUSSIAN, "sku;name\nA;№ 5", "name\n5 °C"])
def test_what_d9_names_stays_as_it_is(text: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "windows-1251"):
        data = text.encode(encoding)
        assert decode(data) == (encoding.removesuffix("-sig"), text)
    with pytest.raises(UnusableFile, match="line 7 is not utf-8"):  # one bad byte
        decode(f"{PRICE_LIST}{PRICE_LIST}".encode() + b"\xff")


def test_letters_far_below_are_seen_too() -> None:
    data = b"sku;name\r\n" + b"A-1;Table\r\n" * 10_000 + "A-2;Стілець дерев'яний".encode("koi8_u")
    assert decode(data)[0] == "koi8-u"


def test_a_western_encoding_is_told() -> None:
    for text, encoding in (("Müller;Größe\nJürgen;Straße", "cp1252"), ("Zażółć;Łódź", "cp1250")):
        with pytest.raises(UnusableFile, match="utf-8") as refused:
            decode(text.encode(encoding))
        assert refused.value.code == "bad_encoding"


# Other formats


def archive(name: str) -> bytes:
    """An archive with an empty part of this name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as parts:
        parts.writestr(name, "")
    return file.getvalue()


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500)


@loop_over(
    "data, words",
    [
        (OLE, "Excel 97"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "password"),
        (b"%PDF-1.7\n%\xe2\xe3", "PDF"),
        (b"\xef\xbb\xbf\r\n<html><table>", "web page"),
        (b'<?xml version="1.0"?><Workbook>', "XML"),
        (archive("Index/Document.iwa"), "Numbers"),
        (archive("xl/workbook.bin"), "xlsb"),
    ],
)
def test_other_formats_are_told_with_what_to_do(data: bytes, words: str) -> None:
    code, detail = refused(data)
    assert code == "unreadable_workbook"
    assert words in detail and "save" in detail or "send" in detail
