"""Undo of a batch: the tenant's files are as before, but for what somebody has changed since."""

from typing import Any

import pytest

from crm.errors import Gone
from crm.records import batches
from crm.records.batches import Batch
from crm.resources import notes
from crm.resources.batches import undo
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.products import record as products
from crm.resources.tasks import TASK_IN
from crm.resources.tasks import create as create_task
from crm.resources.trash import RECORDS
from crm.spreadsheets import Result
from crm.storage import chunks
from crm.storage.session import one_row, row, rows, transaction
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.csv_helpers import all_files, load, send
from tests.resources.refusals import conflict, refusal

DAY = 86_400
FILES = {
    "products": (
        "sku,name,price,category,active\n"
        "A,Стіл дубовий,2 500,Столи,ні\nB,,15,,\nC,Шафа,900,Шафи,так\n"
    ),
    "clients": (
        "external_id,name,phone,tags,assigned_to,contact_name,contact_phone,contact_is_primary\n"
        'C-1,ТОВ Ромашка плюс,0501112233,"опт, vip",Taras,Ігор,0671234567,\n'
        ",,,,,Марія,0671234568,так\n"
        "C-2,ФОП Коваль,0671234599,,,Петро,,\n"
    ),
    "deals": (
        "external_id,title,client_external_id,stage,amount,lost_reason,item_name,item_price\n"
        "D-1,Столи,C-1,Won,,,Стіл,300\nD-1,,,,,,Доставка,50\n"
        "D-2,Шафи,C-1,Lost,700,задорого,,\n"
        "D-3,Нова,C-1,Proposal,100,,Лампа,10\n"
        "D-4,Виграна колись,C-1,New,,,,\n"
    ),
    "leads": (
        "external_id,name,phone,status,tags,amount,deal_external_id\n"
        "L-1,Олена К.,0501112234,qualified,опт,15,\n"
        "L-2,Ігор,0501112235,converted,,,D-2\n"
        "L-3,Новий,0501112236,converted,,,D-1\n"
    ),
    "tasks": (
        "external_id,title,status,due_at,deal_external_id\n"
        "T-1,Подзвонити ще раз,done,2026-05-01T10:00:00Z,D-1\n"
        "T-2,Зустріч,open,,\n"
        "T-3,Лист,cancelled,,\nT-4,Новий,done,,\n"
    ),
}


@pytest.fixture
def acme(acme, clock):
    fill()
    clock.tick(3 * DAY)
    return acme


def fill() -> None:
    """Records of all resources, of which the files change some."""
    for sku in ("A", "B"):
        products.create({"sku": sku, "name": f"Товар {sku}", "price": 10_0000, "category": "Старі"})
    client = clients.create(
        {
            "name": "ТОВ Ромашка",
            "external_id": "C-1",
            "phone": "+380501112200",
            "tags": '["vip"]',
            "contacts": [{"name": "Ігор", "is_primary": 1}, {"name": "Марія", "comment": "їжак"}],
        }
    )
    for number, stage in ((1, 1), (2, 2), (4, 5)):
        values = {"title": f"Угода {number}", "client_id": client, "stage_id": stage}
        deal = deals.create({**values, "external_id": f"D-{number}", "amount": 50_0000})
        if number == 1:
            items.create_all(deal, [{"name": "Стіл", "price": 200_0000, "quantity": 3000}])
    for number, status in ((1, "new"), (2, "in_progress")):
        values = {"name": f"Лід {number}", "phone": f"+38050111220{number}", "status": status}
        leads.create({**values, "external_id": f"L-{number}"})
    for number, status in ((1, "in_progress"), (2, "done"), (3, "done")):
        create_task(TASK_IN.parse({"title": f"Справа {number}", "status": status})
                    | {"external_id": f"T-{number}"})  # fmt: skip


def batch_of(result: Result) -> Batch:
    assert result.batch_id is not None
    return Batch.find(result.batch_id)


@pytest.mark.parametrize("plural", FILES)
def test_an_import_and_its_undo_leave_the_files_as_they_were(acme, clock, plural):
    before = all_files()
    result = load(plural, FILES[plural], file_name="файл.csv")
    assert (result.rejected, result.errors) == (0, [])
    assert result.created and result.updated and all_files() != before
    clock.tick(DAY)
    batch = batch_of(result)
    assert (batch.kind, batch.noun, batch.note) == ("import", plural[:-1], "файл.csv")
    tried = undo.undo(batch.id, dry_run=True)
    assert undo.undo(batch.id)[:2] == tried[:2] == (batch.created + batch.updated, 0)
    assert all_files() == before
    assert (Batch.find(batch.id).state, tried.listed) == ("undone", [])
    # Nothing is left over that files do not show.
    assert not rows("SELECT * FROM deal_item WHERE deal_id NOT IN (SELECT id FROM deal)")
    assert refusal(undo.undo, batch.id) == "already_undone"


def test_what_was_changed_since_or_is_refused_is_kept_with_the_reason(acme):
    result = load(
        "clients",
        "name,phone\nПерший,0671234501\nДругий,0671234502\nТретій,0671234503\nЧетвертий,0671234504\n",
    )
    ids = [id for (id,) in rows("SELECT id FROM client ORDER BY id DESC LIMIT 4")][::-1]
    clients.update(ids[0], {"comment": "дзвонити зранку"})
    clients.delete(ids[1])
    deals.create({"client_id": ids[2]})
    tried = undo.undo(result.batch_id, dry_run=True)
    assert one_row("SELECT count(*) FROM batch_record WHERE outcome IS NOT NULL") == (0,)
    reasons = [("client", ids[0], "changed"), ("client", ids[1], "gone")]
    reasons.append(("client", ids[2], "client_has_open_deals"))
    assert sorted(tried.listed) == reasons
    assert undo.undo(result.batch_id)[:2] == tried[:2] == (1, 3)
    assert undo.kept(result.batch_id) == reasons
    assert clients.Client.find(ids[0]) and clients.Client.find(ids[2])
    assert clients.Client.find_any(ids[3]).deleted_at
    batch = batch_of(result)
    assert (batch.reversed, batch.kept, batch.state) == (1, 3, "undone")


def add_note(noun: str, id: int) -> None:
    notes.create(noun, id, {"text": "домовилися"})


def add_task(noun: str, id: int) -> None:
    create_task({"title": "Подзвонити", f"{noun}_id": id})


def add_deal(noun: str, id: int) -> None:
    deals.create({f"{noun}_id": id, "status": "won"})


def add_item(noun: str, id: int) -> None:
    items.create_all(deals.create({}), [{f"{noun}_id": id}])


WORK = [(add_note, noun) for noun in ("leads", "clients", "deals")]
WORK += [(add_deal, "clients"), (add_item, "products")]
WORK += [(add_task, noun) for noun in ("leads", "clients", "deals")]


@pytest.mark.parametrize(("add", "plural"), WORK)
def test_what_was_worked_with_since_is_kept(acme, add, plural):
    result = load(plural, NEW_FILES[plural])
    noun = plural[:-1]
    ids = [id for (id,) in rows(f"SELECT id FROM {noun} ORDER BY id DESC LIMIT 2")]
    add(noun, ids[0])
    tried = undo.undo(result.batch_id, dry_run=True)
    assert tried == (1, 1, [(noun, ids[0], "in_use")])
    assert undo.undo(result.batch_id)[:2] == (1, 1)
    assert undo.kept(result.batch_id) == tried.listed
    assert [bool(one.deleted_at) for one in map(RECORDS[plural].find_any, ids)] == [False, True]


NEW_FILES = {
    "leads": "name,phone\nПерший,0671234501\nДругий,0671234502\n",
    "clients": "name\nПерший\nДругий\n",
    "deals": "title\nПерша\nДруга\n",
    "products": "sku,name,price\nX,Стіл,1\nY,Шафа,2\n",
}


def test_what_was_there_before_a_restore_does_not_keep_the_record(acme, clock):
    id = leads.create({"name": "Олена", "phone": "+380671234567"})
    add_note("lead", id)
    add_task("lead", id)
    leads.delete(id)
    clock.tick(DAY)
    leads.restore(id)
    restored = one_row("SELECT max(id) FROM batch")[0]
    assert undo.undo(restored, dry_run=True)[:2] == (1, 0)
    add_note("lead", id)
    assert undo.undo(restored)[:2] == (0, 1)


@pytest.mark.parametrize("seconds", [0, chunks.CHUNK_SECONDS])
@pytest.mark.parametrize("worked_with", [False, True])
def test_what_a_batch_made_together_is_reversed_or_kept_together(
    acme, monkeypatch, seconds, worked_with
):
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", seconds)
    with transaction(), batches.batch("bulk", "lead") as batch:
        id = leads.create({"name": "Олена", "phone": "+380671234567"})
        lead, _ = conversion.convert(id, {})
        deals.update(lead.deal_id, {"status": "won"})
    reasons = []
    if worked_with:
        add_note("deal", lead.deal_id)
        ids = {"deal": lead.deal_id, "client": lead.client_id, "lead": id}
        reasons = [(noun, id, "in_use") for noun, id in ids.items()]
    tried = undo.undo(batch.id, dry_run=True)
    assert tried == (3 - len(reasons), len(reasons), reasons)
    assert undo.undo(batch.id)[:2] == tried[:2]
    assert undo.kept(batch.id) == reasons[::-1]


def test_each_kind_of_change_is_reversed(acme):
    ids = [leads.create({"name": f"Л{n}", "phone": "+380671234567"}) for n in range(3)]
    leads.delete(ids[0])
    before = all_files()
    with transaction(), batches.batch("bulk", "lead", "усе") as batch:
        leads.restore(ids[0])
        leads.Lead.find(ids[1]).update_fields({"name": "Інше", "status": "qualified"})
        leads.Lead.find(ids[1]).update_fields({"name": "Ще інше"})
        leads.delete(ids[2])
    assert undo.undo(batch.id)[:2] == (3, 0)
    assert all_files() == before


SECOND_FILES = {
    "products": "sku,name,price\nA,Стіл інший,3000\nC,Шафа,950\nE,Новий,1\n",
    "clients": "external_id,name,contact_name\nC-1,ТОВ Ромашка плюс плюс,Олег\nC-2,ФОП К.,\n",
    "deals": "external_id,title,stage,item_name,item_price\nD-1,Столи 2,New,Стіл,310\n",
    "leads": "external_id,name,phone,tags\nL-1,Олена Кова,0501112239,роздріб\n",
    "tasks": "external_id,title,status\nT-1,Не дзвонити,open\nT-5,Ще,open\n",
}


@pytest.mark.parametrize("plural", FILES)
def test_batches_are_undone_one_after_the_other_the_last_first(acme, plural):
    before = all_files()
    first = load(plural, FILES[plural])
    between = all_files()
    second = load(plural, SECOND_FILES[plural])
    assert second.updated and all_files() != between
    assert undo.undo(second.batch_id).kept == 0
    assert all_files() == between
    assert undo.undo(first.batch_id, dry_run=True).kept == 0
    assert undo.undo(first.batch_id).kept == 0
    assert all_files() == before


def test_what_was_changed_between_two_batches_is_kept_by_the_undo_of_the_first(acme):
    first = load("leads", FILES["leads"])
    lead = leads.Lead.first("external_id = 'L-1'")
    with transaction():
        lead.update_fields({"comment": "передзвонити"})
    second = load("leads", SECOND_FILES["leads"])
    assert undo.undo(second.batch_id)[:2] == (1, 0)
    assert undo.undo(first.batch_id).kept == 1
    assert undo.kept(first.batch_id) == [("lead", lead.id, "changed")]
    assert leads.Lead.find(lead.id).comment == "передзвонити"


def test_the_undo_of_another_owner_of_a_number_is_refused(acme):
    result = load("products", "sku,name,price\nA,Інший,7\n")
    with transaction(), batches.batch("bulk", "product") as batch:
        product = products.Product.first("sku = 'A'")
        product.update_fields({"sku": "A-2"})
    products.create({"sku": "A", "name": "Новий", "price": 1})
    assert undo.undo(batch.id)[:2] == (0, 1)
    assert undo.kept(batch.id) == [("product", product.id, "duplicate_sku")]
    assert undo.undo(result.batch_id)[:2] == (0, 1)
    assert undo.kept(result.batch_id) == [("product", product.id, "changed")]


def test_undo_sends_the_events_of_its_verbs_and_one_for_products(acme, api: Api):
    sent = {}
    for plural, text in FILES.items():
        result = load(plural, text)
        count = len(api.events())
        undo.undo(result.batch_id)
        events = api.events()[count:]
        sent[plural] = [event["type"] for event in events]
        if plural == "products":
            body, report = events[0]["data"]["import"], str(result.import_id)
    assert sent["products"] == ["product.imported"]
    assert body == {"id": report, "created": 0, "updated": 3, "skipped": 0}
    assert sent["clients"] == ["client.updated"]
    assert sent["leads"] == []  # a lead has no event of its changes
    # A task that was done before is done again.
    assert sent["tasks"] == ["task.completed", "task.completed"]
    # The last deal was won before, the first has its items again.
    moved = ["deal.stage_changed"]
    assert sent["deals"] == [*moved, "deal.won", *moved, *moved, "deal.items_changed"]
    won = [event for event in api.events() if event["type"] == "deal.won"][-1]
    assert won["data"]["deal"]["closed_at"] == "2026-03-02T09:00:00Z"


def test_the_history_of_a_deal_has_the_undo_at_its_own_time(acme, clock):
    result = load("deals", FILES["deals"])
    clock.tick(DAY)
    undo.undo(result.batch_id)
    moves = rows(
        "SELECT to_name, moved_at FROM stage_move JOIN deal ON deal.id = deal_id"
        " WHERE external_id = 'D-1' ORDER BY stage_move.id"
    )
    assert [name for name, _ in moves] == ["New", "Won", "New"]
    assert [moment[8:10] for _, moment in moves] == ["02", "05", "06"]


def test_after_30_days_a_batch_is_too_old_and_its_records_are_swept(acme, clock, api):
    result = load("leads", FILES["leads"])
    with transaction():
        assert batches.delete_expired(100) == 0
    assert row("SELECT 1 FROM batch_record")
    clock.tick(30 * DAY + 1)
    with pytest.raises(Gone):
        undo.undo(result.batch_id)
    assert api.post(f"/batches/{result.batch_id}/undo").json["code"] == "too_old"
    assert api.post(f"/batches/{result.batch_id}/undo").status_code == 410
    with transaction():
        assert batches.delete_expired(2) == 2
        assert batches.delete_expired(100)
    assert not row("SELECT 1 FROM batch_record") and batch_of(result).created == 1


@pytest.mark.parametrize("step", range(1, 8))
def test_an_interrupted_undo_goes_on_where_it_was(acme, monkeypatch, step):
    before = all_files()
    result = load("deals", FILES["deals"])
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0)
    calls, execute_many = [], undo.execute_many

    def fail(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == step:
            raise ZeroDivisionError
        execute_many(*arguments)

    monkeypatch.setattr(undo, "execute_many", fail)
    if step <= 5:  # four records, and one look that finds no more
        with pytest.raises(ZeroDivisionError):
            undo.undo(result.batch_id)
        batch = batch_of(result)
        assert (batch.state, batch.reversed, batch.lease_until) == ("failed", step - 1, None)
    assert undo.undo(result.batch_id)[:2] == (4, 0)
    assert all_files() == before


# The API


def test_batches_are_listed_and_undone_by_the_api(api, taras, reader):
    answer = send(api, "leads", FILES["leads"].replace(",converted,,,D-2", ",new,,,").replace(
        ",converted,,,D-1", ",new,,,"))  # fmt: skip
    report = api.read(answer.headers["Location"].partition("/api/v1")[2])
    id = report["batch_id"]
    (batch,) = api.read("/batches")
    assert batch == api.read(f"/batches/{id}") == reader.read(f"/batches/{id}")
    assert (batch["noun"], batch["kind"], batch["state"]) == ("lead", "import", "done")
    assert (batch["created"], batch["user_id"], batch["note"]) == (3, str(OLENA), "leads.csv")
    assert api.read("/batches?resource=leads&kind=import") == [batch]
    assert api.read("/batches?resource=deals") == api.read("/batches?kind=merge") == []
    assert api.get("/batches?resource=users").status_code == 422
    tried = api.post(f"/batches/{id}/undo?dry_run=true")
    assert tried.json == {"status": "ok", "reversed": 3, "kept": 0}
    assert len(api.read("/leads")) == 3
    assert api.post(f"/batches/{id}/undo").json == tried.json
    assert api.read("/leads") == []
    assert conflict(api.post(f"/batches/{id}/undo")) == "already_undone"
    assert api.read(f"/batches/{id}")["undone_at"]


def test_only_the_maker_or_an_owner_may_undo(api, taras, reader, form, ivan):
    send(api, "leads", "name,phone\nА,0671234567\n")
    send(taras, "leads", "name,phone\nБ,0671234567\n")
    (his, hers) = api.read("/batches")
    assert (his["user_id"], hers["user_id"]) == (str(TARAS), str(OLENA))
    refused = taras.post(f"/batches/{hers['id']}/undo")
    assert (refused.status_code, refused.json["code"]) == (403, "not_your_batch")
    assert reader.post(f"/batches/{his['id']}/undo").json["code"] == "missing_scope"
    assert form.get("/batches").status_code == form.get("/batches/1").status_code == 403
    assert ivan.get(f"/batches/{his['id']}").status_code == 404
    assert ivan.read("/batches") == []
    assert taras.post(f"/batches/{his['id']}/undo").json["reversed"] == 1
    assert api.post(f"/batches/{hers['id']}/undo").json["reversed"] == 1


def test_a_key_sees_the_batches_of_what_it_may_read(crm, api):
    send(api, "leads", "name,phone\nА,0671234567\n")
    send(api, "products", "sku,name,price\nА,Стіл,1\n")
    shop = Api(crm, "acme", key_for(crm, "acme", "products:read,products:write"))
    (batch,) = shop.read("/batches")
    (other,) = (b for b in api.read("/batches") if b["noun"] == "lead")
    assert batch["noun"] == "product"
    for refused in (shop.get(f"/batches/{other['id']}"), shop.post(f"/batches/{other['id']}/undo")):
        assert (refused.status_code, refused.json["code"]) == (403, "missing_scope")
    assert shop.get(f"/batches/{other['id']}/kept.csv").status_code == 403


def test_kept_records_are_a_file(api):
    send(api, "leads", "name,phone\nА,0671234567\nБ,0671234568\n")
    (second, first) = api.read("/leads")
    api.patch(f"/leads/{first['id']}", {"comment": "так"})
    (batch,) = api.read("/batches")
    answer = api.post(f"/batches/{batch['id']}/undo").json
    assert (answer["reversed"], answer["kept"]) == (1, 1)
    kept = api.get(f"/batches/{batch['id']}/kept.csv")
    assert kept.text == f"noun,id,why\r\nlead,{first['id']},changed\r\n"
    assert "kept.csv" in kept.headers["Content-Disposition"]
