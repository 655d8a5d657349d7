"""Totals of lists, which are counted from the total before while only new records come."""

import random
from contextlib import closing

import pytest

from crm.storage.sqlite.connection import FileConnection, connect

TABLES = {
    "leads": ("lead", {"phone": "+380501234567"}, "name"),
    "clients": ("client", {}, "name"),
    "deals": ("deal", {}, "title"),
    "products": ("product", {"price": 1}, "name"),
    "tasks": ("task", {}, "title"),
}
FILTERS = ("", "&assigned_to=2", "&updated_since=2026-03-01T00:00:00Z&include_deleted=true")


def total(api, plural: str, filters: str = "") -> int:
    answer = api.get(f"/{plural}?limit=1&total=true{filters}")
    assert answer.status_code == 200, answer.text
    return answer.json["meta"]["total"]


@pytest.mark.parametrize("plural", TABLES)
def test_totals_are_right_after_each_kind_of_change(api, plural):
    table, more, name = TABLES[plural]
    filters = [filter for filter in FILTERS if "assigned" not in filter or plural != "products"]
    dice = random.Random(plural)
    ids: list[str] = []

    def create() -> None:
        user = {} if plural == "products" else {"assigned_to": dice.choice(("1", "2"))}
        ids.append(api.create(f"/{plural}", **more, **user, **{name: f"Запис {len(ids)}"}))

    def change() -> None:
        user = {name: "Інший"} if plural == "products" else {"assigned_to": dice.choice("12")}
        assert api.patch(f"/{plural}/{dice.choice(ids)}", user).status_code in (200, 404)

    def delete() -> None:
        assert api.delete(f"/{plural}/{dice.choice(ids)}").status_code in (204, 404)

    def restore() -> None:
        assert api.post(f"/{plural}/{dice.choice(ids)}/restore").status_code in (200, 404, 409)

    create()
    for _ in range(40):
        dice.choices((create, change, delete, restore), (5, 1, 1, 1))[0]()
        for filters_of_list in filters:
            records = api.read(f"/{plural}?limit=200{filters_of_list}")
            assert total(api, plural, filters_of_list) == len(records)


@pytest.mark.files
def test_new_records_alone_are_counted_until_another_changes(crm, api, monkeypatch):
    sqls: list[str] = []
    execute = FileConnection.execute

    def listen(self, sql, *params):
        sqls.append(sql)
        return execute(self, sql, *params)

    api.create("/leads", name="Ivan", phone="+380501234567")
    total(api, "leads", "&status=new")
    monkeypatch.setattr(FileConnection, "execute", listen)
    api.create("/leads", name="Petro", phone="+380501234567")
    assert total(api, "leads", "&status=new") == 2
    (counting,) = (sql for sql in sqls if "row_changes" in sql)
    assert "AND id > ?" in counting
    with crm.tenants.session("acme") as session:
        path = session.source.path
    with closing(connect(path)) as other:  # any program
        other.execute("UPDATE lead SET status = 'qualified' WHERE name = 'Ivan'")
    assert total(api, "leads", "&status=new") == 1
    with closing(connect(path)) as other:
        other.execute("DELETE FROM lead WHERE name = 'Petro'")
    assert total(api, "leads", "&status=new") == 0
