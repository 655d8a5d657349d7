"""Search (D3 `q`): against a brute-force model, and the index kept right."""

import random
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache

import pytest
from werkzeug.datastructures import MultiDict

from crm.records import pagination, search
from crm.records.pagination import MAX_INTEGER
from crm.records.record import index_new
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD
from crm.storage import search_index
from crm.storage.session import current_session, execute, transaction
from crm.values import folding
from tests.cases import loop_over
from tests.installations import on_postgres
from tests.tables import check_search_index, traced_statements

TABLE = """
    CREATE TABLE lead (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL,
        deleted_at TEXT, search_text TEXT
    ) STRICT
"""
INDEX = """
    CREATE VIRTUAL TABLE lead_search USING fts5 (
        search_text, content = 'lead', content_rowid = 'id',
        tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0
    )
"""
PEOPLE = [
    "Олена",
    "Тарас",
    "Їжак",
    "Мар'яна",
    "Noël",
    "Straße",
]
WORDS = [
    "вікна",
    "консультація",
    "100%",
    "12-34",
    "(нове)",
    "\U0001f600" * 3,
]
HOSTILE = [
    '"',
    "*",
    "%",
    "100%",
    "a_b",
    "NEAR(",
    "NEAR(вікна дзвінок, 2)",
    "search_text:вікна",
    "{вікна}",
    "\x00",
    "вік\x00на",
    "\ud800",
    "вік\udfffна",
    "\U0001f600",
    "\ufffe\uffff\ufffd",
    "\u0301",
    " \t\r\n\u00a0\u2028",
    "'); DROP TABLE lead; --",
    "[a-z]?",
    '"' * 200,
    "в" * 200,
    "вікна " * 33,
    " ".join("абвгґдеєжзиіїйклмнопрстуфхцчшщ") * 3,
    "ﬀ" * 200,
    "()-.",
    "+1",
    "(12)-34",
]


@cache
def norm(text: str) -> str:
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text.replace("\0", " "))
    for dash in "\u2013\u2014":
        text = text.replace(dash, "-")
    text = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", text)


@cache
def forms_of(q: str) -> list[set[str]]:
    wanted = []
    for word in norm(q).split():
        digits = "".join(c for c in word if c in "0123456789")
        if digits and set(word) <= set("0123456789+()-."):
            wanted.append({word, digits})
            continue
        for mark in '"«»“”„‟‹›‚…;!?(){}[]<>':
            word = word.replace(mark, " ")
        padded = f" {word} "
        for at, mark in enumerate(padded):
            if mark == "," and not (padded[at - 1].isdigit() and padded[at + 1].isdigit()):
                padded = f"{padded[:at]} {padded[at + 1 :]}"
        wanted += [{end} for part in padded.split() if (end := part.strip(".,:'-/\\|"))]
    return wanted or [{word} for word in norm(q).split()]


def should_match(texts: list[str | None], q: str) -> bool:
    """The rule of D3, told without an index."""
    lines = [norm(text) for text in texts if text is not None]
    return all(any(form in line for form in word for line in lines) for word in forms_of(q))


class Leads:
    """A table of leads, and what it should hold."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute(TABLE)
        self.db.execute(INDEX)
        self.db.execute(
            "CREATE TABLE search_progress (table_name TEXT PRIMARY KEY, last_indexed_id INTEGER)"
        )
        self.db.execute("CREATE INDEX by_name ON lead (name, id) WHERE deleted_at IS NULL")
        self.db.execute("CREATE INDEX by_status ON lead (status, id) WHERE deleted_at IS NULL")
        self.texts: dict[int, list[str | None]] = {}
        self.status: dict[int, str] = {}
        self.asked: list[list] = []

    def insert(self, id: int, *texts: str | None, status: str = "new") -> None:
        """Only the row, which is not in the index yet."""
        self.db.execute(
            "INSERT INTO lead (id, name, status, search_text) VALUES (?, ?, ?, ?)",
            (id, texts[0], status, folding.fold(*texts)),
        )
        self.texts[id], self.status[id] = list(texts), status

    def add(self, id: int, *texts: str | None) -> None:
        self.insert(id, *texts)
        self.index_new()

    def index_new(self) -> None:
        for statement in search_index.add_new_statements("lead"):
            self.db.execute(statement)

    def change(self, id: int, *texts: str | None) -> None:
        self.db.execute(search_index.remove_statement("lead"), (f"[{id}]",))
        self.db.execute(
            "UPDATE lead SET name = ?, search_text = ? WHERE id = ?",
            (texts[0], folding.fold(*texts), id),
        )
        self.db.execute(search_index.add_statement("lead"), (f"[{id}]",))
        self.texts[id] = list(texts)

    def delete(self, id: int) -> None:
        self.db.execute(search_index.remove_statement("lead"), (f"[{id}]",))
        self.db.execute(
            "UPDATE lead SET deleted_at = 'now', search_text = NULL WHERE id = ?", (id,)
        )
        del self.texts[id]

    def run(self, sql: str, parameters: list) -> list[tuple]:
        self.asked.append(parameters)
        return self.db.execute(sql, parameters).fetchall()

    def found(
        self,
        q: str,
        order: str = "id DESC",
        status: str | None = None,
        limit: int = -1,
        counts: bool = False,
        below: int | None = None,
        for_all: bool = False,
    ):
        condition = search.condition(
            "lead", q, self.run, by_id=order == "id DESC", counts=counts, below=below
        )
        matching, parameters, *_ = condition.of_all if for_all else condition
        filtered = " AND status = ?" if status else ""
        if below is not None:
            filtered = f" AND id < {below}{filtered}"
        return [
            id
            for (id,) in self.db.execute(
                f"SELECT id FROM lead WHERE deleted_at IS NULL AND {matching}{filtered}"
                f" ORDER BY {order} LIMIT ?",
                [*parameters, *([status] if status else []), limit],
            )
        ]

    def expected(
        self,
        q: str,
        order: str = "id DESC",
        status: str | None = None,
        below: int | None = None,
    ):
        ids = [
            id
            for id, texts in self.texts.items()
            if should_match(texts, q)
            and status in (None, self.status[id])
            and (below is None or id < below)
        ]
        if order == "id DESC":
            return sorted(ids, reverse=True)
        return sorted(ids, key=lambda id: (self.texts[id][0].encode(), id))

    def check(self) -> None:
        """FTS5's own comparison of the index with the texts; raises if they differ."""
        check_search_index(self.db, "lead")

    def steps(self, q: str, order: str, below: int | None = None) -> int:
        """How many hundreds of steps SQLite takes for a page of the list."""
        taken = []
        self.db.set_progress_handler(lambda: taken.append(1), 100)
        self.found(q, order, limit=51, below=below)
        self.db.set_progress_handler(None, 0)
        return len(taken)


@pytest.fixture
def leads() -> Iterator[Leads]:
    leads = Leads()
    yield leads
    leads.db.close()


@pytest.fixture(scope="module")
def many() -> Iterator[Leads]:
    """5,000 leads: `скрізь` in all, `рідко` in ten, `давно` in the oldest 1,500."""
    leads, dice = Leads(), random.Random(7)
    leads.db.execute("BEGIN")
    for n in range(1, 5001):
        said = dice.choices(WORDS, k=dice.randrange(6))
        said += ["скрізь"] + ["рідко"] * (n % 500 == 0) + ["давно"] * (n <= 1500)
        leads.insert(
            n,
            f"{dice.choice(PEOPLE)} {dice.choice(PEOPLE)}",
            f"+380{dice.choice(['50', '67'])}{dice.randrange(10**7):07d}" if n % 3 else None,
            " ".join(said),
            status=dice.choice(["new", "new", "new", "qualified"]),
        )
    leads.index_new()
    leads.db.execute("COMMIT")
    yield leads
    leads.db.close()


@pytest.mark.parametrize(
    ("texts", "q", "matches"),
    [
        (["Олена Шевченко"], "ШЕВЧЕНКО олена", True),
        (["Олена Шевченко"], "вчен", True),
        (["Олена Шевченко"], "олена шевчук", False),
        (["Йо\u0306сип и\u0306"], "й", True),
        (["Straße"], "STRASSE", True),
        (["Noe\u0308l"], "NOËL", True),
        (["Олена", "+380501234567"], "(050)", True),
        (["Олена", "+380501234567"], "олена 123-45-67", True),
        (["Олена", "+380501234567"], "+38 (050) 123-45-67", True),
        (["Олена", "+380501234567"], "123-45-68", False),
        (["Будинок 12-34"], "12-34", True),
        (["Будинок 1234"], "12-34", True),
        (["Знижка 100%"], "100%", True),
        (["a_b"], "A_B", True),
        (["Марія Коваль"], "Коваль, Марія.", True),
        (["Марія Коваль"], "коваль,марія - так?", False),
        (['ТОВ "Ромашка"'], "тов «ромашка»", True),
        (["ТОВ «Ромашка»"], "„Ромашка“ 'ТОВ'", True),
        (["Івано\u2013Франківськ"], "івано-франківськ —", True),
        (["Труба 15"], "1,5", False),
        (["o.koval@example.com"], "O.Koval@example.com,", True),
        (["10% знижки"], "%", True),
        (["Питання?"], "?", True),
        (["Питання"], "?", False),
    ],
)
def test_words_match_as_a_salesperson_expects(leads, texts, q, matches):
    leads.insert(1, *texts)
    leads.insert(2, "щось інше")
    assert leads.found(q) == [1] * matches
    leads.index_new()
    assert leads.found(q) == [1] * matches
    assert should_match(texts, q) is matches


def test_a_word_does_not_reach_over_two_fields_but_words_do(leads):
    leads.add(1, "Олена", None, "Шевченко\r\nКиїв")
    assert leads.found("олена київ") == [1]
    assert leads.found("оленаш") == leads.found("лена\nшевч\nів") == []
    assert leads.found("шевченкокиїв") == []
    assert folding.fold("А\nБ", None, " В ") == "а б\nв"


def test_pieces_in_another_order_are_no_match(leads):
    leads.add(1, "анакана канака")
    leads.add(2, "канакана")
    assert leads.found("анакана") == [2, 1]
    assert leads.found("канакана") == [2]


@loop_over("q", HOSTILE)
def test_no_text_breaks_the_search(many, q):
    assert many.found(q) == many.expected(q)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_every_text_finds_itself_word_by_word(leads, text):
    leads.add(1, "", text)
    leads.add(2, "олена")
    assert 1 in leads.found(text)
    for word in norm(text).split():
        assert leads.found(word) == leads.expected(word)
    leads.check()


@pytest.mark.parametrize("probed", [pytest.param(search.PROBE_ROWS, marks=pytest.mark.deep), 40])
def test_random_queries_give_what_the_rule_gives(many, monkeypatch, probed):
    monkeypatch.setattr(search, "PROBE_ROWS", probed)
    dice = random.Random(probed)
    texts = list(many.texts.values())
    for _ in range(40):
        parts = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            text = dice.choice([text for text in dice.choice(texts) if text])
            start = dice.randrange(len(text))
            parts.append(text[start : start + dice.randrange(1, 12)])
        q = dice.choice([str.upper, str.lower, str])(dice.choice([" ", " ", ""]).join(parts))
        order = dice.choice(["id DESC", "name, id"])
        status = dice.choice([None, "new", "qualified"])
        counts = dice.choice([False, True])
        result = many.found(q, order, status, counts=counts)
        assert result == many.expected(q, order, status), (q, order, status, counts)
        assert result == many.found(q, order, status, for_all=True)


@pytest.mark.parametrize("q", ["рідко", "немаєтакого", "давно рідко", "скрізь", "давно"])
def test_a_word_in_any_number_of_rows_does_not_read_the_whole_table(many, monkeypatch, q):
    monkeypatch.setattr(search, "PROBE_ROWS", 100)
    whole = many.steps("щщ", "id DESC")  # two letters: no index helps
    assert whole > 250
    for page in (("name, id",), ("id DESC",), ("id DESC", MAX_INTEGER), ("id DESC", 3000)):
        assert many.steps(q, *page) < whole / 3, page


SAMPLED = ["скрізь", "рідко", "давно", "ол", "380", "вікна", "олена", "67", "рідко скрізь", "щщ"]


@loop_over("below", [MAX_INTEGER, 2600, 30, 1])
@loop_over("status", [None, "qualified"])
@loop_over("q", SAMPLED)
def test_each_page_by_id_has_what_the_rule_gives(many, q, status, below):
    expected = many.expected(q, status=status, below=below)
    assert many.found(q, status=status, below=below) == expected
    if below == MAX_INTEGER:
        assert many.found(q, status=status, below=below, for_all=True) == expected
    assert many.found(q, status=status, limit=51, below=below) == expected[:51]


def test_a_page_begins_at_the_newest_match(leads):
    """A word of every older row: the 9,000 newer ones are not looked at, also not for a filter."""
    leads.db.execute("BEGIN")
    for id in range(1, 10_501):
        leads.insert(id, f"{'Олена' if id <= 1500 else 'Тарас'} {id}")
    leads.index_new()
    leads.db.execute("COMMIT")
    assert leads.found("олена", below=MAX_INTEGER, limit=51) == [*range(1500, 1449, -1)]
    assert leads.found("олена", below=1450, limit=51) == [*range(1449, 1398, -1)]
    assert leads.found("олена", "id DESC", "new", 51, below=MAX_INTEGER)[0] == 1500
    assert leads.steps("олена", "id DESC", MAX_INTEGER) < leads.steps("тарас", "id DESC") * 2
    leads.insert(10_501, "Олена 10501")
    assert leads.found("олена", below=MAX_INTEGER, limit=2) == [10_501, 1500]


def test_a_long_query_asks_the_index_for_a_few_pieces_only(many):
    many.asked.clear()
    many.found("консультація" * 16)
    many.found(" ".join(f"слово{n}" for n in range(25)))
    for pieces, *_ in many.asked:
        assert pieces.count(" AND ") < 2 * search_index.MAX_PIECES


@pytest.mark.parametrize("order", ["id DESC", "name, id"])
def test_short_words_alone_are_looked_for_in_the_newest_rows(many, monkeypatch, order):
    for q in ("рі", "р", "ол ра"):
        whole = many.found(q, order=order)
        monkeypatch.setattr(search, "MAX_SCANNED_ROWS", 1000)
        newest = many.found(q, order=order)
        monkeypatch.undo()
        assert 0 < len(newest) < len(whole)
        assert newest == [id for id in whole if id > 4000]
        assert many.found(f"{q} скрізь", order=order) == whole


@pytest.mark.parametrize("rows_at_once", [1, 7, 64, 400])
def test_the_index_follows_inserts_changes_and_deletions(leads, rows_at_once):
    dice = random.Random(3)
    for id in range(1, 300):
        leads.insert(id, dice.choice(PEOPLE), *dice.choices(WORDS, k=2), None)
        if id % rows_at_once == 0:
            leads.index_new()
        leads.change(dice.choice(list(leads.texts)), dice.choice(PEOPLE), dice.choice(WORDS))
        if dice.random() < 0.4:
            leads.delete(dice.choice(list(leads.texts)))
        if id % 50 == 0:
            leads.check()
    leads.check()
    for q in [*PEOPLE, *WORDS]:
        assert leads.found(q) == leads.expected(q)


@pytest.mark.files
def test_new_records_are_found_before_and_after_they_are_indexed(crm, api):
    """They are added to the index 64 at a time; the oldest, the newest and those between change."""
    ids = []
    for n in range(130):
        ids.append(api.create("/leads", name=f"Лід{n:03}", phone=f"+38067{n:07}"))
        assert api.read(f"/leads?q=лід{n:03}")[0]["id"] == ids[-1]
        if n % 10 == 0:
            for changed in {ids[n // 2], ids[-1]}:
                api.patch(f"/leads/{changed}", {"name": f"Змінений{changed}"})
                assert api.read(f"/leads?q=змінений{changed}")
            api.delete(f"/leads/{ids[n // 3]}")
    with closing(sqlite3.connect(crm.tenants.path("acme"))) as file:
        indexed = "SELECT last_indexed_id FROM search_progress WHERE table_name = 'lead'"
        assert file.execute(indexed).fetchone() == (128,)
        check_search_index(file, "lead")
    deleted = {ids[n // 3] for n in range(0, 130, 10)}
    found = {
        lead["id"] for q in ("лід", "змінений") for lead in api.read(f"/leads?q={q}&limit=200")
    }
    assert found == {*ids} - deleted


@contextmanager
def counted_steps():
    """Collect the work of the current session: hundreds of SQLite's steps, or the statements that
    look through all rows."""
    steps = []
    if on_postgres():
        with traced_statements() as statements:
            yield steps
        steps += [sql for sql in statements if "instr(" in sql and "json_each(" not in sql]
        return
    connection = current_session().connection
    connection.set_progress_handler(lambda: steps.append(1), 100)
    yield steps
    connection.set_progress_handler(None, 0)


def test_a_short_word_is_looked_for_once_by_a_list_and_its_count(crm, api):
    """All rows are read once: for each, a count would read them again."""
    with crm.tenants.session("acme"), transaction():
        execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
            " INSERT INTO lead (name, phone, status, currency, created_at, updated_at, search_text)"
            " SELECT 'Lead', '+380671234567', 'new', 'UAH', '2026', '2026', 'lead' FROM n"
        )
        index_new("lead")
    taken = {}
    for query in ("q=щщ", "q=щщ&total=true", "q=щщ&total=true&sort=name", "q=щщ lead&total=true"):
        with crm.tenants.session("acme"), counted_steps() as steps:
            read = LEAD_FILTER.read(MultiDict(pair.split("=") for pair in query.split("&")))
            result = pagination.page(LEAD, read, LEAD_FILTER.fields["sort"])
        assert not result.records
        assert result.meta == ({"total": 0} if "total" in query else {})
        taken[query] = len(steps)
    assert max(taken.values()) < 1.6 * taken["q=щщ"], taken
