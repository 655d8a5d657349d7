"""Views: the row function shows every record as its fields do, in their order."""

import importlib
import json
import pkgutil
import random
import sys
from copy import copy
from typing import Any

import pytest

import crm.resources
from crm import values
from crm.json import dumps, loads
from crm.papers.requisites import ObjectOfFields
from crm.records import fields
from crm.records.custom.values import CustomValues
from crm.records.finished_json import record_json
from crm.records.nested import Nested, ValueList
from crm.records.views import RecordView
from crm.resources.custom_fields.record import Options
from crm.resources.leads.record import LEAD
from crm.storage.session import rows
from tests.cases import loop_over
from tests.conftest import Api

for module in pkgutil.walk_packages(crm.resources.__path__, "crm.resources."):
    importlib.import_module(module.name)

TEXTS = ["a", "Їжак", 'quote " back \\', "a\nb", "\u2028", "😀", "x" * 300, "<&>", "0"]


def all_views() -> dict[str, RecordView]:
    """Every view of the resources, also with everything that `expand` adds."""
    results = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("crm.resources", "crm.spreadsheets")):
            for attribute, view in vars(module).items():
                if isinstance(view, RecordView):
                    results[f"{view.schema.__class__.__name__} {attribute}"] = view
                    whole = view.expanded(view.schema.fields)
                    results[f"{view.schema.__class__.__name__} {attribute} expanded"] = whole
    return results


VIEWS = all_views()
each_view = loop_over("view", VIEWS.values())


def stored(field: Any, chance: random.Random) -> Any:
    """A value as the column of a field may keep it."""
    if field.allow_none and chance.random() < 0.3:
        return None
    if isinstance(field, Nested):
        inner = [
            {name: stored(item, chance) for name, item in field.schema.fields.items()}
            for _ in range(chance.randint(0, 3) if field.many else 1)
        ]
        return json.dumps(inner if field.many else inner[0])
    if (
        isinstance(field, fields.Boolean) and type(field) is not fields.Boolean
    ):  # told from a moment
        return chance.choice((None, "1900-01-01T00:00:00Z", "9999-12-31T23:59:59Z"))
    if isinstance(field, fields.Boolean):
        return chance.choice((0, 1))
    if isinstance(field, fields.Tags):
        return chance.choice((None, "", "[]", '["vip","Київ"]', '["a\\"b"]'))
    if isinstance(field, ValueList):
        return chance.choice(('["lead.created"]', '["deal.won","deal.lost"]'))
    if isinstance(field, fields.Extra):
        return chance.choice(
            (None, "{}", '{"a":1.10,"b":[1E+20,null,{"x":"ї"}]}', '{"n":9007199254740993}')
        )
    if isinstance(field, ObjectOfFields):
        return chance.choice((None, "{}", '{"legal_name":"ТОВ «Їжак»","iban":null}'))
    if isinstance(field, CustomValues):
        return chance.choice((None, '{"wood":"oak","size":1.5,"used":true}'))
    if isinstance(field, Options):
        return chance.choice((None, '[{"key":"oak","label":"Дуб","archived":false}]'))
    if isinstance(field, fields.Number):
        most = values.AMOUNT_MAX if isinstance(field, fields.Amount) else 999_999_999
        return chance.choice(
            (0, 1, 100, 9_999, 10_000, 12_505, 12_500_000, most, chance.randrange(most))
        )
    if isinstance(field, fields.Id):
        return chance.choice((1, 12, 2**53 + 1, 2**63 - 1))
    if isinstance(field, fields.Integer):
        return chance.choice((field.minimum, field.maximum, field.minimum + 1))
    if isinstance(field, fields.Choice):
        return chance.choice(field.choices)
    if isinstance(field, fields.DateTime):
        return chance.choice(
            ("1900-01-01T00:00:00Z", "2026-03-02T09:00:00Z", "9999-12-31T23:59:59Z")
        )
    if isinstance(field, fields.Date):
        return "2026-03-02"
    if isinstance(field, fields.Currency):
        return "UAH"
    return chance.choice(TEXTS)


def selected(view: RecordView, row: dict[str, Any]) -> list[Any]:
    """Stored values as the SELECT gives them: ids as texts."""
    return [
        value if value is None or not isinstance(field, fields.Id) else str(value)
        for field, value in zip(view.fields.values(), row.values(), strict=True)
    ]


def test_every_operation_shows_a_known_shape(crm):
    known = {id(view) for view in VIEWS.values()}
    seen = 0
    for name, operation in crm.api.operations.items():
        if operation.response_view is not None:
            assert id(operation.response_view) in known, name
            seen += 1
    assert seen >= 10 and len(VIEWS) >= 20


@pytest.mark.files  # only SQLite makes them
@each_view
def test_json_made_by_sqlite_has_the_bytes_of_dumps(crm, acme, view):
    chance = random.Random(view.table)
    shown = {name: copy(field) for name, field in view.fields.items()}
    for field in shown.values():
        field.column = ""
    sql = record_json(shown, "given")
    assert bool(sql) == bool(view.json)
    names = ", ".join(f"? AS {name}" for name in shown)
    for _ in range(60 if sql else 0):
        row = {name: stored(field, chance) for name, field in shown.items()}
        row |= {  # as the rules write them
            name: row[name] and dumps(loads(row[name])).decode()
            for name, field in shown.items()
            if isinstance(field, fields.Collection)
        }
        ((made,),) = rows(f"SELECT {sql} FROM (SELECT {names}) AS given", [*row.values()])
        assert made == dumps(view.of_row(selected(view, row)))


@each_view
def test_show_equals_the_row_function_for_plain_columns(acme, view):
    chance = random.Random(view.table)
    for _ in range(10):
        row = {name: stored(field, chance) for name, field in view.fields.items()}
        shown = view.of_row(selected(view, row))
        assert list(shown) == list(view.fields)
        assert view.of_rows([selected(view, row)]) == [shown] == [view.show(row)]


@each_view
def test_the_select_can_be_asked(acme, view):
    for live in ("TRUE", view.live):
        records = view.every(f"{live} LIMIT 3")
        for shown in records:
            assert dumps(shown)
    for raw in rows(f"{view.select} LIMIT 3"):
        row = dict(zip(view.fields, raw, strict=True))
        assert dumps(view.of_row(raw)) == dumps(view.show(row))


@pytest.fixture
def crm(module_app):
    return module_app


def test_one_and_every_and_a_list_show_the_same(crm, furnished):
    api = Api(crm, "acme", furnished[1]["olena"])
    id = api.create(
        "/leads", name="Їжак", phone="+380671234567", amount=0.01, tags=["vip"], extra={"n": 1.10}
    )
    with crm.tenants.session("acme"):
        one, (every,) = LEAD.one(id), LEAD.every("id = ?", int(id))
    assert one == every
    answer = api.get(f"/leads/{id}")
    assert answer.data == dumps(one)
    (listed,) = api.read(f"/leads?ids={id}")
    assert listed == answer.json
    assert api.get(f"/leads?ids={id}").data == b'{"data":[%s],"meta":{"next_cursor":null}}' % (
        answer.data
    )
    (event,) = api.events()
    assert event["data"]["lead"] == answer.json
