"""The CRM as it is given away: a wheel, one file for Pythons, one file without; each is driven."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from urllib import parse, request

import pytest
import xlsxwriter

import crm
from crm.cli.deployment import CACHE_FOLDER
from tests import external_programs
from tests.server_process import ROOT, find_free_port, run_listening_process, wait_until_listening
from tests.waiting import wait_for

pytestmark = pytest.mark.process

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHERS = [python for python in ("3.11", "3.12", "3.13", "3.14") if python != OWN]
GIVEN = OTHERS[-1]  # the one whose compiled modules an index has here
SUFFIX = EXTENSION_SUFFIXES[0]
NEEDLESS = shutil.ignore_patterns(".*", "data", "dist", "build", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Program:
    """A way to call the CRM, from an empty folder and in an environment of these settings alone."""

    words: tuple[str | Path, ...]
    folder: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        # Zones must come from the package tzdata, not from this machine.
        plain = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "PYTHONTZPATH": ""}
        return plain | {"TMPDIR": str(self.temporary), "CRM_TENANT": "acme"} | self.more

    @property
    def temporary(self) -> Path:
        return self.folder.parent / "temporary"

    def __call__(self, *words: str, code: int = 0, **environ: str) -> tuple[str, str]:
        """What it prints: the output, the errors."""
        result = subprocess.run(
            [*self.words, *words], cwd=self.folder, env=self.environ | environ,
            capture_output=True, text=True, timeout=60, encoding="utf-8",
        )  # fmt: skip
        assert result.returncode == code, result.stderr
        assert "Traceback" not in result.stderr, result.stderr
        return result.stdout, result.stderr


# Made once each


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of a checkout: of a copy, for setuptools builds beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "checkout", ignore=NEEDLESS)
    asked = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder]
    run(sys.executable, "-m", "pip", "wheel", *asked, folder / "checkout")
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def bin_of_venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh venv with the wheel, which sees the packages installed here."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", asked).stdout.strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    return folder / "bin"


@dataclass(frozen=True)
class Built:
    path: Path
    told: str
    complaints: str


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The pyz, built with a folder as the only index: it has the wheels of one other Python."""
    index, tag = tmp_path_factory.mktemp("index"), f"cp{GIVEN.replace('.', '')}"
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    for name in ("MarkupSafe", "httptools", "orjson"):
        package = metadata.distribution(name)
        stem = f"{name.lower()}-{package.version}"
        with zipfile.ZipFile(index / f"{stem}-{tag}-{tag}-{platform}.whl", "w") as made:
            for file in package.files or ():
                if file.name.endswith(SUFFIX):
                    made.write(file.locate(), str(file).replace(SUFFIX, suffix_of(GIVEN)))
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {package.version}\n"
            made.writestr(f"{stem}.dist-info/METADATA", about)
            made.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    only = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    return build("pyz", tmp_path_factory, **only)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"SHIV_ROOT": str(tmp_path_factory.mktemp("unpacked"))}


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The binary; without objdump its tests are skipped, in CI they fail."""
    external_programs.found("binutils", "objdump")
    return build("binary", tmp_path_factory)


def files_of_root() -> set[Path]:
    """What is in the project's folder, but for bytecode, which tests of hosts may leave."""
    return set(ROOT.iterdir()) - {ROOT / "__pycache__"}


def build(kind: str, factory: pytest.TempPathFactory, **environ: str) -> Built:
    folder, before = factory.mktemp("dist"), files_of_root()
    command = [sys.executable, ROOT / ".ci" / "build", kind, "--to", folder]
    made = run(*command, env=os.environ | environ)
    (path,) = folder.iterdir()
    assert files_of_root() == before
    assert made.stdout.startswith(f"{path}: {path.stat().st_size / 1e6:.1f} MB, for ")
    return Built(path, made.stdout, made.stderr)


@pytest.fixture(params=["crm", "crm.pyz", "binary"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return make(request, request.param, tmp_path)


def make(request: pytest.FixtureRequest, way: str, tmp_path: Path) -> Program:
    (folder := tmp_path / "empty").mkdir()
    (tmp_path / "temporary").mkdir()
    if way == "crm.pyz":
        path = request.getfixturevalue("pyz").path
        return Program((sys.executable, path), folder, request.getfixturevalue("unpacked"))
    if way == "binary":
        return Program((request.getfixturevalue("binary").path,), folder)
    return Program((request.getfixturevalue("bin_of_venv") / way,), folder)


def run(*command: str | Path, **how: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, done.stderr
    return done


def suffix_of(python: str) -> str:
    own, other = OWN.replace(".", ""), python.replace(".", "")
    return SUFFIX.replace(f"-{own}-", f"-{other}-")


# What is in them


def files_of_crm() -> set[str]:
    result = (ROOT / "crm").rglob("*")
    kept = (path for path in result if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(ROOT)) for path in kept}


def test_the_wheel_has_every_file_of_the_package_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    about = f"crm-{crm.__version__}.dist-info"
    assert {name for name in names if not name.startswith(f"{about}/")} == files_of_crm()
    assert f"{about}/licenses/LICENSE" in names


@pytest.mark.deep
def test_pytest_has_the_fixture_where_the_wheel_is_installed(
    bin_of_venv: Path, tmp_path: Path
) -> None:
    """Each test has a tenant of its own, whatever the environment says."""
    lines = (
        "import pytest",
        "@pytest.mark.parametrize('number', [1, 2])",
        "def test_it(crm_tenant, number):",
        "    assert crm_tenant.leads.list().records == []",
        "    lead = crm_tenant.leads.create(name='Марія', phone='067 123 45 67')",
        "    assert crm_tenant.tasks.create(title='Call')['assigned_to'] == lead['created_by']",
        "    client = crm_tenant.app.test_client()",
        "    page = client.get('/api/v1/openapi.json', base_url='http://test.localhost:8000')",
        "    assert page.json['servers'] == [{'url': 'http://test.localhost:8000/api/v1'}]",
    )
    (tmp_path / "test_shop.py").write_text("\n".join(lines), "utf-8")
    done = subprocess.run(
        [
            *(bin_of_venv / "python", "-m", "pytest", "-q", "-W", "error"),
            *("-p", "no:cacheprovider", "-p", "no:dash"),
        ],
        cwd=tmp_path, env={"CRM_DATABASE": "postgresql://127.0.0.1:1/none", "CRM_TENANT": "acme"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.deep
def test_the_pyz_has_what_is_installed_and_nothing_more(pyz: Built) -> None:
    names = {name.removeprefix("site-packages/") for name in zipfile.ZipFile(pyz.path).namelist()}
    assert files_of_crm() <= names
    # Nobody edits a program with a pyz: of the stubs only the CRM's own is read at run time.
    assert {name for name in names if name.endswith(".pyi")} == {"crm/embedding/attributes.pyi"}
    for name in ("pytest", "shiv", "PyInstaller", "pip", "setuptools", "tests"):
        assert not any(item.startswith(f"{name}/") for item in names), name
    assert not any("RECORD" in item or item.endswith((".pyc", ".map")) for item in names)
    assert {"babel/locale-data/uk.dat", "babel/locale-data/en.dat"} <= names


@pytest.mark.deep
def test_the_pyz_is_for_the_pythons_whose_modules_were_found(pyz: Built) -> None:
    covered = sorted([OWN, GIVEN], key=lambda python: int(python.split(".")[1]))
    assert f"for Python {', '.join(covered)} on " in pyz.told
    refused = [line for line in pyz.complaints.splitlines() if line.startswith("not for Python")]
    assert len(refused) == len(OTHERS) - 1
    names = zipfile.ZipFile(pyz.path).namelist()
    modules = {name for name in names if name.endswith(".so")}
    for python in (OWN, GIVEN):
        assert f"site-packages/orjson/orjson{suffix_of(python)}" in modules
        assert f"site-packages/markupsafe/_speedups{suffix_of(python)}" in modules


# Each of them at work


class Visitor:
    """Somebody at a browser that keeps cookies, or a program with a key."""

    def __init__(self, port: int, **headers: str) -> None:
        self.home = f"http://127.0.0.1:{port}"
        cookies = request.HTTPCookieProcessor(CookieJar())
        self.opener = request.build_opener(request.ProxyHandler({}), cookies)
        self.opener.addheaders = list(headers.items())

    def asks(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, str]:
        asked = request.Request(self.home + path, data, headers)
        answer: HTTPResponse
        with self.opener.open(asked, timeout=20) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")

    def sees(self, path: str) -> str:
        status, text = self.asks(path)
        assert (status, bool(text)) == (200, True), path
        return text


@pytest.mark.deep
def test_it_serves_a_tenant_and_ends_well(program: Program) -> None:
    program("tenant", "create", "acme", "--name", "Меблі", "--owner-name", "Олена")
    assert (program.folder / "data" / "tenants" / "acme.db").is_file()
    key = program("key", "create", "acme", "--name", "tests")[0].strip()
    link = program("user", "login-link", "acme", "1")[0].split()[-1]
    port = find_free_port()
    command = [*map(str, program.words), "serve", "--port", str(port)]
    with run_listening_process(command, port, cwd=program.folder, env=program.environ) as served:
        takes_leads(Visitor(port, Authorization=f"Bearer {key}"))
        assert "Увійти" in Visitor(port).sees(parse.urlsplit(link).path)
        began = time.monotonic()
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 0
        assert time.monotonic() - began < 10
    assert list(program.temporary.iterdir()) == []


@pytest.mark.deep
def test_it_reads_and_writes_workbooks(program: Program) -> None:
    program("tenant", "create", "acme", "--name", "Меблі", "--owner-name", "Олена")
    with xlsxwriter.Workbook(program.folder / "prices.xlsx") as book:
        book.add_worksheet("Опис")
        sheet = book.add_worksheet("Ціни")
        sheet.write_row(0, 0, ["sku", "name", "price"])
        sheet.write_row(1, 0, ["T-1", "Стіл", 12500.5])
    output, _ = program("products", "import", "acme", "prices.xlsx", "--sheet", "Ціни")
    assert output.startswith("created 1, updated 0, skipped 0")
    assert "T-1,Стіл,12500.50," in program("products", "export", "acme")[0]
    assert list(program.temporary.iterdir()) == []


def takes_leads(api: Visitor) -> None:
    json_type = {"Content-Type": "application/json"}
    for phone, kept in (("067 123 45 67", "+380671234567"), ("+49 (30) 901820", "+4930901820")):
        lead = json.dumps({"name": "Марія Коваль", "phone": phone}).encode()
        status, text = api.asks("/api/v1/leads", lead, **json_type)
        assert (status, json.loads(text)["status"]) == (201, "ok")
        body = json.loads(api.sees(f"/api/v1/leads/{json.loads(text)['lead_id']}"))
        assert (body["name"], body["phone"]) == ("Марія Коваль", kept)
    listed = json.loads(api.sees(f"/api/v1/leads?q={parse.quote('коваль')}"))
    assert [lead["id"] for lead in listed["data"]] == ["2", "1"]


# Single files in the operator's hands


@pytest.fixture(params=["crm.pyz", "binary"])
def one_file(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return make(request, request.param, tmp_path)


@pytest.mark.deep
def test_the_demo_starts_and_tells_how_to_call_it_again(one_file: Program) -> None:
    port, said = find_free_port(), one_file.folder / "said"
    command = [*map(str, one_file.words), "demo", "--port", str(port)]
    with (
        said.open("w") as output,
        run_listening_process(
            command, port, cwd=one_file.folder, env=one_file.environ, stdout=output
        ) as served,
    ):
        assert Visitor(port).sees("/login")
        # Ctrl-C in a terminal; passed on by a parent, it must not come a second time.
        started = int((one_file.folder / "data" / "serve.lock").read_text().split()[0])
        assert (os.getpgid(started) == started) == (started != served.pid)
        served.send_signal(signal.SIGINT)
        assert served.wait(20) == 0
    again = f"{' '.join(map(str, one_file.words))} webhook listen --port "
    assert again in said.read_text("utf-8")
    assert list(one_file.temporary.iterdir()) == []


@pytest.mark.deep
def test_a_killed_binary_leaves_no_server_behind(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    program, port = make(request, "binary", tmp_path), find_free_port()
    command = [*program.words, "serve", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=program.folder, env=program.environ, stderr=subprocess.PIPE, text=True
    ) as served:
        wait_until_listening(port, served)
        served.kill()
    wait_for(lambda: not is_open(port))


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.deep
def test_the_unit_starts_the_file_as_it_lies_there(one_file: Program) -> None:
    unit = one_file("systemd", "--data", "/var/lib/crm")[0]
    own = [str(word) for word in one_file.words]
    assert f"ExecStart={' '.join(own)} serve" in unit.splitlines()
    cache = {f"Environment=SHIV_ROOT={CACHE_FOLDER}", f"CacheDirectory={CACHE_FOLDER.name}"}
    assert cache & set(unit.splitlines()) == (cache if own[-1].endswith(".pyz") else set())
    run(*own, "--version", cwd="/", env=one_file.environ)


@pytest.mark.parametrize(("kind", "tool"), [("pyz", "shiv"), ("binary", "PyInstaller")])
def test_the_build_says_what_it_misses(kind: str, tool: str, tmp_path: Path) -> None:
    command = [sys.executable, "-S", ROOT / ".ci" / "build", kind, "--to", tmp_path / "dist"]
    result = subprocess.run(command, capture_output=True, text=True)
    expected = f"build {kind}: {tool} is missing: {sys.executable} -m pip install {tool.lower()}\n"
    assert (result.returncode, result.stderr) == (1, expected)
    assert not (tmp_path / "dist").exists()


# PostgreSQL is in them if asked for


@pytest.mark.deep
def test_without_the_extra_postgresql_is_refused(one_file: Program, pyz: Built) -> None:
    names = zipfile.ZipFile(pyz.path).namelist()
    assert not [name for name in names if "psycopg" in name]
    address = f"postgresql://crm:s3cret@127.0.0.1:{find_free_port()}/crm"
    if sys.executable in one_file.words:  # without the packages that are installed beside it
        one_file = replace(one_file, words=(sys.executable, "-S", *one_file.words[1:]))
    for command in ("doctor", "serve", "migrate"):
        _, errors = one_file(command, code=1, CRM_DATABASE=address)
        assert errors.splitlines()[-1].startswith(
            "Error: CRM_DATABASE: it needs the extra `postgres`"
        )
        assert "s3cret" not in errors


@pytest.mark.deep
def test_with_the_extra_it_is_in(tmp_path: Path) -> None:
    external_programs.found("binutils", "objdump")
    options = ["--extra", "postgres", "--to", tmp_path / "dist"]
    run(sys.executable, ROOT / ".ci" / "build", "binary", *options)
    (path,) = (tmp_path / "dist").iterdir()
    for folder in ("empty", "temporary"):
        (tmp_path / folder).mkdir()
    program = Program((path,), tmp_path / "empty")
    address = f"postgresql://crm@127.0.0.1:{find_free_port()}/crm"
    output, _ = program("doctor", code=1, CRM_DATABASE=address)
    assert re.search(r"^fault +database +.*Connection refused", output, re.M)


def size_for_all(pyz: Path) -> int:
    """The size with the compiled modules of all Pythons; this one has those of two."""
    with zipfile.ZipFile(pyz) as archive:
        modules = [file for file in archive.infolist() if file.filename.endswith(suffix_of(GIVEN))]
    others = len(OTHERS) - 1
    return pyz.stat().st_size + others * sum(file.compress_size for file in modules)


@pytest.mark.deep
def test_the_guide_has_the_commands_and_the_sizes(pyz: Built, binary: Built) -> None:
    section = (ROOT / "crm" / "docs" / "single-file.md").read_text("utf-8")
    commands = re.findall(r"^\.venv/bin/python (.*)$", section, re.M)
    assert commands == [".ci/build pyz", ".ci/build binary"]
    assert re.findall(r"^dist/(\S+) demo$", section, re.M) == ["crm.pyz", "crm"]
    sizes = (ROOT / "crm" / "docs" / "speed.md").read_text("utf-8").split("\n## Sizes\n")[1]
    for file, size in (("crm.pyz", size_for_all(pyz.path)), ("crm", binary.path.stat().st_size)):
        written = re.search(rf"^\| `dist/{re.escape(file)}`.* \| ([\d.]+) MB \|$", sizes, re.M)[1]
        assert float(written) == pytest.approx(size / 1e6, rel=0.08)
    assert f"SHIV_ROOT={CACHE_FOLDER}" in section
