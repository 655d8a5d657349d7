"""`install` and `upgrade` below another root folder, as in a chroot; systemd on the units."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from click.testing import CliRunner

import crm
from crm import cli
from crm.cli.machine import ROOT as REAL_ROOT
from crm.cli.machine import Machine
from crm.errors import CRMError
from crm.storage.sqlite.migrations import STEPS
from tests.installations import environ_for
from tests.server_process import ROOT

pytestmark = [pytest.mark.process, pytest.mark.files]

VERSION = crm.__version__
NEXT = "9.0.0"
NEEDLESS = shutil.ignore_patterns(".*", "data", "tests", "build", "dist", "*.egg-info")
OFFLINE = {
    **{"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"},
    **{"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": sysconfig.get_path("purelib")},
}
HOST = "crm.example.ua"
USERADD = "--system --user-group --home-dir /var/lib/crm --shell /usr/sbin/nologin crm"


def run(*command: object, code: int = 0, **environ: str) -> str:
    """What a command prints, its errors at the end."""
    plain = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    result = subprocess.run(
        [*map(str, command)], cwd="/", env=plain | OFFLINE | environ, timeout=240,
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def root(tmp_path):
    """A root folder with the folder of this release, nginx's file and a certificate."""
    folder = tmp_path / "root"
    (folder / "opt" / f"crm-{VERSION}").mkdir(parents=True)
    (folder / "etc/nginx").mkdir(parents=True)
    (folder / "etc/nginx/nginx.conf").write_text("events {\n    worker_connections 8192;\n}\n")
    live = folder / "etc/letsencrypt/live" / HOST
    live.mkdir(parents=True)
    (live / "fullchain.pem").touch()
    return folder


@pytest.fixture
def stand_ins(tmp_path):
    """A PATH with programs in place of those of the system."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("nginx", "useradd", "systemctl"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.fixture
def program(root, stand_ins, monkeypatch):
    """Calls the command line in this process, as if it were installed below the root folder."""
    venv_folder = root / "opt" / f"crm-{VERSION}"
    monkeypatch.setattr(sys, "prefix", str(venv_folder))
    monkeypatch.setattr(crm, "__file__", str(venv_folder / "lib/crm/__init__.py"))
    monkeypatch.setenv("PATH", stand_ins)

    def call(*words: object, code: int = 0) -> str:
        result = CliRunner().invoke(cli.group, [*map(str, words), "--root", str(root)])
        assert result.exit_code == code, result.output
        return result.output

    return call


@pytest.fixture
def installed_program(root, stand_ins, tmp_path):
    """Calls this release, which is installed into a venv below the root folder."""
    shutil.copytree(ROOT, tmp_path / "source", ignore=NEEDLESS)
    place = root / "opt" / f"crm-{VERSION}"
    venv.create(place, symlinks=True, with_pip=True)
    run(place / "bin" / "pip", "install", "-q", tmp_path / "source")

    def call(*words: object, code: int = 0) -> str:
        python = place / "bin" / "python"
        return run(python, "-m", "crm", *words, "--root", root, code=code, PATH=stand_ins)

    return call


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of the files below a root, but for programs."""
    paths = [path for top in ("etc", "var") for path in (root / top).rglob("*")]
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in paths
        if path.is_file()
    }


def test_one_command_installs_and_can_be_repeated(root, program):
    before = files(root)
    dry = program("install", HOST, "acme", "--dry-run")
    assert files(root) == before and not (root / "opt/crm").exists()
    said = program("install", HOST, "acme")
    steps = [line for line in dry.splitlines() if not line.startswith("useradd ")]
    for step in steps:
        assert step in said.splitlines()
    assert steps[:10] == [
        f"run useradd --prefix {root} {USERADD}",
        "make the folder /var/lib/crm of crm",
        "write /var/lib/crm/crm.env",
        "compile the templates",
        f"link /opt/crm -> crm-{VERSION}",
        *(f"write /etc/systemd/system/crm{n}" for n in (".service", "-backup.service")),
        *("write /etc/systemd/system/crm-backup.timer", "write /etc/nginx/conf.d/crm.conf"),
        f"run systemctl --root={root} enable crm.service crm-backup.timer",
    ]
    done = files(root)
    assert {name: done[name][0] for name in done.keys() - before.keys()} == {
        "etc/nginx/conf.d/crm.conf": 0o644,
        "etc/systemd/system/crm-backup.service": 0o644,
        "etc/systemd/system/crm-backup.timer": 0o644,
        "etc/systemd/system/crm.service": 0o644,
        "var/lib/crm/crm.env": 0o600,
    }
    assert (root / "var/lib/crm").stat().st_mode & 0o777 == 0o700
    assert done["var/lib/crm/crm.env"][1].decode().splitlines() == [
        "CRM_TENANT=acme", f"CRM_PUBLIC_URL=https://{HOST}", "CRM_TRUSTED_PROXIES=1"
    ]  # fmt: skip
    assert (
        b"\nExecStart=/opt/crm/bin/python -m crm serve\n"
        in (done["etc/systemd/system/crm.service"][1])
    )
    assert f"server_name {HOST};".encode() in done["etc/nginx/conf.d/crm.conf"][1]
    assert (root / "opt/crm").readlink() == Path(f"crm-{VERSION}")
    again = program("install")
    assert files(root) == done
    assert "write " not in again and again.count("is there: ") == 6


def test_what_an_operator_has_changed_is_kept(root, program):
    program("install", HOST)
    own = root / "etc/nginx/conf.d/crm.conf"
    printed = own.read_text()
    own.write_text("# mine\n")
    settings = root / "var/lib/crm/crm.env"
    settings.write_text(settings.read_text() + "CRM_PORT=8001\n")
    said = program("install", HOST)
    assert "is kept, though it differs from what --replace would write: /etc/nginx" in said
    assert own.read_text() == "# mine\n"
    program("install", HOST, "--replace")
    assert own.read_text() == printed.replace("127.0.0.1:8000", "127.0.0.1:8001")
    assert "CRM_PORT=8001" in settings.read_text()


def test_what_is_missing_is_said_before_anything_is_done(root, program, monkeypatch):
    shutil.rmtree(root / "etc/letsencrypt")
    (root / "etc/nginx/nginx.conf").write_text("events {\n    worker_connections 768;\n}\n")
    before = files(root)
    said = program("install", HOST, code=1)
    assert f"there is no certificate /etc/letsencrypt/live/{HOST}/fullchain.pem: certbot" in said
    assert "set worker_rlimit_nofile 20000 and worker_connections 8192" in said
    assert "HOST looks like crm.example.ua" in program("install", code=2)
    (root / "opt/crm").mkdir()
    assert "/opt/crm is a folder, not a link" in program("install", HOST, code=1)
    (root / "opt/crm").rmdir()
    assert files(root) == before
    monkeypatch.setattr(sys, "prefix", "/usr")
    result = program("upgrade", ROOT, code=1)
    assert f"python3 -m venv /opt/crm-{VERSION} && /opt/crm-{VERSION}/bin/pip install" in result


def test_a_machine_is_changed_by_root_alone(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CRMError, match="run it as root, by sudo"):
        Machine(REAL_ROOT, dry_run=False).require_root_user()
    Machine(REAL_ROOT, dry_run=True).require_root_user()


def test_a_program_runs_as_the_user_of_the_service(capfd):
    if os.geteuid():
        pytest.skip("only root can run a program as another user")
    Machine(REAL_ROOT, dry_run=False).run("id", "-un", user="nobody")
    assert capfd.readouterr().out == "run id -un as nobody\nnobody\n"
    with pytest.raises(CRMError, match="^false failed$"):
        Machine(REAL_ROOT, dry_run=False).run("false")


@pytest.mark.deep
def test_systemd_takes_the_units(root, installed_program, tmp_path):
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        assert not os.environ.get("CI"), "apt-get install systemd"
        pytest.skip("systemd is not installed")
    installed_program("install", HOST)
    units = tmp_path / "units"
    units.mkdir()
    for path in (root / "etc/systemd/system").glob("crm*"):
        text = path.read_text().replace("/opt/crm/", f"{root}/opt/crm/")
        (units / path.name).write_text(text.replace("User=crm\n", "User=root\n"))
    result = subprocess.run(
        [analyze, "verify", units / "crm.service", units / "crm-backup.timer"],
        capture_output=True, text=True,
    )  # fmt: skip
    said = [line for line in result.stderr.splitlines() if "crm" in line]
    assert (result.returncode, said) == (0, []), result.stderr
    backup = (units / "crm-backup.service").read_text()
    (start,) = re.findall("^ExecStart=(.*)$", backup, re.M)
    data = root / "var/lib/crm"
    run(*start.split(), CRM_DATA=str(data))  # without a tenant: nothing to copy


# The next release


@pytest.fixture
def next_release(tmp_path):
    """The folder of a release to come, with files of another one in its build/."""
    folder = tmp_path / "next"
    shutil.copytree(ROOT, folder, ignore=NEEDLESS)
    init = folder / "crm/__init__.py"
    init.write_text(init.read_text().replace(f'"{VERSION}"', f'"{NEXT}"'))
    steps = folder / "crm/storage/sqlite/migrations"
    (steps / "9999_next.sql").write_text("ALTER TABLE lead ADD COLUMN next INTEGER;\n")
    stale = folder / "build/current/lib/crm"
    stale.mkdir(parents=True)
    (stale / "stale.py").touch()
    return folder


@pytest.mark.deep
def test_an_upgrade_that_fails_one_that_does_not_and_the_way_back(
    root, installed_program, next_release
):
    program = installed_program
    program("install", HOST, "acme")
    data, link = root / "var/lib/crm", root / "opt/crm"

    def crm_(*words: object, code: int = 0) -> str:
        """The program that the link leads to."""
        python = link / "bin" / "python"
        return run(python, "-m", "crm", *words, "--data", data, code=code, **environ_for(data))

    crm_("tenant", "create", "acme")
    dry = program("upgrade", next_release, "--dry-run")
    assert "link /opt/crm -> crm-" in dry and not (root / f"opt/crm-{NEXT}").exists()
    (data / "upgrades").write_text("in the way of the copies")
    said = program("upgrade", next_release, code=1)
    assert "acme is not upgraded: no copy of it can be made first" in said
    assert f" go back, as root: systemctl stop crm ln -sfn crm-{VERSION} /opt/crm" in said
    assert link.readlink() == Path(f"crm-{VERSION}")
    assert f"{VERSION} is the release in use" in program("upgrade", ROOT, code=1)
    (data / "upgrades").unlink()
    said = program("upgrade", next_release)
    assert f"delete /opt/crm-{NEXT}, left by an earlier try" in said
    assert link.readlink() == Path(f"crm-{NEXT}")
    assert f"crm-{NEXT} is in use. The way back, as root:\n" in said
    assert crm_("migrate").startswith("acme: version ")
    assert not list((root / f"opt/crm-{NEXT}").rglob("stale.py"))
    (copy,) = (data / "upgrades/acme").glob("*.db")
    # Back, by the lines that it printed.
    _, switch, restore, _ = re.findall(r"^    (.*)$", said, re.M)
    assert switch == f"ln -sfn crm-{VERSION} /opt/crm"
    run(*switch.replace("/opt/", f"{root}/opt/").split())
    refused = crm_("doctor", code=1)
    assert f"acme         version {len(STEPS) + 1} is of a newer release" in refused
    words = restore.split("bin/crm ")[1].split(" --data ")[0].split()
    assert f"acme is restored from {copy}" in crm_(*words)
    assert "next" not in crm_("leads", "export", "acme").splitlines()[0].split(",")
