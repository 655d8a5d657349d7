"""What the pages of all nouns have in common: new records, edits, deletion, history, who may."""

import html
from typing import NamedTuple

import pytest

HOSTILE = "<script>alert(1)</script>"
NAME = "Марія"


class Noun(NamedTuple):
    """A form for a new record, a field of it with a value that does not fit, and the path of the
    edit form below that of the record."""

    added: dict[str, str]
    fault: str
    wrong: str
    edit: str = "/edit"


CHAIR = {"name": NAME, "price": "1 250,5", "currency": "UAH", "active": "1"}
CALL = {"title": NAME, "priority": "normal", "assigned_to": "1"}
NOUNS = {
    "leads": Noun({"name": NAME, "phone": "067 123 45 67"}, "phone", "12"),
    "clients": Noun({"name": NAME, "type": "company"}, "email", "ні"),
    "deals": Noun({"title": NAME, "stage_id": "1"}, "amount", "багато"),
    "products": Noun(CHAIR, "price", "12 грн", edit=""),
    "tasks": Noun(CALL, "due_at", "soon", edit=""),
}
FULL = {  # values that a form could spoil
    "leads": {"email": "m@a.example", "tags": ["vip", "опт"], "amount": 1250.5},
    "clients": {"tags": ["опт"], "website": "https://r.example", "contacts": [{"name": "Ольга"}]},
    "deals": {"tags": ["опт"], "comment": "Дзвінок\nі лист", "amount": 1200.5},
    "products": {"price": 9999.9999, "description": "Два\nрядки", "unit": "шт", "active": False},
    "tasks": {"description": "Два\nрядки", "due_at": "2026-10-25T01:30:30Z", "type": "call"},
}
each_noun = pytest.mark.parametrize("plural", NOUNS)


def create(api, plural: str, name: str = NAME, **more) -> str:
    """The path of a new record."""
    own = {"leads": {"phone": "+380671234567"}, "products": {"price": 1}}.get(plural, {})
    sent = {"title" if plural in ("deals", "tasks") else "name": name, **own, **more}
    return f"/{plural}/{api.create(f'/{plural}', **sent)}"


def list_of(plural: str) -> str:
    return {"deals": "/deals?view=list", "tasks": "/tasks?assigned_to=all"}.get(
        plural, f"/{plural}"
    )


def parts_of(plural: str, path: str) -> list[str]:
    """The pages that show a record."""
    return [list_of(plural), path, *([] if plural == "products" else [f"{path}/timeline"])]


@each_noun
def test_a_new_record_is_there_with_its_event(api, olena, plural):
    path = olena.sends(f"/{plural}", NOUNS[plural].added)
    assert path == ("/tasks" if plural == "tasks" else f"/{plural}/1")
    page = olena.sees(path)
    assert "alert-success" in page and NAME in page
    assert api.kinds() == [f"{plural.removesuffix('s')}.created"]


@each_noun
def test_what_does_not_fit_is_told_at_its_field_and_nothing_typed_is_lost(api, olena, plural):
    noun = NOUNS[plural]
    path = create(api, plural)
    before = api.kinds(), api.read(path)
    name = "title" if "title" in noun.added else "name"
    for action in (f"/{plural}", f"{path}{noun.edit}"):
        page = olena.post(action, {**noun.added, name: HOSTILE, noun.fault: noun.wrong})
        assert page.status_code == 422, action
        assert f'id="{noun.fault}-fault"' in page.text
        assert f'value="{noun.wrong}"' in page.text or plural == "tasks"
        assert html.escape(HOSTILE) in page.text and HOSTILE not in page.text
    assert (api.kinds(), api.read(path)) == before


@each_noun
def test_an_edit_form_sent_as_it_is_changes_nothing(api, olena, plural):
    path = create(api, plural, external_id="1C-7", extra={"floor": 3}, **FULL[plural])
    before = api.kinds(), api.read(path)
    edit = f"{path}{NOUNS[plural].edit}"
    olena.sends(edit, olena.form_as_it_is(edit))
    assert (api.kinds(), api.read(path)) == before


@each_noun
def test_what_is_typed_is_shown_as_text_everywhere(api, olena, plural):
    path = create(api, plural, HOSTILE, extra={HOSTILE: HOSTILE})
    edit = f"{path}{NOUNS[plural].edit}"
    form = olena.form_as_it_is(edit)
    name = "name" if "name" in form else "title"
    olena.sends(edit, {**form, name: f"{HOSTILE}!"})
    if plural not in ("products", "tasks"):
        olena.sends(f"{path}/notes", {"text": HOSTILE})
    for shown in {*parts_of(plural, path), edit}:
        page = olena.sees(shown)
        assert HOSTILE not in page and html.escape(HOSTILE) in page, shown
    page = olena.sees(olena.sends(f"{path}/delete"))
    assert HOSTILE not in page and html.escape(HOSTILE) in page


@each_noun
def test_a_deleted_record_comes_back_by_undo(api, olena, clock, plural):
    path = create(api, plural, **FULL[plural])
    before = api.read(path)
    clock.tick(60)
    page = olena.sees(olena.sends(f"{path}/delete"))
    assert f"«{NAME}» видалено" in page and f'action="{path}/restore"' in page
    olena.sees(path, 404)
    assert "/restore" not in olena.sees(list_of(plural))
    assert olena.sends(f"{path}/restore") == path
    assert plural == "products" or "Відновлено з кошика<" in olena.sees(f"{path}/timeline")
    assert NAME in olena.sees(list_of(plural))
    changed = {"version": 3, "updated_at": "2026-03-02T09:01:00Z"}
    assert api.read(path) == before | changed
    assert olena.post(f"{path}/restore").status_code == 404


@each_noun
def test_a_viewer_is_offered_no_form(api, viewer, plural):
    path = create(api, plural)
    for shown in parts_of(plural, path):
        page = viewer.sees(shown)
        main = page.partition("<main")[2]
        assert NAME in page
        if plural == "products":  # whose card is its edit form
            main = main.replace('<form method="post"', "", shown == path)
            assert shown != path or "<fieldset disabled>" in main
        assert 'method="post"' not in main and "/edit" not in main and "/new" not in main, shown


@each_noun
def test_a_list_tells_why_it_is_empty_and_refuses_strange_filters(olena, plural):
    path = list_of(plural)
    and_ = "&" if "?" in path else "?"
    assert "Нічого не знайдено" in olena.sees(f"{path}{and_}q=nobody")
    if plural in ("leads", "clients", "products"):
        assert " немає" in olena.sees(path)
    for strange in ("strange=1", "sort=strange"):
        olena.sees(f"{path}{and_}{strange}", 422)
    olena.sees(f"{path}{and_}cursor=strange", 400)


FILTERS = {  # of lists, each of which leaves one record
    "leads": ("source=сайт", "status=qualified", "assigned_to=2", "q=ганн", "q=0509"),
    "clients": ("type=person", "tag=VIP", "tag=vip&tag=опт", "phone=0509990011", "q=ганн"),
    "products": ("category=Столи", "active=false", "q=ганн", "category=Столи&active=false"),
    "deals": ("stage_id=2", "assigned_to=2", "amount_to=50", "status=open&q=ганн"),
}


@pytest.mark.parametrize("plural", FILTERS)
def test_filters_are_those_of_the_api_and_stay_in_the_form(api, olena, plural):
    first = {"clients": {"type": "company"}, "products": {}}.get(plural, {"amount": 100})
    create(api, plural, **first)
    more = {
        "leads": {"source": "сайт", "status": "qualified", "phone": "+380509990011"},
        "clients": {"type": "person", "tags": ["vip", "Опт"], "phone": "+380509990011"},
        "products": {"category": "Столи", "active": False},
        "deals": {"stage_id": "2", "amount": 50, "source": "сайт"},
    }[plural]
    assigned = {} if plural == "products" else {"assigned_to": "2"}
    create(api, plural, "Ганна", **more, **assigned)
    path = list_of(plural)
    for query in FILTERS[plural]:
        page = olena.sees(f"{path}{'&' if '?' in path else '?'}{query}&sort=")
        assert "Ганна" in page and NAME not in page, query
        for name, value in (pair.split("=") for pair in query.split("&")):
            assert f'name="{name}"' in page and f'value="{value}"' in page, query
    assert NAME in olena.sees(path) and "Ганна" in olena.sees(path)


@pytest.mark.parametrize("plural", ["leads", "clients", "deals"])
def test_a_note_is_written_kept_apart_and_deleted(api, olena, plural):
    path, other = create(api, plural), create(api, plural)
    page = olena.post(f"{path}/notes", {"text": "  "})
    assert page.status_code == 422 and "text-fault" in page.text
    assert olena.sends(f"{path}/notes", {"text": "тут\nі там"}) == f"{path}#timeline"
    for shown in (path, f"{path}/timeline"):
        page = olena.sees(shown)
        assert "тут\nі там" in page and "Olena" in page
    assert olena.post(f"{other}/notes/1/delete").status_code == 404
    assert olena.post(f"/{plural}/77/notes", {"text": "тут"}).status_code == 404
    olena.sends(f"{path}/notes", {"text": "ще одна"})  # of the same person, within a minute
    page = olena.sees(f"{path}/notes/1")
    sent = olena.form_fields(page, f"{path}/notes/1") | {"text": "інакше", "pinned": "1"}
    assert olena.sends(f"{path}/notes/1", sent) == f"{path}#timeline"
    page = olena.sees(path)
    assert page.count("інакше") == 2 and "змінено" in page and "і там" not in page
    assert "тут\nі там" in olena.sees(f"{path}/notes/1")
    assert olena.confirms(f"{path}/notes/1/delete") == f"{path}#timeline"
    assert "і там" not in olena.sees(path)


def test_ways_back_never_lead_elsewhere(api, olena):
    path, task = create(api, "products"), create(api, "tasks")
    for strange in ("//evil.example", "https://evil.example", "/\\evil.example"):
        sent = {"active": "0", "next": strange, "back": strange}
        assert olena.sends(f"{path}/active", sent) == path
        assert olena.sends(f"{task}/complete", sent) == "/tasks"
        assert olena.sends("/tasks", NOUNS["tasks"].added | sent) == "/tasks"
