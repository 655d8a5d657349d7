"""Files of other programs from the command line: --map, --save-map, and questions on a terminal."""

import json
import shlex

import pytest
from click.testing import CliRunner, Result

from crm import cli
from crm.spreadsheets import find_resource
from crm.spreadsheets.foreign.proposals import propose
from crm.storage.session import rows
from tests.conftest import TARAS
from tests.installations import environ_for
from tests.spreadsheets.test_guesses import COLUMNS, FOLDER

FILE = "Хто;Чим;Розмір;Порожній\nОлена;067 123 45 67;XL;\n"


@pytest.fixture
def run(crm, tmp_path, monkeypatch):
    (tmp_path / "leads.csv").write_text(FILE, "utf-8")
    crm.tenants.forget_idle()

    def run(
        *words: str,
        typed: str | None = None,
        code: int = 0,
        name: str = "leads.csv",
        plural: str = "leads",
    ) -> Result:
        if typed is not None:
            monkeypatch.setattr("crm.cli.spreadsheets._is_terminal", lambda: True)
        command = [plural, "import", "acme", str(tmp_path / name), *map(str, words)]
        command += ["--data", str(crm.tenants.config.data)]
        env = environ_for(crm.tenants.config.data)
        result = CliRunner().invoke(cli.group, command, input=typed, env=env)
        assert result.exit_code == code, result.output
        return result

    return run


def leads(crm) -> list[tuple]:
    with crm.tenants.session("acme"):
        return rows("SELECT name, phone, extra FROM lead ORDER BY id")


def test_a_file_says_what_each_column_is(crm, run, tmp_path):
    mapping = {"Хто": "name", "Чим": "phone"}
    path = tmp_path / "map.json"
    path.write_text(json.dumps(mapping), "utf-8")
    assert "left out: Розмір" in run("--map", path).stderr
    assert leads(crm) == [("Олена", "+380671234567", None)]


def test_a_mapping_adds_fields(crm, run):
    mapping = {"Хто": "name", "Чим": "phone", "Розмір": {"new_field": {"label": "Size"}}}
    assert "must be {" in run("--map", json.dumps({**mapping, "Хто": {}}), code=1).output
    run("--map", json.dumps(mapping))
    with crm.tenants.session("acme"):
        assert rows("SELECT custom FROM lead") == [('{"size":"XL"}',)]


@pytest.mark.parametrize("text", ["[]", "{", '"name"', "1"])
def test_a_file_that_is_no_mapping_is_told(run, tmp_path, text):
    path = tmp_path / "map.json"
    path.write_text(text, "utf-8")
    assert "map.json must have JSON" in run("--map", path, code=1).output


def test_a_wrong_field_is_told_with_its_column(crm, run, tmp_path):
    path = tmp_path / "map.json"
    path.write_text('{"Хто": "nmae"}', "utf-8")
    output = run("--map", path, code=1).output
    assert "Хто" in output and "nmae" in output and leads(crm) == []


def test_without_a_terminal_nothing_is_asked_and_the_refusal_has_the_guess(crm, run, tmp_path):
    text = FILE.replace("Хто", "Ім'я").replace("Чим", "Телефон")
    (tmp_path / "leads.csv").write_text(text, "utf-8")
    output = run(code=1).output
    assert "unknown columns" in output and leads(crm) == []
    option, mapping = shlex.split(output.rpartition(" by ")[2])
    assert json.loads(mapping) == {
        "Ім'я": "name",
        "Телефон": "phone",
        "Розмір": None,
        "Порожній": None,
    }
    run(option, mapping)
    assert leads(crm) == [("Олена", "+380671234567", None)]


def test_on_a_terminal_each_column_is_asked_and_the_answers_are_kept(crm, run, tmp_path):
    path = tmp_path / "map.json"
    typed = "name\nнема\nphone\n\n"
    output = run("--save-map", path, typed=typed).output
    assert "Хто (Олена)" in output and "Порожній" not in output
    assert leads(crm) == [("Олена", "+380671234567", None)]
    run("--map", path)
    assert len(leads(crm)) == 2


def test_our_own_columns_are_asked_about_nowhere(crm, run, tmp_path):
    (tmp_path / "own.csv").write_text("name,phone\nОлена,067 123 45 67\n", "utf-8")
    run(typed="", name="own.csv")
    assert leads(crm) == [("Олена", "+380671234567", None)]


def test_the_order_of_dates_and_the_decimal_mark_are_asked_where_nothing_tells_them(
    crm, run, tmp_path
):
    text = "ПІБ;Телефон;Дата створення;Сума\nОлена;067 123 45 67;03/04/2024;1,250\n"
    (tmp_path / "dates.csv").write_text(text, "utf-8")
    run(typed="\n\n\n\nmonth\npoint\n", name="dates.csv")
    with crm.tenants.session("acme"):
        assert rows("SELECT created_at, amount FROM lead") == [("2024-03-03T22:00:00Z", 12500000)]


# Rows that a file of test_guesses.py has without a field that they need, or with a pipeline that
# does not exist, which no import creates.
REJECTED = {"03-prom-products": 2, "05-bas-price-list": 1, "28-amocrm-deals": 2}


@pytest.mark.parametrize(("file", "plural"), sorted(COLUMNS))
def test_the_file_of_a_program_comes_in_by_its_guessed_columns(crm, run, file, plural):
    """The first answer to each question is the guess; colleagues and others are created."""
    path, rejected = FOLDER / f"{file}.csv", REJECTED.get(file, 0)
    with crm.tenants.session("acme"):
        proposal = propose(path.read_bytes(), find_resource(plural))
    asked = sum(bool(guess.samples) for guess in proposal.guesses)
    typed = "\n" * asked + "create\n" * 9
    result = run("--json", typed=typed, code=int(rejected > 0), name=path, plural=plural)
    counts = json.loads(result.output.splitlines()[-1])
    assert counts["rejected"] == rejected
    assert counts["created"] + counts["updated"] + rejected == proposal.entries > 0


def test_one_that_exists_may_be_named_for_an_unknown_one(crm, run, tmp_path):
    text = "ПІБ;Телефон;Менеджер;Статус\n"
    text += "Олена;067 123 45 67;Хтось;дивний\nІгор;067 123 45 68;Інша;новий\n"
    (tmp_path / "unknown.csv").write_text(text, "utf-8")
    path = tmp_path / "map.json"
    typed = "\n\n\nstatus\n=\n=Taras\nskip\n=in_progress\n"
    run("--save-map", path, typed=typed, name="unknown.csv")
    sql = "SELECT name, assigned_to, status FROM lead ORDER BY id"
    expected = [("Олена", TARAS, "in_progress"), ("Ігор", None, "new")]
    with crm.tenants.session("acme"):
        assert rows(sql) == expected
    run("--map", path, name="unknown.csv")
    with crm.tenants.session("acme"):
        assert rows(sql) == expected * 2
