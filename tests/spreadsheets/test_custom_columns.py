"""The columns of a tenant's own fields in files: exports, imports, guesses, and new fields."""

import io
import json
import zipfile
from html import escape
from pathlib import Path
from typing import Any

import pytest

from crm.spreadsheets.foreign.new_fields import guess_type
from tests.conftest import Api, key_for
from tests.csv_helpers import exported, said, send
from tests.resources.test_custom_fields import BUDGET, VALUES
from tests.spreadsheets.test_files_for_people import csv_rows, export, report
from tests.spreadsheets.test_foreign_files import errors, faults, guessed, load, post

NEW = {
    "leads": {"name": "Олена", "phone": "+380501112233"},
    "clients": {"name": "ТОВ Дуб"},
    "deals": {"title": "Стіл"},
    "products": {"sku": "1", "name": "Дошка", "price": 5},
    "tasks": {"title": "Подзвонити"},
}
OPTIONS = [{"key": "oak", "label": "Дуб, світлий"}, {"key": "ash", "label": "Ясен"}]
STYLES = ["", "dialect=excel", "ods", "format=vcf", "format=vcf&vcard_version=3.0"]
STYLES += [
    f"{style}&language={language}"
    for style in ("for=people", "format=xlsx")
    for language in ("uk", "en")
]


def add_fields(api: Api, plural: str, *types: str) -> None:
    for type in types:
        options = OPTIONS if type.startswith("choice") else []
        field = {"key": type, "label": f"Own {type}", "type": type, "options": options}
        api.create("/fields", resource=plural, **field)


def add_full(api: Api, plural: str) -> tuple[str, dict[str, Any]]:
    """A record with a value of each type: its path, and the values."""
    add_fields(api, plural, *VALUES)
    api.create("/clients", name="Клієнт")
    custom = {type: shown for type, (_, shown, *_) in VALUES.items()}
    id = api.create(f"/{plural}", **NEW[plural], custom=custom)
    return f"/{plural}/{id}", custom


def open_document(table: list[list[str]]) -> bytes:
    """The table as a sheet of an .ods file, in which all cells are texts."""
    rows = [
        "".join(
            f'<table:table-cell office:value-type="string">{paragraphs(cell)}</table:table-cell>'
            for cell in row
        )
        for row in table
    ]
    content = (Path(__file__).parents[1] / "data" / "open-document.xml").read_text("utf-8")
    head = content[content.index("<office:document-content") :].partition(">")[0]
    rows = [f"<table:table-row>{row}</table:table-row>" for row in rows]
    sheet = f'<table:table table:name="1">{"".join(rows)}</table:table>'
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("content.xml", f"{head}>{body}</office:document-content>")
    return file.getvalue()


def paragraphs(cell: str) -> str:
    return "".join(f"<text:p>{escape(line)}</text:p>" for line in cell.split("\n"))


@pytest.mark.process
@pytest.mark.parametrize(
    ("plural", "style"),
    [*(("leads", style) for style in STYLES), *((plural, STYLES[-1]) for plural in NEW)],
)
def test_values_of_all_types_come_back_from_a_file(api, plural, style):
    path, custom = add_full(api, plural)
    data = export(api, plural, style if style != "ods" else "for=people").data
    data = open_document(csv_rows(data)) if style == "ods" else data
    query = f"?{style}" if style == "dialect=excel" else ""
    answer = report(api, send(api, plural, data, query))
    assert answer["unchanged"] == len(api.read(f"/{plural}"))
    api.patch(path, {"custom": None})
    result = report(api, send(api, plural, data, query))
    assert (result["updated"], result["errors"]) == (1, [])
    assert api.read(path)["custom"] == custom


def test_a_file_for_people_says_what_they_call_fields_and_values(api):
    add_full(api, "leads")
    header, row = csv_rows(export(api, "leads", "for=people&language=uk").data)
    cells = {name[4:]: cell for name, cell in zip(header, row, strict=True) if name[:3] == "Own"}
    assert cells == {
        "text": "дуб",
        "long_text": "перше\nдруге",
        "number": "-12,5",
        "money": "99,90",
        "date": "01.12.2026",
        "flag": "Так",
        "choice": "Дуб, світлий",
        "choices": '"Дуб, світлий",Ясен',
        "url": "https://example.com/a",
        "user": "olena@acme.example",
        "client": "Клієнт",
    }


def test_a_reader_without_the_right_sees_the_ids_of_users_and_clients(crm, api):
    add_full(api, "leads")
    reader = Api(crm, "acme", key_for(crm, "acme", "leads:read"))
    (row,) = exported(reader, "leads")
    assert (row["custom.user"], row["custom.client"]) == ("1", "1")


def test_hidden_fields_are_no_columns_and_values_stay_when_a_file_lacks_a_column(api):
    path, custom = add_full(api, "leads")
    fields = {field["key"]: field["id"] for field in api.read("/fields?resource=leads")}
    api.post(f"/fields/{fields['text']}/retire")
    assert "custom.text" not in exported(api, "leads")[0]
    answer = send(api, "leads", "id,custom.text\n1,сосна\n")
    assert faults(answer)[0][1] == "unknown_column"
    assert said(send(api, "leads", "id,custom.date\n1,2027-01-02\n")) == (0, 1, 0)
    api.post(f"/fields/{fields['text']}/restore")
    assert api.read(path)["custom"] == {**custom, "date": "2027-01-02"}


def test_an_export_is_sorted_by_an_own_number(api):
    api.create("/fields", **BUDGET)
    for budget in (7, None, 100, 9):
        api.create("/leads", **NEW["leads"], custom={"budget": budget})
    for sort, ids in (("custom.budget", "1432"), ("-custom.budget", "3412")):
        rows = exported(api, "leads", f"?sort={sort}")
        assert [row["id"] for row in rows] == [*ids], sort
    rows = exported(api, "leads", "?sort=-custom.budget&custom.budget_from=9")
    assert [row["custom.budget"] for row in rows] == ["100", "9"]


# Files of other programs


@pytest.mark.parametrize("header", ["own CHOICE", "choice", "custom.choice"])
def test_a_header_that_is_a_label_or_a_key_is_guessed(api, ivan, header):
    add_fields(api, "leads", "choice")
    data = f"Ім'я,Телефон,{header}\nОлена,0501112233,ясен\n"
    assert guessed(api, "leads", data)[header] == "custom.choice"
    columns = {one["field"]: one["aliases"] for one in api.read("/leads/import/columns")["data"]}
    assert columns["custom.choice"] == ["own choice", "custom choice", "choice"]
    assert guessed(ivan, "leads", data)[header] is None  # fields of another tenant
    assert said(load(api, "leads", data)) == (1, 0, 0)
    assert api.read("/leads")[0]["custom"] == {"choice": "ash"}


@pytest.mark.parametrize(
    ("type", "cell", "value"),
    [
        ("number", "-1 250,5", -1250.5),
        ("money", "1 250,50 грн", 1250.5),
        ("date", "31.12.2026", "2026-12-31"),
        ("flag", "так", True),
        ("choice", "ДУБ, СВІТЛИЙ", "oak"),
        ("choices", "ясен, oak", ["oak", "ash"]),
        ("user", "Olena@acme.example", "1"),
        ("client", "КЛІЄНТ", "1"),
        ("number", "дванадцять", "invalid_number"),
        ("choice", "сосна", "invalid_choice"),
        ("choices", "ясен, сосна", "invalid_choice"),
        ("url", "example.com", "invalid_url"),
        ("user", "Хтось", "not_found"),
        ("client", "Хтось", "not_found"),
    ],
)
def test_a_cell_is_read_as_people_write_it(api, type, cell, value):
    api.create("/clients", name="Клієнт")
    data = f'name,phone,price,x\nОлена,0501112233,5,"{cell}"\n'
    for plural, second in (("leads", "phone"), ("products", "sku")):
        add_fields(api, plural, type)
        names = {"name": "name", "phone": second, "x": f"custom.{type}"}
        names |= {"price": "price"} if plural == "products" else {}
        answer = load(api, plural, data, names)
        if str(value).startswith(("invalid_", "not_")):
            assert errors(api, answer) == [(2, f"custom.{type}", value)]
        else:
            assert api.read(f"/{plural}")[0]["custom"] == {type: value}


def test_nobody_is_created_by_a_column_of_users(crm, api):
    add_fields(api, "leads", "user")
    names = {"n": "name", "p": "phone", "u": "custom.user"}
    data = "n,p,u\nОлена,0501112233,Хтось\n"
    answer = load(api, "leads", data, names, unknown_references="create")
    assert errors(api, answer) == [(2, "custom.user", "not_found")]
    assert said(load(api, "leads", data, names, unknown_references="skip")) == (1, 0, 0)


def test_empty_cells_clear_values_if_told_to(api):
    add_fields(api, "products", "text", "number")
    api.create("/products", **NEW["products"], custom={"text": "a", "number": 1})
    data, names = "sku,n,t\n1,Дошка,\n", {"sku": "sku", "n": "name", "t": "custom.text"}
    assert said(load(api, "products", data, names)) == (0, 0, 1)
    assert said(load(api, "products", data, names, on_empty="clear")) == (0, 1, 0)
    assert api.read("/products")[0]["custom"] == {"number": 1}


def test_a_mapping_to_a_field_that_has_gone_says_so(api):
    answer = load(api, "leads", "n,p,w\nОлена,0501112233,дуб\n", {"n": "name", "w": "custom.wod"})
    assert faults(answer) == [("/mapping/w", "unknown_field")]


# Fields that an import adds


PEOPLE = "Ім'я,Телефон,Порода,Бюджет\nОлена,0501112233,Дуб,100\nІван,0501112234,дуб,1 250,50\n"
PEOPLE = PEOPLE.replace("1 250,50", '"1 250,50"')
TO_NEW = {"Ім'я": "name", "Телефон": "phone", "Порода": {"new_field": {"type": "choice"}}}
TO_NEW |= {"Бюджет": {"new_field": {"key": "sum", "label": "Сума"}}}


def test_an_import_adds_fields_and_its_undo_takes_them_away(api):
    trial = post(api, "/leads/import?dry_run=true", PEOPLE, mapping=json.dumps(TO_NEW))
    assert said(trial) == (2, 0, 0)
    assert api.read("/fields") == []
    assert said(load(api, "leads", PEOPLE, TO_NEW)) == (2, 0, 0)
    fields = [(field["key"], field["label"], field["type"]) for field in api.read("/fields")]
    assert fields == [("poroda", "Порода", "choice"), ("sum", "Сума", "money")]
    values = [lead["custom"] for lead in api.read("/leads?sort=id")]
    assert values == [{"poroda": "dub", "sum": 100}, {"poroda": "dub", "sum": 1250.5}]
    assert said(load(api, "leads", PEOPLE, TO_NEW)) == (2, 0, 0)
    assert len(api.read("/fields")) == 2  # those that are there
    assert api.post("/batches/1/undo").json["kept"] == 2
    assert len(api.read("/fields")) == 2  # the second import has values of them


def test_an_import_that_was_undone_adds_its_fields_again(api):
    load(api, "leads", PEOPLE, TO_NEW)
    assert api.post("/batches/1/undo").json == {"status": "ok", "reversed": 4, "kept": 0}
    assert faults(load(api, "leads", PEOPLE, TO_NEW | {"Порода": "custom.poroda"}))
    load(api, "leads", PEOPLE, TO_NEW)
    assert {lead["custom"]["poroda"] for lead in api.read("/leads")} == {"dub"}
    api.post("/batches/2/undo")
    load(api, "leads", PEOPLE, TO_NEW | {"Порода": {"new_field": {"type": "text"}}})
    assert api.read("/leads?sort=id")[0]["custom"] == {"poroda_2": "Дуб", "sum": 100}


def test_a_field_that_is_added_again_needs_room_to_filter(api):
    to_new = TO_NEW | {"Порода": {"new_field": {"type": "text", "filtered": True}}}
    load(api, "leads", PEOPLE, to_new)
    api.post("/batches/1/undo")
    for number in range(10):
        label = f"Field {number}"
        api.create("/fields", resource="leads", label=label, type="text", filtered=True)
    assert load(api, "leads", PEOPLE, to_new).json["code"] == "too_many_fields"


def test_a_file_says_options_by_keys_to_programs_and_by_labels_to_people(api):
    options = [{"key": "oak", "label": "Ash"}, {"key": "ash", "label": "Oak"}]
    api.create("/fields", resource="leads", key="x", label="X", type="choice", options=options)
    api.create("/leads", name="Олена", phone="+380501112233", custom={"x": "oak"})
    for style in ("", "for=people"):
        assert said(post(api, "/leads/import", export(api, "leads", style).data)) == (0, 0, 1)


def test_a_field_that_is_added_again_finds_what_was_in_the_trash_and_shows_no_deleted_values(api):
    size = {"key": "size", "type": "text", "filtered": True}
    to_new = TO_NEW | {"Порода": {"new_field": size}}
    for batch in ("1", "2"):
        load(api, "leads", PEOPLE, to_new)
        api.post(f"/batches/{batch}/undo")
    load(api, "leads", PEOPLE, to_new)
    api.post("/leads/1/restore")
    assert len(api.read("/leads?custom.size=Дуб")) == 2
    (id, _) = (field["id"] for field in api.read("/fields"))
    api.post(f"/fields/{id}/retire")
    api.delete(f"/fields/{id}")
    assert load(api, "leads", PEOPLE, to_new).json["code"] == "duplicate_key"


def test_an_import_brings_no_values_of_a_deleted_field_back(api):
    id = api.create("/fields", resource="leads", key="poroda", label="Порода", type="text")
    api.create("/leads", name="Олена", phone="+380501112299", custom={"poroda": "ясен"})
    api.post(f"/fields/{id}/retire")
    batch_id = api.delete(f"/fields/{id}").json["batch_id"]
    load(api, "leads", PEOPLE, TO_NEW)
    assert [field["key"] for field in api.read("/fields")] == ["poroda_2", "sum"]
    assert api.post(f"/batches/{batch_id}/undo").json["reversed"] == 1


@pytest.mark.parametrize(
    ("type", "name", "cells"),
    [
        ("number", "Вага", ["1", "-2,5", "1 000"]),
        ("money", "Ціна, грн", ["1", "2.50"]),
        ("money", "Бюджет", ["100 грн"]),
        ("number", "Сума", ["-5"]),
        ("date", "Коли", ["31.12.2026", "01.02.2026", "2026-01-01"]),
        ("text", "Коли", ["31.12.2026 10:00"]),
        ("flag", "Є", ["так", "ні"]),
        ("url", "Сайт", ["https://example.com:80/a"]),
        ("text", "Артикул", ["0012", "0013"]),
        ("text", "Моб.", ["+380501112233"]),
        ("choice", "Порода", ["дуб", "ясен", "дуб", "ясен"]),
        ("text", "Порода", ["дуб", "ясен", "дуб"]),
        ("long_text", "Опис", ["a\nb"]),
        ("text", "Порожньо", []),
    ],
)
def test_the_type_of_a_new_field_is_guessed_by_its_cells(acme, type, name, cells):
    assert guess_type(name, cells) == type


def test_new_fields_need_the_right_to_write_them(crm, api):
    writer = Api(crm, "acme", key_for(crm, "acme", "leads:write,leads:read"))
    assert load(writer, "leads", PEOPLE, TO_NEW).status_code == 403
    assert api.read("/leads") == []


@pytest.mark.parametrize(
    ("definition", "code"),
    [({"type": "x"}, "invalid_choice"), ({"type": []}, "invalid_choice"), ("x", "invalid_type")],
)
def test_a_wrong_definition_is_told_at_its_column(api, definition, code):
    answer = load(api, "leads", PEOPLE, TO_NEW | {"Порода": {"new_field": definition}})
    ((pointer, told),) = faults(answer)
    assert (pointer.startswith("/mapping/Порода"), told) == (True, code)


@pytest.mark.process
@pytest.mark.parametrize("style", STYLES[-4:])
def test_labels_that_others_have_and_formulas_are_headers_too(api, style):
    for label in ("Телефон", "Телефон", "phone", "=1+1", "'x", "Source"):
        api.create(
            "/fields",
            resource="leads",
            key=f"f{len(api.read('/fields'))}",
            label=label,
            type="text",
        )
    custom = {f"f{n}": f"v{n}" for n in range(6)}
    id = api.create("/leads", **NEW["leads"], custom=custom)
    data = export(api, "leads", style).data
    api.patch(f"/leads/{id}", {"custom": None})
    assert report(api, send(api, "leads", data))["updated"] == 1
    assert api.read(f"/leads/{id}")["custom"] == custom
    if style.startswith("for="):
        assert not [name for name in csv_rows(data)[0] if name.startswith("=")]
