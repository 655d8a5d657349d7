"""What is kept for a while only (D3, D4, D5, D9, D15)."""

import logging

from crm.access import codes, links, sessions
from crm.installation.tenants import MAX_SWEEPS
from crm.outbox import deliveries, subscriptions
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.resources import notes, tasks, webhooks
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.leads import record as leads
from crm.resources.products import record as products
from crm.storage import sweeps
from crm.storage.search_index import matching_ids
from crm.storage.session import execute, execute_many, now, row, rows, transaction
from tests.concurrency import writing
from tests.tables import assert_whole

DAY = 86_400
MONTH = 30 * DAY
MARIA = {"name": "Марія", "phone": "+380671234567"}


def count(table):
    return row(f"SELECT count(*) FROM {table}")[0]


def removed(record, id):
    with transaction():
        record.find(id).remove()
    return id


def sweep_after(clock, seconds):
    clock.tick(seconds)
    sweeps.run()


def several_events(number):
    with transaction():
        execute_many(
            "INSERT INTO event (id, type, at, noun, record_id, data, previous)"
            " VALUES (?, 'lead.created', '2026-03-02T09:00:00Z', 'lead', 1, '{}', '{}')",
            [(f"evt_{n}",) for n in range(number)],
        )


# What goes


def test_answers_go_after_a_day(crm, api, clock):
    api.post("/tasks", {"title": "Call"}, headers={"Idempotency-Key": "early"})
    clock.tick(1)
    api.post("/tasks", {"title": "Call"}, headers={"Idempotency-Key": "late"})
    clock.tick(DAY)
    with crm.tenants.session("acme"):
        sweeps.run()
        assert rows("SELECT key FROM idempotency_response") == [("late",)]


def test_events_go_after_thirty_days(acme, clock):
    leads.create(MARIA)
    clock.tick(1)
    leads.create(MARIA)
    sweep_after(clock, MONTH)
    assert rows("SELECT sequence FROM event") == [(2,)]


def test_codes_go_after_a_day(acme, clock):
    codes.create(codes.LOGIN, MARIA["phone"], "early")
    clock.tick(60)
    codes.create(codes.LOGIN, MARIA["phone"], "late")
    sweep_after(clock, DAY - 60)
    assert count("sms_code") == 2
    sweep_after(clock, 1)
    assert rows("SELECT id FROM sms_code") == [(2,)]


def test_sessions_go_180_days_after_they_were_last_seen(acme, clock):
    tokens = [sessions.open(1, agent) for agent in ("ended", "seen", "forgotten")]
    sessions.end(1, 1)
    clock.tick(DAY)
    sessions.find(tokens[1])
    clock.tick(29 * DAY)
    assert sessions.find(tokens[1])
    sweep_after(clock, 150 * DAY)
    assert count("session") == 3
    sweep_after(clock, 1)
    assert rows("SELECT agent FROM session") == [("seen",)]


def test_links_go_thirty_days_after_they_expired(acme, clock):
    links.use(links.RESET, links.create(links.RESET, 1))
    links.create(links.RESET, 1)
    links.create(links.INVITE, 1)
    sweep_after(clock, 30 * 60 + MONTH)
    assert count("one_time_link") == 3
    sweep_after(clock, 1)
    assert rows("SELECT purpose FROM one_time_link") == [("invite",)]


def endpoint():
    """The id of an endpoint that gets everything."""
    return webhooks.create({"url": "https://erp.example.com/crm"})[0]


def send():
    """Send all that is due, in vain."""
    for sent in deliveries.claim_due("tests", 50, 50)[0]:
        deliveries.record_outcome(sent, now(), Outcome(duration_ms=1, status=500))


def test_deliveries_go_with_their_events_whatever_became_of_them(acme, clock):
    id = endpoint()
    for _ in range(3):
        leads.create(MARIA)
        clock.tick(1)
        send()
    with transaction():
        execute("UPDATE delivery SET status = 'held', due_at = NULL WHERE sequence = 2")
    sweep_after(clock, MONTH - 1)
    assert rows("SELECT sequence, status FROM delivery") == [(3, "pending")]
    assert rows("SELECT delivery_id FROM attempt") == [(3,)]
    assert webhooks.WEBHOOK.one(id)["state"] == "failing"


def test_what_waited_behind_an_outlived_event_goes_next(acme, clock):
    endpoint()
    id = clients.create({"name": "Ромашка"})
    clock.tick(1)
    with transaction():
        clients.update(id, {"name": "Ромашка Плюс"})
    pending = "SELECT sequence, due_at IS NULL FROM delivery WHERE status = 'pending'"
    assert rows(pending) == [(1, 0), (2, 1)]
    sweep_after(clock, MONTH)
    assert rows(pending) == [(2, 0)]


def test_tests_go_after_thirty_days_too(acme, clock):
    id = endpoint()
    early = deliveries.send_test(id)
    send()
    clock.tick(1)
    late = deliveries.send_test(id)
    sweep_after(clock, MONTH)
    assert rows("SELECT id FROM delivery") == [(late,)]
    sweep_after(clock, 1)
    assert (count("delivery"), count("attempt"), early < late) == (0, 0, True)


def test_a_secret_that_signs_no_more_is_forgotten(acme, clock):
    webhook = Webhook.find(endpoint())
    kept = [webhook.secret, subscriptions.rotate_secret(webhook.id)]
    sweep_after(clock, DAY)
    assert rows("SELECT secret, old_secret FROM webhook") == [(kept[1], kept[0])]
    sweep_after(clock, 1)
    assert rows("SELECT secret, old_secret, old_secret_until FROM webhook") == [
        (kept[1], None, None)
    ]
    assert webhooks.WEBHOOK.one(webhook.id)["version"] == 2


def test_their_notes_and_changes_go_with_them(acme, clock):
    other, goes = leads.create(MARIA), leads.create(MARIA)
    same_number = [clients.create({"name": "Ромашка"}) for _ in range(2)][1]
    assert same_number == goes  # of another noun
    for id in (other, goes):
        notes.create("lead", id, {"text": "n"})
        with transaction():
            leads.Lead.find(id).update_fields({"name": "Олена"})
    removed(leads.Lead, goes)
    notes.create("client", same_number, {"text": "n"})
    sweep_after(clock, MONTH + 1)
    assert rows("SELECT noun, record_id FROM note ORDER BY id") == [
        ("lead", other),
        ("client", same_number),
    ]
    assert rows("SELECT noun, record_id FROM audit_entry") == [("lead", other)]


def test_what_named_a_lead_lives_on_without_it(acme, clock):
    lead = leads.create(MARIA)
    deal = deals.create({"title": "Chairs", "lead_id": lead})
    task = tasks.create({"title": "Call", "lead_id": lead})
    removed(leads.Lead, lead)
    sweep_after(clock, MONTH)
    assert deals.DEAL.one(deal)["lead_id"] == tasks.TASK.one(task)["lead_id"] == str(lead)
    sweep_after(clock, 1)
    assert count("lead") == 0
    assert deals.DEAL.one(deal)["lead_id"] is tasks.TASK.one(task)["lead_id"] is None


def test_deleted_clients_and_deals_stay_while_a_row_refers_to_them(acme, clock):
    client = clients.create({"name": "Ромашка"})
    deal = deals.create({"title": "Chairs", "client_id": client})
    task = tasks.create({"title": "Call", "deal_id": deal})
    removed(deals.Deal, deal)
    removed(clients.Client, client)
    sweep_after(clock, 2 * MONTH)
    assert (count("client"), count("deal")) == (1, 1)
    removed(tasks.Task, task)
    clock.tick(2 * MONTH)
    for _ in range(3):
        sweeps.run()
    assert (count("client"), count("deal"), count("task")) == (0, 0, 0)


def test_deleted_products_go_unless_a_deal_uses_them(acme, clock):
    unused, used, live = (products.create({"name": "Chair", "price": 1}) for _ in range(3))
    items.create(deals.create({"title": "Chairs"}), {"product_id": used})
    removed(products.Product, used)
    removed(products.Product, unused)
    sweep_after(clock, MONTH)
    assert count("product") == 3
    sweep_after(clock, 1)
    assert rows("SELECT id FROM product ORDER BY id") == [(used,), (live,)]


def test_the_search_index_stays_right(crm, acme, clock):
    kept = leads.create(MARIA)
    removed(leads.Lead, leads.create(MARIA))
    sweep_after(clock, MONTH + 1)
    assert rows(*matching_ids("lead", [("мар",)])) == [(kept,)]
    assert_whole(crm.tenants, "acme")


# When


def test_a_few_rows_go_at_a_time(acme, clock):
    several_events(5)
    clock.tick(MONTH + 1)
    assert sweeps.run(2) is False
    assert (count("event"), sweeps.is_due()) == (3, True)
    assert sweeps.run(2) is False
    assert sweeps.run(2) is True
    assert (count("event"), sweeps.is_due()) == (0, False)


def test_a_visitor_tidies_a_tenant_once_a_day(crm, api, clock, monkeypatch):
    gone, tidy = [], sweeps.run
    monkeypatch.setattr(sweeps, "run", lambda **given: gone.append(1) or tidy(**given))
    for hours, times in ((0, 0), (23, 0), (1, 1), (1, 1), (22, 1), (1, 2), (24, 3)):
        clock.tick(hours * 3600)
        for _ in range(3):
            api.read("/users")
        assert len(gone) == times


def test_where_more_is_left_a_visitor_goes_on_a_minute_later(crm, api, clock, monkeypatch):
    with crm.tenants.session("acme"):
        several_events(MAX_SWEEPS * sweeps.MAX_ROWS + 1)
    clock.tick(MONTH + 1)
    left = []
    for seconds in (0, 30, 30, 0):
        clock.tick(seconds)
        api.read("/users")
        with crm.tenants.session("acme"):
            left.append(count("event"))
    assert left == [1, 1, 0, 0]


def test_the_answer_does_not_wait_for_a_writer(crm, api, clock):
    api.create("/tasks", title="Call")
    clock.tick(MONTH + 1)
    crm.tenants.forget_idle()
    with writing(crm.tenants, "acme"):
        with crm.tenants.session("acme"):
            tasks_left = row("SELECT count(*) FROM task")
        assert tasks_left == (1,)
    with crm.tenants.session("acme"):
        assert count("event") == 1
    clock.tick(60)
    with crm.tenants.session("acme"):
        pass
    with crm.tenants.session("acme"):
        assert count("event") == 0


def test_a_visit_does_not_fail_for_it(crm, clock, monkeypatch, caplog):
    def fail(**_):
        raise OSError("disk full")

    monkeypatch.setattr(sweeps, "run", fail)
    clock.tick(DAY)
    with caplog.at_level(logging.ERROR, "crm"), crm.tenants.session("acme"):
        pass
    assert "acme could not be tidied" in caplog.text


def test_a_visit_goes_on_waiting_for_its_own_writes(crm, clock):
    clock.tick(DAY)
    with crm.tenants.session("acme"):
        pass
    with crm.tenants.session("acme") as here:
        assert here.lock_wait_seconds > 1
