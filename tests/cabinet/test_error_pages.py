"""Errors as pages: titles in words, details in the reader's language, the menu for who is in."""

import html
import re
import sqlite3

import pytest

from crm import errors
from crm.api import problems
from crm.cabinet.rendering import Pages
from crm.storage.file_errors import ServerError
from tests.cases import loop_over
from tests.conftest import OLENA
from tests.page_client import Person

H1 = re.compile(r"<h1>(.*?)</h1>")


def sqlite_error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


RAISED = {
    "boom": (RuntimeError("the secret inside"), 500, "Щось пішло не так"),
    "sql": (sqlite_error("no such table", sqlite3.SQLITE_ERROR), 500, "Щось пішло не так"),
    "full": (sqlite_error("the disk is full", sqlite3.SQLITE_FULL), 503, "Зараз недоступно"),
    "damaged": (errors.TenantUnavailable(), 503, "Зараз недоступно"),
    "busy": (errors.Busy(), 503, "Сервіс перевантажений"),
    "many": (errors.TooMany(retry_after=70), 429, "Забагато запитів"),
    "malformed": (errors.Malformed("the body is not valid JSON"), 400, "Неправильний запит"),
    "forbidden": (errors.Forbidden(), 403, "Немає доступу"),
    "missing_scope": (errors.Forbidden("your role does not allow this", "missing_scope"), 403,
                      "Немає доступу"),
    "conflict": (errors.Conflict("it is so", "so"), 409, "Не вдалося виконати"),
    "gone": (errors.Gone(), 410, "Не вдалося виконати"),
    "stale": (errors.Stale(), 412, "Не вдалося виконати"),
    "large": (errors.TooLarge(), 413, "Завеликий обсяг"),
    "invalid": (errors.Invalid.field("name", "required", "is required"), 422, "Деякі значення"),
    "unknown": (errors.Invalid.field("name", "so", "is so"), 422, "Деякі значення"),
    "quota": (errors.StorageQuota(), 507, "Сховище заповнене"),
    "absent": (errors.NotFound("there is no lead 7"), 404, "Сторінку не знайдено"),
}  # fmt: skip


@pytest.fixture(scope="module")
def failing(module_app):
    """The app with a page for everything that a rule may raise."""
    pages = Pages("failing", role=None)

    def fail(name: str):
        raise RAISED[name][0]

    pages.get("/raise/<name>")(fail)
    module_app.register_blueprint(pages)
    return module_app


def words_of(page):
    """The texts of an error page itself: heading, detail, and number with the request's id."""
    main = re.search(r"<main.*?</main>", page, re.S)[0]
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", main).split()))


@loop_over("name", RAISED)
def test_title_and_detail_are_words_in_the_readers_language(failing, name):
    _, status, heading = RAISED[name]
    page = Person(failing, user_id=OLENA).sees(f"/raise/{name}", status)
    assert heading in H1.search(page)[1]
    assert f"<title>{H1.search(page)[1]} · Acme</title>" in page
    said = words_of(page)
    number, id = re.search(r"(\d{3}) · ([0-9a-f]{24})$", said).groups()
    assert int(number) == status
    assert not re.search(r"[A-Za-z]{3}", said.replace(id, "").replace("CSV", "")), said
    assert '<header class="menu">' in page and 'action="/logout"' in page
    detail = re.search(r'<div class="error-about">\s*<p>(.*?)</p>', page)[1]
    assert len(detail) > 20


def test_a_stranger_and_another_tenants_session_see_no_menu(crm, olena):
    assert '<header class="menu">' not in Person(crm).sees("/nothing", 404)
    token = olena.cookie("crm_session").value
    ivan = Person(crm, "globex")
    ivan.client.set_cookie("crm_session", token, domain=ivan.host)
    page = ivan.sees("/nothing", 404)
    assert '<header class="menu">' not in page and "Olena" not in page


@pytest.mark.parametrize(
    "error", [sqlite3.DatabaseError("malformed"), ServerError("invalid page", "XX001")]
)
def test_a_page_about_a_broken_database_does_without_the_menu(failing, monkeypatch, error):
    """The menu reads the tenant's name, which may be what failed."""
    person = Person(failing, user_id=OLENA)

    def broken():
        raise error

    monkeypatch.setattr("crm.cabinet.tenant.about", broken)
    page = person.sees("/raise/boom", 500)
    assert "Щось пішло не так" in page
    assert '<header class="menu">' not in page


def test_a_form_without_its_token_and_a_wrong_method_are_told_in_words(olena):
    page = olena.open("POST", "/leads", data={"csrf_token": "x"})
    assert page.status_code == 400
    assert "Сторінка застаріла" in page.text and '<header class="menu">' in page.text
    page = olena.post("/search")
    assert page.status_code == 405 and "цього не можна зробити" in page.text
    assert "Allow" in page.headers


def test_a_filter_that_does_not_fit_is_told_in_words(olena):
    page = olena.sees("/leads?created_since=soon", 422)
    assert "Деякі значення неправильні" in page and "Введіть дату й час" in page
    page = olena.sees("/leads?stauts=new", 422)
    assert not re.search(r"[a-z]{3}", re.sub(r"\w{24}", "", words_of(page)))


def test_every_refusal_has_a_status_and_a_page():
    assert {type(error) for error, *_ in RAISED.values()} >= {
        kind
        for kind in problems.STATUS
        if kind.__module__ == "crm.errors"
        and kind not in (errors.Unauthorized, errors.WrongType)  # the API's own
    }


def test_the_page_of_an_unknown_host_has_its_stylesheet(crm):
    page = Person(crm, "nobody").sees("/", 404)
    assert "Сторінку не знайдено" in page and "На головну" not in page
    for path in re.findall(r'(?:href|src)="(/cabinet/[^"]+)"', page):
        answer = Person(crm, "nobody").get(path)
        assert answer.status_code == 200, path
        assert "Set-Cookie" not in answer.headers
    assert Person(crm, "nobody").get("/cabinet/nothing.css").status_code == 404
