"""The rules of the command line as a whole: whose folder, which tenant, helps, JSON, warnings."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from crm import cli
from crm.cli import commands
from crm.cli.doctor import installation_checks
from crm.config import Config, ConfigError
from crm.config.removed import REMOVED
from crm.copies import integrity
from crm.errors import Conflict
from tests.installations import config_for, copy_installation, environ_for
from tests.page_client import Person
from tests.server_process import ROOT, run_server

pytestmark = pytest.mark.usefixtures("own_log")
NOBODY = 65_534
GUIDES = ROOT / "crm" / "docs"
APP = (sys.executable, str(ROOT / "app.py"))
is_root = os.geteuid() == 0


@pytest.fixture
def data(furnished, tmp_path):
    """A data folder with the cast."""
    return copy_installation(furnished[0], tmp_path / "data")


def run(data: Path | None, *words: Any, code: int = 0, **env: str) -> Result:
    """What a command printed; it ended with `code`."""
    given = ["--data", str(data)] if data else []
    environ = environ_for(data) if data else {}
    result = CliRunner().invoke(cli.group, [*map(str, words), *given], env=environ | env)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def leaves(parent: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in parent.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, *path, name)
        else:
            yield (*path, name), command


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file's owner and size, and whether there are others."""
    return {
        str(path): (path.stat().st_uid, path.stat().st_size) for path in sorted(folder.rglob("*"))
    }


# Whose folder


@pytest.mark.process
@pytest.mark.parametrize("words", ["tenant list", "serve"])
def test_root_is_refused_the_folder_of_another_user(data, words):
    if not is_root:  # the same rule with the ids handed in
        with pytest.raises(Conflict, match=re.escape(f"sudo -u {integrity.user_name(NOBODY)} ")):
            commands._require_owner(config_for(data), NOBODY, 0)
        return
    for path in (data, *data.rglob("*")):
        os.chown(path, NOBODY, -1)
    before = files_of(data)
    command = [*APP, *words.split(), "--data", str(data)]
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environ_for(data), capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    line = ended.stderr.splitlines()[-1]
    name = integrity.user_name(NOBODY)
    assert f"{data} belongs to {name}, run this as that user: sudo " in line
    assert line.endswith(f"-u {name} {shlex.join(command)}")
    assert files_of(data) == before


def test_the_line_for_sudo_keeps_the_settings_of_the_environment(data):
    config = Config.load({"CRM_DATA": str(data), "CRM_PORT": "8001"})
    with pytest.raises(Conflict, match=r"sudo --preserve-env=CRM_DATA,CRM_PORT -u '#4242' "):
        commands._require_owner(config, 4242, 0)


def test_other_users_and_the_owner_are_not_refused(data):
    for owner, user in ((0, 0), (1000, 1000), (1000, 1001)):
        commands._require_owner(config_for(data), owner, user)


@pytest.mark.skipif(not is_root, reason="gives a folder away")
def test_what_uses_no_folder_is_for_root_too(data):
    os.chown(data, NOBODY, -1)
    for words in ("config", "systemd", "proxy nginx", "openapi"):
        run(data, *words.split())
    assert "belongs to" in run(data, "doctor", code=1).stderr


# A folder that is not there


@pytest.mark.files
@pytest.mark.parametrize("words", ["tenant list", "user list acme"])
def test_a_mistyped_folder_is_refused_with_2(tmp_path, words):
    place = tmp_path / "dtaa"
    result = run(place, *words.split(), code=2)
    assert (result.stdout, result.stderr.splitlines()[1:]) == (
        "", [f"Error: there is no data folder {place}, from the command line"])  # fmt: skip
    result = run(None, *words.split(), code=2, CRM_DATA=str(place))
    assert result.stderr.endswith(f"Error: there is no data folder {place}, from the environment\n")
    assert not place.exists()


# One word for the tenant


def test_the_tenant_is_the_first_argument_of_every_command():
    takes_tenant = set()
    for path, command in leaves(cli.group):
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        shown = [param.make_metavar(click.Context(command)).strip("[].") for param in arguments]
        if path != ("install",):  # of which the host is the subject
            assert "TENANT" not in shown[1:] and "LABEL" not in shown, path
        if path != ("trigger",):  # of which the kind of event is
            assert not {"--tenant", "--label"} & {o for p in command.params for o in p.opts}, path
        takes_tenant |= {" ".join(path)} if "TENANT" in shown else set()
    assert {"restore", "backup create", "products import", "tenant clone"} <= takes_tenant
    assert {"clients export", "key create"} <= takes_tenant


# Helps


@pytest.mark.parametrize(("path", "command"), list(leaves(cli.group)), ids=str)
def test_every_command_has_an_example_and_a_guide(path, command):
    if path == ("webhook", "listen"):
        return  # it has neither folder nor settings
    stdout = run(None, *path, "--help").stdout
    example, guide = re.search(r"Example: crm (.*)\n *Guide: +crm/docs/(\S+)\n", stdout).groups()
    words = shlex.split(example.partition(" > ")[0])
    assert tuple(words[: len(path)]) == path
    given = words[len(path) :]
    checked = [word for word in given if not word.endswith((".csv", ".db"))]
    with contextlib.suppress(click.MissingParameter):
        command.make_context("crm", [w if w in checked else str(ROOT / "app.py") for w in given])
    assert (GUIDES / guide).is_file()
    assert "[default: (CRM_DATA, else" in stdout


# The environment


def test_a_mistyped_variable_is_named_with_its_right_name(data):
    result = run(data, "tenant", "list", CRM_TENNANT="acme", CRM_ZZZ="1", PORT="1")
    assert result.stderr.splitlines()[1:] == [
        "warning: CRM_TENNANT is no setting, did you mean CRM_TENANT?"
    ]
    shown = run(data, "doctor", CRM_TENNANT="acme").stdout
    assert "warning  settings     CRM_TENNANT is no setting, did you mean CRM_TENANT?" in shown


# Names that are gone


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_name_ends_the_start_with_what_to_do_instead(data, name):
    line = f"{name} is gone: {REMOVED[name]}"
    if not name.startswith("CRM_"):
        for words in (name, f"{name} acme 1 --to x"):
            assert run(None, *words.split(), code=1).output == f"Error: {line}\n"
        return
    assert name not in [status.env for status in Config().describe()]
    assert run(data, "tenant", "list", code=1, **{name: ""}).output == f"Error: {line}\n"
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        Config.read(**{name.removeprefix("CRM_").lower(): "x"})
    (data / "crm.env").write_text(f"{name}=s3cret\n")
    stderr = run(data, "tenant", "list", code=1).stderr
    assert stderr == f"Error: {data / 'crm.env'}, line 1: {line}\n"


def test_with_one_served_tenant_no_other_gets_an_address(data):
    one = {"CRM_TENANT": "acme", "CRM_PUBLIC_URL": "https://crm.example.ua"}
    for words in ("tenant create initech", "tenant clone acme initech", "user login-link globex 1"):
        result = run(data, *words.split(), code=1, **one)
        label = words.split()[-1].replace("1", "globex")
        assert result.stderr.splitlines()[1] == (
            f"Error: CRM_TENANT is acme: {label} would have no address; unset it"
        )
    rows = json.loads(run(data, "tenant", "list", "--json", **one).stdout)
    assert [row["url"] for row in rows] == ["https://crm.example.ua", None]
    assert (
        "https://crm.example.ua/enter/" in run(data, "user", "login-link", "acme", 1, **one).stdout
    )


def test_a_server_for_a_tenant_that_is_not_there_says_so(data, monkeypatch):
    monkeypatch.setattr(cli.serving, "serve", lambda *_, **__: None)
    stderr = run(data, "serve", CRM_TENANT="nosuch").stderr
    said = [json.loads(line) for line in stderr.splitlines()]
    assert [line["message"] for line in said if line["level"] == "warning"] == [
        "CRM_TENANT is nosuch, and there is no such tenant: tenant create"
    ]


@pytest.mark.process
def test_the_doctor_has_the_settings_of_the_running_service(data):
    def checked(**env: str) -> list[dict[str, str]]:
        result = CliRunner().invoke(
            cli.group, ["doctor", "--json", "--data", str(data)], env=environ_for(data) | env
        )
        return json.loads(result.stdout)

    def console(results: list[dict[str, str]]) -> bool:
        return any(row["detail"].startswith("CRM_SMS=console") for row in results)

    assert console(checked())
    secret = {"CRM_SMS": "turbosms", "CRM_SMS_TOKEN": "s3cret", "CRM_SMS_SENDER": "Shop"}
    with run_server(data, **secret):
        assert not console(checked())
        assert console(checked(CRM_SMS="console"))  # what it is given itself goes first


def test_the_doctor_says_which_file_it_does_not_read(data, tmp_path, monkeypatch):
    secrets = tmp_path / "secrets"
    monkeypatch.setattr(installation_checks, "SECRETS_FILE", secrets)
    assert str(secrets) not in run(data, "doctor").stdout
    secrets.touch()
    assert f"warning  settings     {secrets} is not read: " in run(data, "doctor").stdout


def test_bytes_that_are_not_utf8_are_one_line(data):
    said = run(data, "user", "create", "acme", "--name", "\udcff", code=1).stderr
    assert "name: must not contain control characters or broken Unicode" in said
    for words in ("user login-link acme \udcff", "key list \udcff", "key revoke acme \udcff"):
        assert "Error: there is no " in run(data, *words.split(), code=1).stderr


# JSON for programs


def test_imports_migrations_copies_and_checks_are_told_as_json(data, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("sku,name,price\na,Nut,1\nb,Bolt,cheap\n")
    body = json.loads(run(data, "products", "import", "acme", prices, "--json", code=1).stdout)
    assert {body["created"], body["rejected"], body["skipped"]} == {1}
    assert body["errors"][0]["line"] == 3
    rows = json.loads(run(data, "migrate", "--json").stdout)
    assert [row["tenant"] for row in rows] == ["acme", "globex"]
    assert all(row["version"] == row["was"] > 0 for row in rows)
    copy = run(data, "backup", "create", "acme", "--to", tmp_path / "copies").stdout.split("\t")[0]
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"not a database" * 100)
    rows = json.loads(run(data, "backup", "verify", copy, bad, "--json", code=1).stdout)
    assert [row["file"] for row in rows] == [copy, str(bad)]
    assert rows[0]["version"] > 0 and rows[1]["version"] is None
    results = json.loads(run(data, "doctor", "--json").stdout)
    assert {"level", "check", "detail"} == set(results[0])
    assert {"settings", "tenants", "disk"} <= {row["check"] for row in results}


# Users and webhooks


def test_a_user_is_changed_and_deactivated(data):
    def users() -> dict[str, dict[str, Any]]:
        return {r["id"]: r for r in json.loads(run(data, "user", "list", "acme", "--json").stdout)}

    run(data, "user", "update", "acme", "2", "--name", "Тарас", "--email", "t@a.example")
    run(data, "user", "update", "acme", "T@a.example", "--role", "viewer", "--phone", "0671230000")
    taras = users()["2"]
    assert taras | {"name": "Тарас", "role": "viewer", "phone": "+380671230000"} == taras
    run(data, "user", "update", "acme", "2", "--email", "")
    assert users()["2"]["email"] is None
    assert "nothing to change" in run(data, "user", "update", "acme", "2", code=2).stderr
    file = data.parent / "leads.csv"
    file.write_text("name,phone,assigned_to\nМарія,0501234567,Тарас\n", "utf-8")
    run(data, "leads", "import", "acme", file)
    end = ("user", "deactivate", "acme", "+380671230000", "--hand-over-to", "nobody")
    assert run(data, *end).stdout == "open leads: 1, deals: 0, tasks: 0\n"
    assert users()["2"]["active"] is False
    assert "Тарас" not in run(data, "leads", "export", "acme").stdout
    said = run(data, "user", "deactivate", "acme", "1", code=1).stderr
    assert "somebody must stay an active owner" in said


# The owner's ways in


def test_a_new_tenant_tells_how_its_owner_logs_in_later(tmp_path):
    def said(label: str, *words: str) -> list[str]:
        result = run(tmp_path / "data", "tenant", "create", label, *words)
        _, link, *lines = result.stderr.splitlines()
        assert "within 15 minutes" in link
        return lines

    again = "`user login-link {} 1` makes another link".format
    url = "http://{}.localhost:8000".format
    assert said("one", "--owner-phone", "0671112233", "--owner-email", "o@a.example") == [
        f"later at {url('one')}/login by a code sent to +380671112233, or by a password that"
        f" {url('one')}/forgot lets them set",
        again("one"),
    ]
    assert said("two") == ["there they can choose how to log in later", again("two")]


def test_a_terminal_is_asked_for_the_owners_phone_and_mail(tmp_path, monkeypatch):
    data = tmp_path / "data"
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("crm.cli.tenants.sys", terminal)
    command = ["tenant", "create", "acme", "--data", str(data)]
    typed = "\nolena@acme.example\n"
    result = CliRunner().invoke(cli.group, command, input=typed, env=environ_for(data))
    assert "The owner's phone, for login by a code (empty: none): " in result.stderr
    assert "by a password that http://acme.localhost:8000/forgot" in result.stderr
    (owner,) = json.loads(run(data, "user", "list", "acme", "--json").stdout)
    assert (owner["email"], owner["phone"]) == ("olena@acme.example", None)


# Starting and stopping


def test_an_export_names_the_path_that_it_was_given(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run(data, "tenant", "export", "acme", "--to", "nosuch/acme.zip", code=1).stderr
    assert said.splitlines()[1] == "Error: No such file or directory: nosuch/acme.zip"


def test_a_person_without_an_address_chooses_a_login_by_the_link(crm, tmp_path):
    folder = crm.tenants.config.data
    run(folder, "tenant", "create", "initech", "--owner-name", "Оля")

    def enter(**sent: str) -> tuple[Person, Any]:
        link = run(folder, "user", "login-link", "initech", "1").stdout.strip()
        path = "/" + link.split("/", 3)[3]
        person = Person(crm, "initech")
        return person, (person.get(path) if not sent else person.post(path, sent))

    _, page = enter()
    assert 'name="email"' in page.text and 'name="password"' in page.text
    _, page = enter(email="дім", password="long enough 1")
    assert page.status_code == 422
    _, page = enter(email="olia@initech.example", password="short")
    assert page.status_code == 422
    person, page = enter(email="Olia@initech.example", password="long enough 1")
    assert (page.status_code, page.location) == (303, "/")
    later = Person(crm, "initech")
    sent = {"email": "olia@initech.example", "password": "long enough 1"}
    assert later.post("/login/password", sent).location == "/"
    # Whoever has an address sets no password by a link.
    person, page = enter(email="other@initech.example", password="another one 2")
    assert page.location == "/"
    assert Person(crm, "initech").post("/login/password", sent).location == "/"


@pytest.mark.process
def test_garbage_is_collected_once_all_is_imported():
    program = "import atexit, gc, runpy; atexit.register(lambda: print(gc.isenabled()))"
    program += f"; runpy.run_path({APP[1]!r}, run_name='__main__')"
    assert subprocess.check_output([APP[0], "-c", program, "--help"]).endswith(b"True\n")
