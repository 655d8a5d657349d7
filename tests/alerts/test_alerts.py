"""Who is told of what: the alerts that changes leave, and how they are seen."""

import re

from crm.access import api_keys
from crm.alerts import alerts
from crm.outbox.subscriptions import Webhook
from crm.resources import tenant, users
from crm.resources.leads import record as leads
from crm.resources.leads.csv_columns import LEADS
from crm.resources.products.csv_columns import PRODUCTS
from crm.resources.tasks import TASK_IN
from crm.resources.tasks import create as create_task
from crm.spreadsheets import import_file, import_run, read_file
from crm.storage import sweeps
from crm.storage.session import current_session, rows, transaction
from tests.conftest import OLENA, TARAS

LEAD = {"name": "Марія", "phone": "0501234567"}
DAY = 86_400


def told(crm, label="acme"):
    """(user, kind, record) of every alert there is."""
    with crm.tenants.session(label):
        return rows("SELECT user_id, kind, record_id FROM alert ORDER BY id")


def test_a_new_lead_is_told_to_all_who_can_answer_it_but_viewers(crm, form, viewer):
    id = int(form.create("/leads", **LEAD))
    # The form's key acts for Olena, who has not filled it in.
    assert told(crm) == [(OLENA, "lead_new", id), (TARAS, "lead_new", id)]
    assert told(crm, "globex") == []


def test_a_lead_for_somebody_is_told_to_them_alone_and_never_to_who_acts(crm, api, manager):
    api.create("/leads", **LEAD, assigned_to=str(TARAS))
    assert told(crm) == [(TARAS, "lead_new", 1)]
    manager.sends("/leads", {**LEAD, "assigned_to": ""})
    assert told(crm)[1:] == [(OLENA, "lead_new", 2)]
    api.create("/leads", **LEAD, created_at="2026-01-01T10:00:00Z")  # history that moves in
    assert len(told(crm)) == 2


def test_who_becomes_responsible_is_told_whatever_the_record_is(crm, api):
    lead, client, deal, task = (
        api.create(f"/{noun}", **fields)
        for noun, fields in {
            "leads": {**LEAD, "created_at": "2026-01-01T10:00:00Z"},
            "clients": {"name": "ТОВ Ромашка"},
            "deals": {"title": "Кухня"},
            "tasks": {"title": "Дзвінок"},
        }.items()
    )
    assert told(crm) == []  # by default a deal and a task are the key's user's
    for path in (f"/leads/{lead}", f"/clients/{client}", f"/deals/{deal}", f"/tasks/{task}"):
        api.patch(path, {"assigned_to": str(TARAS)})
        api.patch(path, {"assigned_to": str(TARAS)})
    assert told(crm) == [(TARAS, "assigned", 1)] * 4
    for noun, name in {"clients": "name", "deals": "title", "tasks": "title"}.items():
        api.create(f"/{noun}", **{name: "Ще"}, assigned_to=str(TARAS))
    assert told(crm)[4:] == [(TARAS, "assigned", 2)] * 3


def test_who_is_named_in_a_note_is_told_once(crm, api, manager, viewer):
    api.create("/clients", name="ТОВ Ромашка")
    with crm.tenants.session("acme"):
        names = {id: name for id, name in users.names().items()}
    taras, olena = names[str(TARAS)], names[str(OLENA)]
    note = api.create("/clients/1/notes", text=f"пошта a@{taras}, @{taras}ко, @нікому")
    assert told(crm) == []
    path = f"/clients/1/notes/{note}"
    api.patch(path, {"text": f"@{taras.upper()}, глянь; @{olena.split()[0]} теж, @{taras}!"})
    assert sorted(told(crm)) == [(OLENA, "mentioned", 1), (TARAS, "mentioned", 1)]
    api.patch(path, {"text": f"@{taras}: зроблено"})
    manager.sends("/clients/1/notes", {"text": f"@{taras} — це я"})
    assert len(told(crm)) == 2


def test_alerts_of_a_record_end_when_it_is_opened_or_done(crm, api, clock, manager, olena):
    api.create("/leads", **LEAD)
    at, to_taras = "2026-03-02T09:10:00Z", {"assigned_to": str(TARAS)}
    for title in ("Дзвінок", "Лист"):
        api.create("/tasks", title=title, remind_at=at, **to_taras)
    clock.tick(3600)

    def unseen(user_id):
        with crm.tenants.session("acme"):
            sql = "SELECT noun, record_id FROM alert WHERE user_id = ? AND seen_at IS NULL"
            return sorted(set(rows(sql, (user_id,))))

    assert unseen(TARAS) == [("lead", 1), ("task", 1), ("task", 2)]
    manager.sees("/leads/1")
    manager.sees("/tasks/1")
    api.post("/tasks/2/complete")
    assert (unseen(TARAS), unseen(OLENA)) == ([], [("lead", 1)])


def test_an_import_tells_of_its_end_and_an_undo_of_nothing(crm, api, olena):
    file = f"name,phone,assigned_to\nМарія,0501234567,{TARAS}\n".encode()
    with crm.tenants.session("acme") as session:
        session.user_id = OLENA
        import_file(read_file(file, LEADS))
        assert told(crm) == []
        run = import_run.start(read_file(b"sku,name,price\nA,B,1\n", PRODUCTS), "ціни.csv")[0]
        import_run.background.resume(*import_run.background.claim())
    assert told(crm) == [(OLENA, "import_finished", run.id)]
    batch = api.post(
        "/leads/bulk", {"ids": ["1"], "set": {"assigned_to": str(OLENA)}, "expect": 1}
    ).json
    api.post(f"/batches/{batch['batch_id']}/undo")
    assert told(crm)[1:] == [(OLENA, "assigned", 1)]
    assert "Імпорт завершено: ціни.csv" in olena.sees("/alerts")
    assert olena.get("/alerts/1").location == f"/products/imports/{run.id}"


def test_a_reminder_follows_its_task_and_a_past_one_never_comes(crm, api, clock, manager):
    at = "2026-03-02T12:00:00Z"  # in three hours
    id = api.create("/tasks", title="Дзвінок", remind_at=at, assigned_to=str(TARAS))
    past = api.create("/tasks", title="Давнє", remind_at="2026-03-02T08:59:59Z")
    assert api.read(f"/tasks/{past}")["remind_at"] == "2026-03-02T08:59:59Z"
    with crm.tenants.session("acme") as session:
        session.is_import = True  # as of a file, whose future reminders are as good as any
        create_task(TASK_IN.parse({"title": "З файлу", "remind_at": "2026-03-01T09:00:00Z"}))
    assert told(crm) == [(TARAS, "task_due", int(id)), (TARAS, "assigned", int(id))]

    def reminders():
        with crm.tenants.session("acme"):
            return rows("SELECT user_id, due_at FROM alert WHERE kind = 'task_due'")

    assert reminders() == [(TARAS, at)]
    assert "Нагадування" not in manager.sees("/alerts")
    changes = (
        ({"remind_at": "2026-03-02T13:00:00Z"}, [(TARAS, "2026-03-02T13:00:00Z")]),
        ({"assigned_to": str(OLENA)}, [(OLENA, "2026-03-02T13:00:00Z")]),
        ({"assigned_to": str(TARAS), "remind_at": at}, [(TARAS, at)]),
        ({"status": "done"}, []),
        ({"status": "open"}, [(TARAS, at)]),
        ({"assigned_to": None}, []),
        ({"assigned_to": str(TARAS)}, [(TARAS, at)]),
    )
    for change, left in changes:
        api.patch(f"/tasks/{id}", change)
        assert reminders() == left, change
    api.delete(f"/tasks/{id}")
    assert reminders() == []
    api.post(f"/tasks/{id}/restore")
    assert reminders() == [(TARAS, at)]
    clock.tick(3 * 3600)
    assert "Нагадування: Дзвінок" in manager.sees("/alerts")
    api.patch(f"/tasks/{id}", {"remind_at": None})
    assert reminders() == [(TARAS, at)]  # what was told stays


def test_a_reminder_is_chosen_and_shown_in_the_tenants_zone(api, olena):
    sent = {"title": "Дзвінок", "priority": "low", "remind_at": "2026-03-02T14:30"}
    olena.sends("/tasks", sent)
    assert api.read("/tasks/1")["remind_at"] == "2026-03-02T12:30:00Z"
    assert 'value="2026-03-02T14:30"' in olena.sees("/tasks/1")


def test_deals_without_a_next_step_are_told_once_a_day_in_the_morning(crm, api, clock):
    clock.tick(-4 * 3600)  # 07:00 in Kyiv
    api.create("/deals", title="Кухня")
    api.create("/deals", title="Стіл", assigned_to=str(TARAS))
    step = api.create("/deals", title="З кроком", assigned_to=str(TARAS))
    api.create("/tasks", title="Крок", deal_id=step)

    def sweep():
        with crm.tenants.session("acme"):
            sweeps.run()
            sql = "SELECT user_id, due_at FROM alert WHERE kind = 'no_next_step' ORDER BY user_id"
            return rows(sql)

    morning = "2026-03-02T07:00:00Z"
    assert sweep() == sweep() == [(OLENA, morning), (TARAS, morning)]
    clock.tick(DAY)
    api.create("/tasks", title="Крок", deal_id="2")
    assert sweep() == [(OLENA, "2026-03-03T07:00:00Z")]
    clock.tick(DAY + 8 * 3600)
    assert sweep() == [(OLENA, "2026-03-04T13:00:00Z")]


def test_owners_are_told_of_webhooks_that_are_paused_and_of_keys_that_expire(crm, api, clock):
    api.create("/webhooks", url="https://erp.example.com/crm", description="ERP")
    with crm.tenants.session("acme"):
        id, _ = api_keys.create("Сайт", "*", TARAS, expires_at="2026-03-12T09:00:00Z")
        gone, _ = api_keys.create("Інший", "*", TARAS, expires_at="2026-03-04T09:00:00Z")
        api_keys.find(gone).revoke()
        with transaction():
            Webhook.find(1).record_failure("2026-03-02T09:00:00Z", 410)
        sweeps.run()
    assert told(crm) == [(OLENA, "webhook_paused", 1)]
    clock.tick(4 * DAY)
    with crm.tenants.session("acme"):
        sweeps.run()
        sweeps.run()
    assert told(crm)[1:] == [(OLENA, "key_expiring", id)]


def test_alerts_are_seen_one_by_one_or_all_at_once_and_by_their_user_alone(
    crm, api, olena, manager
):
    for name in ("Марія", "Ганна", "Олег"):
        api.create("/leads", name=name, phone="0501234567", assigned_to=str(TARAS))
    page = manager.sees("/")
    assert re.search(r'id="bell" href="/alerts".*?data-bell>3<', page, re.S)
    assert re.search(r'id="bell" href="/alerts".*?data-bell hidden><', olena.sees("/"), re.S)
    assert re.findall(r"Новий лід: (\w+)", manager.sees("/alerts")) == ["Олег", "Ганна", "Марія"]
    olena.sees("/alerts/2", status=404)
    assert manager.get("/alerts/2").location == "/leads/2"
    assert manager.get("/bell").json[:2] == ["/alerts", "2"]
    manager.sends("/alerts/seen")
    assert manager.get("/bell").json[:2] == ["/alerts", ""]
    assert manager.get("/alerts/2").location == "/leads/2"


def test_the_bell_is_not_sent_again_as_long_as_it_is_the_same(crm, api, manager):
    first = manager.get("/bell")
    assert manager.get("/bell", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    api.create("/leads", **LEAD)
    again = manager.get("/bell", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.json[:2]) == (200, ["/alerts", "1"])


def test_one_function_decides_what_a_user_may_be_shown(crm, api, manager, monkeypatch):
    """For rules by which users see their own records alone."""
    for name in ("Марія", "Ганна"):
        api.create("/leads", name=name, phone="0501234567", assigned_to=str(TARAS))
    monkeypatch.setattr(alerts, "visible", lambda user_id: "record_id <> 2")
    assert manager.get("/bell").json[:2] == ["/alerts", "1"]
    assert "Ганна" not in manager.sees("/alerts")
    manager.sees("/alerts/2", status=404)


def test_alerts_are_deleted_thirty_days_after_they_were_due(crm, api, clock):
    api.create("/leads", **LEAD, assigned_to=str(TARAS))
    clock.tick(31 * DAY)
    with crm.tenants.session("acme"):
        sweeps.run()
        assert rows("SELECT * FROM alert") == []
        assert current_session().user_id is None
        assert leads.Lead.find(1)


def test_sellers_see_no_alert_about_what_is_not_their_own_any_more(crm, api):
    with crm.tenants.session("acme"):
        seller = users.create({"name": "Solomiya", "role": "seller"}).id
    lead = api.create("/leads", **LEAD, assigned_to=str(seller))

    def count() -> int:
        with crm.tenants.session("acme"):
            return alerts.count_unseen(seller, 9)

    assert told(crm) == [(seller, "lead_new", int(lead))] and count() == 1
    api.patch(f"/leads/{lead}", {"assigned_to": str(TARAS)})
    assert count() == 0
    api.patch(f"/leads/{lead}", {"assigned_to": None})
    assert count() == 0
    with crm.tenants.session("acme"):
        tenant.update(sellers_see_unassigned=True)
    assert count() == 1
