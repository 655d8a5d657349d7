"""The command line, alone and beside a running server; few real processes, for they are slow."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import xlsxwriter
from click.testing import CliRunner, Result

from crm import CRMApp, cli, create_app, server
from crm.access import api_keys, links
from crm.cli.serving import default_workers
from crm.config import LOOPBACK
from crm.installation.tenants import Tenants
from crm.outbox import signature
from crm.start import main
from crm.storage.session import time_before
from tests.cases import loop_over
from tests.conftest import Api
from tests.http_calls import Answer, ask
from tests.installations import config_for, copy_installation, environ_for
from tests.server_process import find_free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("own_log")
ROOT = Path(__file__).resolve().parents[2]
APP = (sys.executable, "-W", "error", str(ROOT / "app.py"))
HEADER = "sku,name,price,unit,category,description,active\n"
SOON_SECONDS = 5  # within one, as the guide says, of a machine that is not busy
KEY = re.compile(r"crm_[0-9A-Za-z]{46}")


class Folder:
    """A data folder and the command line upon it."""

    def __init__(self, path: Path, new_app: Callable[..., CRMApp]):
        self.path, self.new_app = path, new_app

    def run(self, *words: Any, code: int = 0, env: dict[str, str] | None = None) -> Result:
        """What a command printed; it ended with `code`."""
        result = CliRunner().invoke(
            cli.group,
            [*map(str, words), "--data", str(self.path)],
            prog_name="crm",
            env=environ_for(self.path) | (env or {}),
        )
        assert result.exit_code == code, (result.output, result.exception)
        if code < 2 and words[0] not in ("serve", "demo"):
            assert result.stderr.startswith(f"data folder: {self.path}\n")
        return result

    def refused(self, *words: Any) -> str:
        """The one line that a command ended with."""
        result = self.run(*words, code=1)
        assert result.stdout == ""
        *before, line = result.stderr.splitlines()
        assert len(before) == (words[0] != "demo")  # the data folder
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")

    def key(self, *words: str, tenant: str = "acme") -> str:
        key = self.run("key", "create", tenant, "--name", "robot", *words).stdout
        assert KEY.fullmatch(key.removesuffix("\n"))
        return key.strip()

    def expired_key(self) -> str:
        """The key of a robot, which no command makes any more."""
        with self.session():
            return api_keys.create("robot", "*", 1, expires_at="2026-01-01T00:00:00Z")[1]

    def id_of(self, key: str, tenant: str = "acme") -> str:
        return self.api(key, tenant).read("/users/me")["key"]["id"]

    def api(self, key: str, tenant: str = "acme") -> Api:
        """A caller of an application of its own, as a server beside the command line is."""
        return Api(self.new_app(config_for(self.path), sends=False), tenant, key)

    @contextlib.contextmanager
    def session(self, label: str = "acme") -> Iterator[None]:
        """A session of a tenant, for what a sender does."""
        tenants = Tenants(config_for(self.path, webhook_allow=LOOPBACK))
        with tenants.session(label):
            yield
        tenants.forget_idle()

    def rows(self, *words: Any) -> list[list[str]]:
        """A printed table without its headings, whose cells may have single spaces."""
        _, *lines = self.run(*words).stdout.splitlines()
        return [re.split(r"  +", line) for line in lines]

    def file(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text)
        return path


@pytest.fixture
def folder(furnished, tmp_path, new_app):
    """A folder with the cast."""
    copy_installation(furnished[0], tmp_path / "data")
    return Folder(tmp_path / "data", new_app)


@pytest.fixture
def empty(tmp_path, new_app):
    return Folder(tmp_path / "empty", new_app)


@pytest.fixture
def olena(folder, furnished):
    return folder.api(furnished[1]["olena"])


# What all commands have in common

MOVED = {
    "clients": "name,phone,contact_name\nРомашка,0441234567,=Олена\n,,Ігор\nЛипа,0441234568,\n",
    "deals": 'title,amount,item_name,item_price\n+Столи,,Стіл,"1,5"\n,,Шафа,2\nЛави,"10,50",,\n',
    "leads": "name,phone,tags\n@Марія,0671234567,опт\nІгор,0671234568,\n",
    "products": 'sku,name,price,description,active\na,"Гайка, М6","1,5",=1+1,так\nb,Nut,2.25,,ні\n',
    "tasks": "title,status,due_at\n-Дзвінок,done,2026-01-01\nЛист,open,\n",
}
OF_A_TENANT = {
    "trigger": ("deal.won", "--tenant", "acme"),
    "tenant plan": ("acme", "pro"),
    "tenant suspend": ("acme",),
    "tenant resume": ("acme",),
    "tenant export": ("acme", "--to", "-"),
    "tenant clone": ("acme", "initech"),
    "user create": ("acme", "--name", "Pavlo"),
    "user update": ("acme", "1", "--name", "Olha"),
    "user deactivate": ("acme", "2"),
    "user list": ("acme",),
    "user login-link": ("acme", "1"),
    "key create": ("acme", "--name", "robot"),
    "key list": ("acme",),
    "key revoke": ("acme", "1"),
    **{f"{noun} export": ("acme",) for noun in MOVED},
}


@pytest.mark.process
def test_the_doors_are_the_same_command_line(folder, tmp_path):
    doors = {
        "app.py": APP,
        "python -m crm": (sys.executable, "-W", "error", "-m", "crm"),
        "python -m flask crm": (sys.executable, "-m", "flask", "--app", "app", "crm"),
    }
    data = {"CRM_DATA": str(folder.path), **environ_for(folder.path)}
    tenants = (
        "TENANT  PLAN      STATE   NAME\n"
        "acme    business  active  Acme\n"
        "globex  business  active  globex\n"
    )
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> subprocess.Popen[str]:
            return stack.enter_context(running(list(command), tmp_path, **data))

        listing = start(*APP, "tenant", "list")
        misused = {name: start(*door, "tenant", "create") for name, door in doors.items()}
        assert listing.communicate(timeout=30) == (tenants, f"data folder: {folder.path}\n")
        assert listing.returncode == 0
        for name, process in misused.items():
            out, err = process.communicate(timeout=30)
            assert (out, err.split(" [")[0]) == ("", f"Usage: {name} tenant create")
            assert process.returncode == 2
    project = (ROOT / "pyproject.toml").read_text()
    (script,) = re.findall(r'^\[project.scripts\]\ncrm = "(\S+)"$', project, re.M)
    assert script == f"{main.__module__}:{main.__name__}"


@loop_over("words", OF_A_TENANT)
def test_an_unknown_tenant_is_named(empty, words):
    empty.path.mkdir(exist_ok=True)
    assert empty.refused(*words.split(), *OF_A_TENANT[words]) == "there is no tenant acme"
    assert not list(empty.path.iterdir())


@pytest.mark.files
def test_a_damaged_file_is_one_line(folder):
    (folder.path / "tenants" / "acme.db").write_bytes(b"not a database " * 1000)
    for words in (("tenant", "list"), ("products", "export", "acme")):
        assert folder.refused(*words).startswith("the file of acme cannot be used: ")


def test_an_unreadable_folder_is_one_line(tmp_path, new_app):
    (tmp_path / "file").touch()
    inside = Folder(tmp_path / "file" / "data", new_app)
    assert (
        inside.refused("tenant", "create", "acme") == f"Not a directory: {inside.path / 'tenants'}"
    )


@pytest.mark.process
def test_a_reader_that_goes_away_is_no_error(folder, tmp_path):
    rows = "".join(f"s{n},{'Nut ' * 50},1,,,,\n" for n in range(1000))
    folder.run("products", "import", "acme", folder.file("long.csv", HEADER + rows))
    export = [*APP, "products", "export", "acme", "--data", str(folder.path)]
    with running(export, tmp_path, **environ_for(folder.path)) as started:
        assert started.stdout
        started.stdout.close()
        assert started.communicate(timeout=30)[1] == f"data folder: {folder.path}\n"
        assert started.returncode == 1


# Tenants


def test_tenant_create_makes_an_owner_and_a_pipeline(empty):
    person = ("--owner-name", "Olena", "--owner-email", "O@acme.example")
    given = ("--name", "Acme Ltd", "--plan", "base", *person, "--owner-phone", "050 111 00 01")
    assert empty.run("tenant", "create", "acme", *given).stdout == "http://acme.localhost:8000\n"
    api = empty.api(empty.key())
    me = api.read("/users/me")
    assert (me["name"], me["role"], me["phone"]) == ("Olena", "owner", "+380501110001")
    assert me["tenant"] == {"name": "Acme Ltd", "plan": "base"}
    (pipeline,) = api.read("/pipelines")
    assert pipeline["name"] == "Sales"
    assert [stage["name"] for stage in pipeline["stages"]] == [
        *("New", "Qualified", "Proposal", "Negotiation", "Won", "Lost"),
    ]


def test_what_makes_no_tenant(folder):
    assert folder.refused("tenant", "create", "acme") == "the label acme is taken"
    for label in ("Acme", "a_b", "../acme"):
        said = folder.refused("tenant", "create", label)
        assert said == "label: use lower-case Latin letters, digits and hyphen"
    said = folder.refused("tenant", "create", "www")
    assert said == "label: it is reserved: choose another"
    create = ("tenant", "create", "initech")
    assert folder.refused(*create, "--owner-phone", "12").startswith("phone: ")
    assert folder.refused(*create, "--owner-email", "@").startswith("email: ")
    folder.run(*create, "--plan", "gold", code=2)
    assert "initech" not in folder.run("tenant", "list").stdout


# Users and keys


@pytest.mark.parametrize("user", ["1", "Olena@acme.example"])
def test_a_login_link_lets_its_user_in_once(folder, user):
    result = folder.run("user", "login-link", "acme", user)
    assert result.stderr.endswith("the link is valid for 15 minutes\n")
    match = re.fullmatch(r"http://acme\.localhost:8000/enter/([\w-]{43})\n", result.stdout)
    with folder.session():
        assert links.use(links.LOGIN, match[1]).user_id == 1
        assert links.use(links.LOGIN, match[1]) is None


@pytest.mark.parametrize("user", ["9", "a@b.cd"])
def test_nobody_gets_no_login_link(folder, user):
    said = f"there is no active user {user}".strip()
    assert folder.refused("user", "login-link", "acme", user) == said


def test_a_key_has_its_scopes_user_and_expiry(folder):
    taras = folder.api(
        folder.key("--scopes", "leads:read", "--user", "2", "--expires", "2099-01-01")
    )
    assert taras.read("/users/me")["name"] == "Taras"
    assert taras.read("/leads") == []
    assert taras.get("/clients").status_code == 403
    over = folder.api(folder.expired_key())
    assert over.get("/leads").status_code == 401


def test_a_key_of_a_preset_has_its_rights_and_expiry_unless_others_are_given(folder):
    usual = folder.api(folder.key("--preset", "assistant"))
    assert usual.read("/users/me")["key"]["scopes"] == sorted(api_keys.ASSISTANT_SCOPES)
    folder.key("--preset", "assistant", "--scopes", "leads:read", "--expires", "2099-01-01")
    with folder.session():
        first, second = api_keys.list_all()[-2:]
        assert first.preset == second.preset == "assistant"
        assert time_before(-89 * 86_400) < first.expires_at < time_before(-91 * 86_400)
        assert (second.scopes, second.expires_at[:4]) == ("leads:read", "2099")


@loop_over(
    ("words", "said"),
    [
        (("--scopes", "leads:steal"), "leads:steal"),
        (("--user", "999"), "user_id: there is no active user with this id"),
        (("--expires", "soon"), "expires: is a date, or a time with its offset"),
        (("--expires", "2020-01-01"), "expires: is in the past"),
        (("--origins", "https://shop.example.ua"), "only a leads:create key names origins"),
        (("--name", " "), "name: a key needs a name"),
    ],
)
def test_what_makes_no_key(folder, words, said):
    before = folder.run("key", "list", "acme").stdout
    assert said in folder.refused("key", "create", "acme", "--name", "robot", *words)
    assert folder.run("key", "list", "acme").stdout == before


def test_key_list_never_shows_a_key(folder):
    keys = [
        folder.key(),
        folder.key("--scopes", "leads:read"),
        folder.expired_key(),
    ]
    folder.run("key", "revoke", "acme", folder.id_of(keys[0]))
    columns = folder.rows("key", "list", "acme")[-3:]
    assert [row[5] for row in columns] == ["revoked", "live", "expired"]
    assert [row[2] for row in columns] == ["*", "leads:read", "*"]
    assert columns[1][3:5] == ["1", "never"]
    printed = (
        folder.run("key", "list", "acme").stdout
        + folder.run("key", "list", "acme", "--json").stdout
    )
    for key, row in zip(keys, columns, strict=True):
        assert row[1] == f"{key[:8]}…"
        assert key[8:16] not in printed


def test_a_revoked_key_is_refused(folder):
    key = folder.key()
    api = folder.api(key)
    id = folder.id_of(key)
    said = folder.run("key", "revoke", "acme", id).stdout
    assert said == f"the key {id} (robot) is refused from now on\n"
    assert api.get("/leads").status_code == 401
    said = folder.run("key", "revoke", "acme", id).stdout
    assert re.fullmatch(rf"the key {id} \(robot\) is refused since 20\S+Z\n", said)
    assert folder.refused("key", "revoke", "acme", "999") == "there is no key 999"
    assert folder.refused("key", "revoke", "acme", "x") == "there is no key x"


# The price list


def test_import_products_with_a_report(folder, olena):
    prices = folder.file("prices.csv", f"{HEADER}a,Nut,1.50,,,,\nb,Bolt,cheap,,,,\n,Nail,1,,,,\n")
    words = ("products", "import", "acme", prices)
    dry = folder.run(*words, "--dry-run", code=1)
    assert olena.read("/products") == []
    result = folder.run(*words, code=1)
    assert dry.output == result.output
    assert result.stdout == "created 1, updated 0, skipped 2 (0 unchanged, 2 rejected)\n"
    _, first, second = result.stderr.splitlines()
    assert first.startswith("line 3: price: ")
    assert second.startswith("line 4: sku: ")
    (product,) = olena.read("/products")
    assert (product["sku"], product["price"]) == ("a", 1.5)
    assert olena.kinds() == ["product.imported"]
    again = folder.run(*words, code=1).stdout
    assert again == "created 0, updated 0, skipped 3 (1 unchanged, 2 rejected)\n"


@pytest.mark.process
def test_a_workbook_is_exported_and_imported(folder):
    rows = 'a,"Гайка, М6","1,5",шт,Кріплення,=1+1,так\nb,Nut,2.25,,,,ні\n'
    folder.run("products", "import", "acme", folder.file("prices.csv", HEADER + rows))
    exported = folder.run("products", "export", "acme", "--xlsx", "uk").stdout_bytes
    assert exported.startswith(b"PK")
    copy = folder.path / "copy.xlsx"
    copy.write_bytes(exported)
    command = ("products", "import", "acme", copy)
    unchanged = "created 0, updated 0, skipped 2 (2 unchanged, 0 rejected)\n"
    assert folder.run(*command).stdout == unchanged
    assert folder.run(*command, "--sheet", "Sheet1").stdout == unchanged
    refused = folder.run(*command, "--sheet", "Sheet2", code=1).stderr
    assert "there is no sheet “Sheet2”: the sheets are Sheet1" in refused


@pytest.mark.process
def test_hidden_rows_of_a_workbook_are_counted_and_read_if_asked(folder):
    with xlsxwriter.Workbook(folder.path / "prices.xlsx") as book:
        sheet = book.add_worksheet()
        for number, row in enumerate(
            [["sku", "name", "price"], ["a", "Nut", "=1"], ["b", "Nut", 2]]
        ):
            sheet.write_row(number, 0, row)
        sheet.set_row(2, options={"hidden": True})
    command = ("products", "import", "acme", folder.path / "prices.xlsx", "--dry-run")
    shown = folder.run(*command)
    assert shown.stdout.startswith("created 1,")
    assert "1 hidden rows are left out\n1 formulas are read with their last results" in shown.stderr
    assert folder.run(*command, "--hidden-rows").stdout.startswith("created 2,")


# Moving in


@pytest.mark.parametrize("noun", MOVED)
def test_every_noun_moves_in_and_out(folder, olena, noun):
    dialect = ["--excel"] if noun == "deals" else []
    sent = folder.file("sent.csv", MOVED[noun])
    words = (noun, "import", "acme", sent)
    result = "created 2, updated 0, skipped 0 (0 unchanged, 0 rejected)\n"
    assert folder.run(*words, "--dry-run").stdout == result
    assert olena.read(f"/{noun}") == []
    assert folder.run(*words).stdout == result
    assert len(olena.read(f"/{noun}")) == 2
    result = folder.run(noun, "export", "acme", *dialect)
    copy = folder.path / "copy.csv"
    copy.write_bytes(result.stdout_bytes)
    again = folder.run(noun, "import", "acme", copy, *dialect).stdout
    assert again == "created 0, updated 0, skipped 2 (2 unchanged, 0 rejected)\n"


# A receiver for a laptop

SECRET = signature.new_secret()
EVENT = {"id": "evt_1", "type": "lead.created", "sequence": 7, "data": {"lead": {"name": "Марія"}}}


@contextlib.contextmanager
def listening(home: Path, port: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*APP, "webhook", "listen", "--port", str(port), *words]
    with running(command, home) as started:
        assert started.stdout
        assert started.stdout.readline() == f"listening on http://127.0.0.1:{port}/\n"
        yield started


@pytest.mark.process
def test_listen_shows_what_comes_until_ctrl_c(tmp_path):
    port = find_free_port()
    with listening(tmp_path, port, "--secret", SECRET, "--status", "202") as started:
        body = json.dumps(EVENT).encode()
        signed = signature.make_headers([SECRET], "evt_1", int(time.time()), body)
        for headers, status in ((signed, 202), (signed | {"webhook-id": "evt_2"}, 400)):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as link:
                link.request("POST", "/", body, headers)
                assert link.getresponse().status == status
        for said in ("signature good", "signature bad: "):
            while said not in started.stdout.readline():
                pass
        while started.stdout.readline() != "}\n":
            pass
        taken = listen("--port", port)
        line = f"Error: cannot listen on port {port}: Address already in use\n"
        assert (taken.exit_code, taken.stderr) == (1, line)
        os.killpg(started.pid, signal.SIGINT)
        assert started.communicate(timeout=10) == ("", "")
        assert started.returncode == 0
    assert not (tmp_path / "data").exists()


def listen(*words: Any) -> Result:
    return CliRunner().invoke(cli.group, ["webhook", "listen", *map(str, words)])


@loop_over("secret", ["", "whsec_", "whsec_not base64", "whsec_Ї", f"{SECRET}="])
def test_what_is_no_secret_is_not_repeated(secret):
    result = listen("--port", find_free_port(), "--secret", secret)
    assert result.exit_code == 2
    assert "a secret looks like whsec_…" in result.stderr
    assert not secret.removeprefix("whsec_") or secret not in result.output


# The document, and what serve is given


def test_serve_takes_its_port_from_the_option_else_the_environment(folder, monkeypatch):
    taken = []

    def serve(*given: Any, announce: Callable[[], None], **options: Any) -> None:
        assert isinstance(given[0].__self__, CRMApp), "made before processes are forked"
        taken.append((*given[1:], options["workers"], options["threads"], options["behind_proxy"]))
        announce()

    monkeypatch.setattr(cli.serving, "serve", serve)
    env = {"CRM_PORT": "9123"}
    result = folder.run("serve", env=env)
    said = [json.loads(line)["message"] for line in result.stderr.splitlines()]
    tenant = "http://<label>.localhost:9123"
    assert said == [
        f"data folder: {folder.path}",
        "listening on http://127.0.0.1:9123",
        f"workspace: {tenant}/",
        f"API: {tenant}/api/v1, documentation: {tenant}/api/v1/docs",
    ]
    one = {"CRM_TENANT": "acme", "CRM_PUBLIC_URL": "https://crm.example.ua"}
    *_, workspace, api = folder.run("serve", env=env | one).stderr.splitlines()
    assert json.loads(workspace)["message"] == "workspace: https://crm.example.ua/"
    assert "API: https://crm.example.ua/api/v1, " in json.loads(api)["message"]
    taken.pop()
    options = ("--port", "9124", "--host", "0.0.0.0", "--threads", "8", "--workers", "3")
    folder.run("serve", *options, env=env | {"CRM_TRUSTED_PROXIES": "1"})
    folder.run("serve", env={"CRM_PORT": None})
    assert taken == [
        (folder.path, "127.0.0.1", 9123, default_workers(), 4, False),
        (folder.path, "0.0.0.0", 9124, 3, 8, True),
        (folder.path, "127.0.0.1", 8000, default_workers(), 4, False),
    ]


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (3, 3), (7, 4)])
def test_serve_makes_a_process_for_each_core_but_never_more_than_four(monkeypatch, cores, workers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert default_workers() == workers


# Beside a running server


@contextlib.contextmanager
def running(command: list[str], home: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A real process, which ends with the test whatever becomes of it; capitals are its
    environment."""
    env = {name: more.pop(name) for name in list(more) if name.isupper()}
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        **{"stderr": subprocess.PIPE, **more},
        text=True,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate(timeout=10)


@pytest.fixture(scope="module")
def beside(furnished, tmp_path_factory):
    """A folder with the cast, and the port of a real server on it. The plan pro has no limit."""
    home = tmp_path_factory.mktemp("beside")
    copy_installation(furnished[0], home / "data")
    port = find_free_port()
    serve = [*APP, "serve", "--port", str(port), "--data", str(home / "data")]
    env = {"CRM_PLANS": "pro=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8", "CRM_LOG": "warnings"}
    env |= environ_for(home / "data")
    with running(serve, home, **env) as server:
        assert server.stderr
        said = [json.loads(server.stderr.readline())["message"] for _ in range(4)]
        listens = f"listening on http://127.0.0.1:{port}"
        assert said[:2] == [f"data folder: {home / 'data'}", listens]
        yield Folder(home / "data", create_app), port
        server.terminate()
        assert server.communicate(timeout=20) == ("", "")
        assert server.returncode == 0


@pytest.mark.process
def test_what_the_command_line_changes_holds_soon(beside):
    folder, port = beside
    said = folder.run("tenant", "create", "initech", "--owner-name", "Bill").stdout
    assert said == f"http://initech.localhost:{port}\n"  # of the running server
    assert f":{port}: scheme and host arrive" in folder.run("doctor").stdout
    key = folder.key(tenant="initech")

    def get(path: str) -> Answer:
        return ask(port, "GET", f"/api/v1{path}", key=key, label="initech")

    assert [user["name"] for user in get("/users").json["data"]] == ["Bill"]
    assert get("/leads").headers["X-RateLimit-Limit"] == "5000"
    folder.run("tenant", "plan", "initech", "base")
    wait_for(lambda: get("/leads").headers["X-RateLimit-Limit"] == "300", SOON_SECONDS)
    folder.run("tenant", "suspend", "initech")
    wait_for(lambda: get("/leads").json.get("code") == "tenant_suspended", SOON_SECONDS)
    folder.run("tenant", "resume", "initech")
    wait_for(lambda: get("/leads").status == 200, SOON_SECONDS)
    id = folder.run("user", "create", "initech", "--name", "Pavlo").stdout.strip()
    wait_for(lambda: id in [user["id"] for user in get("/users").json["data"]], SOON_SECONDS)
    folder.run("key", "revoke", "initech", get("/users/me").json["key"]["id"])
    wait_for(lambda: get("/leads").status == 401, SOON_SECONDS)


@pytest.mark.process
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_second_serve_on_the_folder_is_refused_but_at_the_same_port(beside, monkeypatch, command):
    folder, port = beside
    monkeypatch.setattr(server, "TAKEOVER_SECONDS", 0.2)
    said = folder.refused(command, "--port", str(find_free_port()))
    assert re.fullmatch(rf"another serve runs on {re.escape(str(folder.path))} \(pid \d+\)", said)
    assert ", at this port" in folder.run(command, "--port", str(port)).stderr


# Lists

LISTS = {
    "tenant list": ("tenant", "plan", "state", "name", "created_at", "url"),
    "user list": ("id", "name", "email", "phone", "role", "active", "created_at"),
    "key list": (
        *("id", "hint", "scopes", "user_id", "last_used_at", "expires_at", "state", "name"),
    ),
    "backup list": ("tenant", "file", "bytes"),
}


@pytest.mark.parametrize("words", LISTS)
def test_a_list_has_headings_for_people_and_json_for_programs(folder, words):
    folder.run("backup", "create", "acme")
    command = (*words.split(), *OF_A_TENANT.get(words, ()))
    headings, first, *_ = folder.run(*command).stdout.splitlines()
    assert re.fullmatch(r"[A-Z]+( [A-Z]+)*(  +[A-Z]+( [A-Z]+)*)*", headings)
    for start in re.finditer(r"(?:^|  )([A-Z])", headings):
        assert first[start.start(1)] != " "  # a cell begins below its heading
        assert start.start(1) == 0 or first[start.start(1) - 1] == " "
    printed = folder.run(*command, "--json").stdout
    rows = json.loads(printed)
    assert rows and printed.count("\n") == 1
    assert all(set(LISTS[words]) <= set(row) for row in rows)


def test_an_empty_list_is_its_headings_or_an_empty_array(empty):
    empty.path.mkdir()
    assert empty.run("tenant", "list").stdout == "TENANT  PLAN  STATE  NAME\n"
    assert json.loads(empty.run("tenant", "list", "--json").stdout) == []


def test_copies_are_listed_of_the_folder_where_they_are(folder, tmp_path):
    folder.run("backup", "create", "--to", tmp_path / "copies")
    assert folder.rows("backup", "list") == []
    rows = folder.rows("backup", "list", "--from", tmp_path / "copies")
    assert [row[0] for row in rows] == ["acme", "globex"]
    assert all(Path(row[2]).stat().st_size == int(row[1]) for row in rows)


# The demo


def test_the_demo_opens_the_browser_if_asked_to(empty, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(cli.serving, "serve", lambda *_, announce, **__: announce())
    monkeypatch.setattr(click, "launch", opened.append)
    empty.run("demo")
    assert opened == []
    assert re.findall(r"\AOpen (\S+)\n", empty.run("demo", "--open").stdout) == opened
