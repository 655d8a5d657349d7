"""Deals (spec: Deals and deal items; D2, D3, D4, D7, D15, D17)."""

from decimal import Decimal

import pytest

from crm.errors import Invalid, NotFound
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals.record import DEAL, create, delete, restore, update
from crm.resources.pipelines import record as pipelines
from crm.storage.session import rows
from tests.conftest import TARAS
from tests.resources.refusals import faults, refusal

NEW, QUALIFIED, PROPOSAL, NEGOTIATION, WON, LOST = range(1, 7)  # stages of the pipeline Sales
START = "2026-03-02T09:00:00Z"  # by the cast's clock


def changed(id, **data):
    """The deal after a change, as it is shown."""
    return DEAL.one(update(id, data).id)


def service_pipeline(*types):
    """Another pipeline with stages of these types; gives (its id, the stages' ids)."""
    stages = [{"name": f"{kind} {n}", "type": kind} for n, kind in enumerate(types)]
    id = pipelines.create({"name": "Service", "stages": stages})
    return id, [stage.id for stage in pipelines.Pipeline.find(id).list_stages()]


# Rules


def test_a_deal_begins_in_the_first_open_stage_of_the_default_pipeline(acme):
    deal = DEAL.one(create({"title": "Крісла"}))
    assert (deal["pipeline_id"], deal["stage_id"], deal["status"]) == ("1", str(NEW), "open")
    assert (deal["amount"], deal["amount_mode"], deal["currency"]) == (None, "manual", "UAH")
    assert (deal["items_count"], deal["closed_at"]) == (0, None)
    assert deal["stage_changed_at"] == deal["created_at"] == START
    # It is its maker's unless it says otherwise.
    assert deal["manager"] == {"id": "1", "name": "Olena"}
    assert DEAL.one(create({"assigned_to": TARAS}))["manager"] == {"id": "2", "name": "Taras"}
    nobodys = DEAL.one(create({"assigned_to": None}))
    assert (nobodys["assigned_to"], nobodys["manager"]) == (None, None)


def test_the_default_title_is_the_clients_name_or_the_deals_number(acme):
    client = clients.create({"name": "Ромашка"})
    assert DEAL.one(create({"client_id": client}))["title"] == "Ромашка"
    untitled = DEAL.one(create({"title": None}))
    assert untitled["title"] == f"Deal {untitled['id']}"
    assert untitled["version"] == 1
    assert changed(untitled["id"], title="Столи")["title"] == "Столи"
    assert changed(untitled["id"], title=None)["title"] == f"Deal {untitled['id']}"
    assert changed(untitled["id"], title=None, client_id=client)["title"] == "Ромашка"


def test_the_clients_name_is_copied(acme):
    client = clients.create({"name": "Ромашка"})
    deal = create({"client_id": client, "status": "won"})
    clients.delete(client)
    assert DEAL.one(deal)["client_name"] == "Ромашка"
    assert DEAL.one(deal)["client_id"] == str(client)
    # A deal that keeps its deleted client can still be changed.
    assert changed(deal, client_id=client, comment="Дякуємо")["client_name"] == "Ромашка"
    assert changed(deal, client_id=None)["client_name"] is None


def test_the_contact_must_be_the_clients(acme):
    romashka = clients.create({"name": "Ромашка", "contacts": [{"name": "Марія"}]})
    volia = clients.create({"name": "Воля", "contacts": [{"name": "Петро"}]})
    maria, petro = 1, 2
    for wrong in ({"contact_id": maria}, {"client_id": volia, "contact_id": maria}):
        assert refusal(create, wrong) == [("/contact_id", "contact_of_another_client")]
    deal = create({"client_id": romashka, "contact_id": maria})
    with pytest.raises(Invalid, match="not the client's"):
        changed(deal, contact_id=petro)
    moved = changed(deal, client_id=volia)
    assert (moved["client_name"], moved["contact_id"]) == ("Воля", None)
    assert changed(deal, client_id=romashka, contact_id=maria)["contact_id"] == str(maria)


def test_unknown_references_are_named(acme):
    for name in ("client_id", "contact_id", "pipeline_id", "stage_id", "assigned_to"):
        assert refusal(create, {name: 999}) == [(f"/{name}", "unknown_id")]
        deal = create({})
        assert refusal(changed, deal, **{name: 999}) == [(f"/{name}", "unknown_id")]


MOVES = (
    # to a closed stage: the status follows
    ((NEW, "open"), {"stage_id": WON}, (WON, "won")),
    ((NEW, "open"), {"stage_id": WON, "status": "won"}, (WON, "won")),
    # back to an open one: it is opened again
    ((WON, "won"), {"stage_id": NEW}, (NEW, "open")),
    ((PROPOSAL, "won"), {"stage_id": NEW}, (NEW, "open")),
    # status alone in an open stage: won and lost move it to the stage of that type
    ((NEW, "open"), {"status": "won"}, (WON, "won")),
    ((NEW, "won"), {"status": "lost"}, (LOST, "lost")),
    # a stage that is sent with it wins: an open one takes every status
    ((NEW, "open"), {"stage_id": PROPOSAL, "status": "won"}, (PROPOSAL, "won")),
    ((WON, "won"), {"stage_id": PROPOSAL, "status": "won"}, (PROPOSAL, "won")),
    # status alone in a closed stage
    ((WON, "won"), {"status": "open"}, (NEGOTIATION, "open")),
    ((WON, "won"), {"status": "lost"}, (LOST, "lost")),
    ((LOST, "lost"), {"status": "won", "pipeline_id": 1}, (WON, "won")),
    # nothing new
    ((NEW, "won"), {"status": "won"}, (NEW, "won")),
    ((WON, "won"), {"stage_id": WON, "status": "won", "pipeline_id": 1}, (WON, "won")),
    ((PROPOSAL, "open"), {"pipeline_id": 1}, (PROPOSAL, "open")),
)


def test_stage_and_status_go_together(acme):
    for (stage, status), sent, reached in MOVES:
        id = create({"stage_id": stage, "status": status})
        deal = changed(id, **sent)
        assert (int(deal["stage_id"]), deal["status"]) == reached, (stage, status, sent)
        assert (deal["closed_at"] is None) == (deal["status"] == "open")
        assert deal["version"] == (1 if (stage, status) == reached else 2)


def test_a_contradicting_stage_and_status_are_refused(acme):
    deal = create({})
    for stage, status in ((WON, "lost"), (WON, "open"), (LOST, "won"), (LOST, "open")):
        sent = {"stage_id": stage, "status": status}
        expected = [("/status", "stage_status_conflict")]
        assert refusal(create, sent) == refusal(changed, deal, **sent) == expected
    assert DEAL.one(deal)["version"] == 1


def test_a_stage_takes_its_pipeline_along_but_not_another_one_that_is_sent(acme):
    service, (first, won) = service_pipeline("open", "won")
    deal = create({})
    for sent in ({"pipeline_id": service, "stage_id": NEW}, {"pipeline_id": 1, "stage_id": first}):
        expected = [("/stage_id", "stage_of_another_pipeline")]
        assert refusal(create, sent) == refusal(changed, deal, **sent) == expected
    shown = changed(deal, stage_id=first)
    assert (shown["pipeline_id"], shown["stage_id"]) == (str(service), str(first))
    assert DEAL.one(create({"stage_id": won}))["pipeline_id"] == str(service)


def test_a_pipeline_alone_leads_to_its_first_open_stage(acme):
    service, (_, first, _, won) = service_pipeline("lost", "open", "open", "won")
    assert DEAL.one(create({"pipeline_id": service}))["stage_id"] == str(first)
    deal = create({"stage_id": WON})
    moved = changed(deal, pipeline_id=service)
    assert (moved["stage_id"], moved["status"], moved["closed_at"]) == (str(first), "open", None)
    moved = changed(create({}), pipeline_id=service, status="won")
    assert (moved["stage_id"], moved["status"]) == (str(won), "won")


def test_a_status_that_no_stage_of_the_pipeline_has_is_refused_in_a_closed_stage(acme):
    service, (first, won) = service_pipeline("open", "won")
    deal = create({"stage_id": won})
    assert refusal(changed, deal, status="lost") == [("/status", "no_such_stage")]
    assert changed(deal, status="open")["stage_id"] == str(first)
    assert changed(deal, status="lost")["stage_id"] == str(first)


def test_created_as_won_it_is_in_the_stage_of_that_type(acme):
    deal = DEAL.one(create({"status": "won"}))
    assert (deal["stage_id"], deal["closed_at"]) == (str(WON), START)
    deal = DEAL.one(create({"status": "lost", "stage_id": PROPOSAL}))
    assert (deal["stage_id"], deal["status"]) == (str(PROPOSAL), "lost")


def test_history_moves_in_with_its_dates(acme):
    begun, ended = "2024-01-10T08:00:00Z", "2024-02-20T10:00:00Z"
    deal = DEAL.one(create({"created_at": begun}))
    assert (deal["created_at"], deal["stage_changed_at"]) == (begun, begun)
    assert deal["updated_at"] == START
    deal = changed(deal["id"], stage_id=WON, closed_at=ended)
    assert (deal["closed_at"], deal["stage_changed_at"]) == (ended, ended)
    deal = DEAL.one(create({"created_at": begun, "status": "won"}))
    assert (deal["closed_at"], deal["stage_changed_at"]) == (begun, begun)
    deal = DEAL.one(create({"created_at": begun, "closed_at": ended, "status": "lost"}))
    assert deal["closed_at"] == ended


def test_the_closing_time_goes_with_won_or_lost_and_within_the_deals_life(acme, clock):
    begun, before, after = "2024-01-10T08:00:00Z", "2024-01-10T07:59:59Z", "2024-02-20T10:00:00Z"
    open_deal = create({"created_at": begun})
    for refuse, code in (
        (lambda: create({"closed_at": after}), "deal_is_open"),
        (lambda: changed(open_deal, closed_at=after), "deal_is_open"),
        (
            lambda: create({"created_at": begun, "closed_at": before, "status": "won"}),
            "before_created_at",
        ),
        (lambda: changed(open_deal, status="won", closed_at=before), "before_created_at"),
        (lambda: changed(create({"status": "won"}), closed_at=None), "null"),
    ):
        assert refusal(refuse) == [("/closed_at", code)]
    clock.tick(60)
    deal = changed(open_deal, status="won", closed_at=None)
    assert deal["closed_at"] == "2026-03-02T09:01:00Z"
    assert changed(open_deal, closed_at=after)["closed_at"] == after
    assert changed(open_deal, status="open", closed_at=after)["closed_at"] is None


def test_an_amount_sent_is_by_hand(acme):
    deal = create({"amount": 5_000_0000})
    items.create(deal, {"name": "Стіл", "price": 100_0000, "quantity": 2500})
    assert (DEAL.one(deal)["amount"], DEAL.one(deal)["amount_mode"]) == (250, "items")
    by_hand = changed(deal, amount=99_9900)
    assert (by_hand["amount"], by_hand["amount_mode"]) == (Decimal("99.99"), "manual")
    by_items = changed(deal, amount_mode="items")
    assert (by_items["amount"], by_items["amount_mode"]) == (250, "items")
    kept = changed(deal, amount_mode="manual")
    assert (kept["amount"], kept["amount_mode"]) == (250, "manual")
    assert changed(deal, amount=None)["amount"] is None
    assert changed(deal, amount=250_0000, amount_mode="items")["amount"] == 250


def test_an_amount_that_the_items_do_not_come_to_is_refused_in_the_mode_items(acme):
    deal = create({"amount_mode": "items"})
    assert DEAL.one(deal)["amount"] == 0
    for refuse in (
        lambda: create({"amount_mode": "items", "amount": 1}),
        lambda: changed(deal, amount_mode="items", amount=1),
    ):
        assert refusal(refuse) == [("/amount", "amount_of_items")]


def test_the_currency_stays_while_the_deal_has_items(acme):
    deal = create({"currency": "UAH"})
    assert changed(deal, currency="EUR")["currency"] == "EUR"
    items.create(deal, {"name": "Стіл", "price": 100_0000})
    assert refusal(changed, deal, currency="UAH") == "currency_fixed"
    assert changed(deal, currency="EUR", comment="так")["currency"] == "EUR"
    update(deal, {"comment": None})


# Endpoints


def test_create_without_a_body_makes_a_deal_that_is_found_by_its_number(api):
    id = api.create("/deals")
    assert api.read(f"/deals/{id}")["title"] == f"Deal {id}"
    assert titles(api, "q=deal") == [f"Deal {id}"]


def test_created_as_closed_it_has_both_events(api):
    api.create("/deals", status="won")
    created, closed = api.events()
    assert (created["type"], closed["type"]) == ("deal.created", "deal.won")
    assert created["data"] == closed["data"]


def test_a_closed_stage_tells_of_the_move_then_of_the_end(api, clock):
    id = api.create("/deals")
    clock.tick(60)
    deal = api.patch(f"/deals/{id}", {"stage_id": str(LOST)}).json
    _, moved, closed = api.events()
    assert (moved["type"], closed["type"]) == ("deal.stage_changed", "deal.lost")
    stages = {stage["id"]: stage for stage in api.read("/pipelines/1/stages")}
    assert moved["data"] == {
        "deal": deal,
        "from_stage": stages[str(NEW)],
        "to_stage": stages[str(LOST)],
    }
    assert closed["data"] == {"deal": deal}
    assert moved["previous"] == closed["previous"]
    assert moved["previous"] == {
        "stage_id": str(NEW),
        "status": "open",
        "stage_changed_at": START,
        "closed_at": None,
    }


def test_a_deal_closed_by_its_status_is_reopened_in_the_last_open_stage(api):
    id = api.create("/deals", stage_id=PROPOSAL)
    for status, stage in (("won", WON), ("open", NEGOTIATION), ("lost", LOST), ("won", WON)):
        deal = api.patch(f"/deals/{id}", {"status": status}).json
        assert (deal["status"], deal["stage_id"]) == (status, str(stage))
    moved = "deal.stage_changed"
    assert api.kinds()[1:] == [moved, "deal.won", moved, moved, "deal.lost", moved, "deal.won"]
    reached = [move["to_stage_id"] for move in api.read(f"/deals/{id}/history")]
    assert reached == [str(stage) for stage in (PROPOSAL, WON, NEGOTIATION, LOST, WON)]


def test_a_pipeline_without_such_a_stage_keeps_a_closed_deal_in_its_own(api):
    pipeline = api.create("/pipelines", name="Service", stages=[{"name": "Open"}])
    (stage,) = api.read(f"/pipelines/{pipeline}/stages")
    id = api.create("/deals", pipeline_id=pipeline)
    won = api.patch(f"/deals/{id}", {"status": "won"}).json
    lost = api.patch(f"/deals/{id}", {"status": "lost", "lost_reason": "задорого"}).json
    assert [deal["stage_id"] for deal in (won, lost)] == [stage["id"]] * 2
    assert api.kinds() == ["deal.created", "deal.won", "deal.lost"]
    assert api.events()[-1]["previous"] == {"status": "won", "lost_reason": None}
    assert len(api.read(f"/deals/{id}/history")) == 1


def test_no_open_deal_of_a_deleted_client_comes_back(acme):
    client = clients.create({"name": "Ромашка"})
    open_deal, won = create({"client_id": client}), create({"client_id": client, "status": "won"})
    delete(open_deal)
    clients.delete(client)
    assert refusal(restore, open_deal) == "client_deleted"
    with pytest.raises(NotFound):
        DEAL.one(open_deal)
    delete(won)
    assert restore(won).status == "won"  # a closed deal keeps its deleted client
    for change in ({"status": "open"}, {"stage_id": QUALIFIED}):
        assert refusal(update, won, change) == "client_deleted"
    assert DEAL.one(won)["status"] == "won"
    clients.restore(client)
    assert restore(open_deal).status == "open"
    assert update(won, {"status": "open"}).status == "open"


def test_the_lost_reason_ends_with_the_loss(acme):
    deal = create({"status": "lost", "lost_reason": "задорого"})
    for status in ("won", "open"):
        # Also if the whole record is sent back.
        assert update(deal, {"status": status, "lost_reason": "задорого"}).lost_reason is None
        assert update(deal, {"status": "lost"}).lost_reason is None
        update(deal, {"lost_reason": "задорого"})
    assert update(deal, {"comment": "дзвонив"}).lost_reason == "задорого"
    assert update(deal, {"status": "won", "lost_reason": "ні"}).lost_reason == "ні"


def test_a_restored_deal_is_what_its_client_and_its_stage_say_now(acme):
    client = clients.create({"name": "Ромашка"})
    deal = create({"client_id": client, "title": "Столи", "stage_id": QUALIFIED})
    delete(deal)
    clients.update(client, {"name": "Волошка"})
    pipelines.update_stage(1, QUALIFIED, {"type": "won"})  # no live deal is in it
    restore(deal)
    shown = DEAL.one(deal)
    assert (shown["client_name"], shown["stage_id"]) == ("Волошка", str(QUALIFIED))
    assert (shown["status"], shown["closed_at"]) == ("won", START)
    ((words,),) = rows("SELECT search_text FROM deal WHERE id = ?", (deal,))
    assert "волошка" in words and "ромашка" not in words


def test_the_manager_is_another_name_of_the_assignee(api):
    id = api.create("/deals", manager={"id": "2"})
    deal = api.read(f"/deals/{id}")
    assert (deal["assigned_to"], deal["manager"]) == ("2", {"id": "2", "name": "Taras"})
    assert api.patch(f"/deals/{id}", {"manager": 1}).json["assigned_to"] == "1"
    assert api.patch(f"/deals/{id}", {"manager": "2"}).json["assigned_to"] == "2"
    assert api.patch(f"/deals/{id}", {"manager": {"id": 1, "name": "x"}}).json["manager"] == {
        "id": "1",
        "name": "Olena",
    }
    assert api.patch(f"/deals/{id}", {"manager": 2, "assigned_to": "2"}).status_code == 200
    assert api.patch(f"/deals/{id}", {"manager": None}).json["assigned_to"] is None


UNFIT = (
    ({"manager": 1, "assigned_to": 2}, "/manager", "manager_conflict"),
    ({"manager": {"id": 1}, "assigned_to": None}, "/manager", "manager_conflict"),
    ({"manager": {"name": "Olena"}}, "/manager", "invalid_type"),
    ({"manager": {"id": 1, "role": "owner"}}, "/manager", "invalid_type"),
    ({"manager": 99}, "/assigned_to", "unknown_id"),
)


def test_what_does_not_fit_is_refused(api):
    id = api.create("/deals")
    for sent, pointer, code in UNFIT:
        for answer in (api.post("/deals", sent), api.patch(f"/deals/{id}", sent)):
            assert faults(answer) == [(pointer, code)]
    assert len(api.read("/deals")) == 1


def test_the_history_tells_every_move(api, taras, clock):
    id = api.create("/deals", title="Крісла")
    clock.tick(60)
    taras.patch(f"/deals/{id}", {"stage_id": PROPOSAL})
    taras.patch(f"/deals/{id}", {"status": "won", "stage_id": PROPOSAL})  # which is no move
    clock.tick(60)
    api.patch(f"/deals/{id}", {"stage_id": WON})
    fields = ("from_stage_id", "from_name", "to_stage_id", "to_name", "moved_at", "user_id")
    minutes = [f"2026-03-02T09:0{number}:00Z" for number in range(3)]
    assert [tuple(map(move.get, fields)) for move in api.read(f"/deals/{id}/history")] == [
        (None, None, str(NEW), "New", minutes[0], "1"),
        (str(NEW), "New", str(PROPOSAL), "Proposal", minutes[1], "2"),
        (str(PROPOSAL), "Proposal", str(WON), "Won", minutes[2], "1"),
    ]


# Lists


def titles(api, query):
    return [deal["title"] for deal in api.read(f"/deals?{query}")]


@pytest.fixture
def deals(api, crm, clock):
    """A, B and C, entered one after the other."""
    with crm.tenants.session("acme"):
        service, _ = service_pipeline("open", "won")
        client = clients.create({"name": "ТОВ Ромашка"})
    a = api.create(
        "/deals", title="A стіл", amount=30, expected_close_date="2026-05-01", client_id=client
    )
    api.create("/tasks", title="Подзвонити", deal_id=a)
    clock.tick(10)
    b = api.create(
        "/deals", title="B стілець", pipeline_id=service, assigned_to=TARAS, tags=["VIP"]
    )
    api.create("/tasks", title="Зроблене", deal_id=b, status="done")
    api.delete(f"/tasks/{api.create('/tasks', title='Видалене', deal_id=b)}")
    clock.tick(10)
    api.create(
        "/deals",
        title="C шафа",
        amount=100.5,
        stage_id=WON,
        assigned_to=None,
        expected_close_date="2026-04-01",
    )
    return service


FOUND = {
    "stage_id=5&stage_id=1": "CA",
    "closed_since=2026-03-02T09:00:00Z": "C",
    "closed_until=2026-04-02T09:00:00Z": "C",
    "tag=vip": "B",
    "amount_from=30": "CA",
    "amount_from=30.01": "C",
    "amount_from=0&amount_to=30": "A",
    "expected_close_from=2026-04-01": "CA",
    "expected_close_to=2026-04-01": "C",
    "has_open_task=true": "A",
    "has_open_task=false": "CB",
    "q=ромашка+стіл": "A",
    "sort=amount": "BAC",
    "sort=expected_close_date": "CAB",
}


def test_a_list_has_what_its_filters_say(api, deals):
    results = {query: "".join(title[0] for title in titles(api, query)) for query in FOUND}
    assert results == FOUND
