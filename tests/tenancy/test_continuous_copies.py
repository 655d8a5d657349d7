"""Continuous copies: the configuration, files that change places, the way back, the lag."""

import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from crm import cli
from crm.cli.doctor import installation_checks
from crm.cli.doctor.installation_checks import DoctorRun
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.storage.session import transaction
from crm.storage.sqlite import litestream
from crm.storage.sqlite.connection import CHECKPOINT_BYTES, PAGE_BYTES
from crm.timed_checks import FAULT, OK
from tests import storage
from tests.installations import config_for, environ_for
from tests.readme import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.files

PATIENCE = 20  # seconds


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Tenants]:
    """An installation with two tenants."""
    result = Tenants(config_for(tmp_path / "data"))
    for label in ("acme", "globex"):
        tenant.open_tenant(result, label, name=label, owner={"name": "Olena"})
    result.forget_idle()
    yield result
    result.forget_idle()


@pytest.fixture
def place(tmp_path: Path) -> storage.Storage:
    return storage.Storage(f"file://{tmp_path}/copies")


def crm_(data: Path, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.group, [*words, "--data", str(data)], env=environ_for(data))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def add_user(tenants: Tenants, label: str, name: str) -> None:
    with tenants.session(label):
        users.create({"name": name, "role": "manager"})


def wait_until_copied(tenants: Tenants) -> None:
    """Until each file was copied after this moment, twice: what was read then is there."""
    for _ in range(2):
        began = time.time()
        names = {f"{label}.db" for label in tenants.labels()}
        wait_for(
            lambda began=began, names=names: (
                {
                    name
                    for name, (at, error) in litestream.copy_statuses(tenants.config.data).items()
                    if at and at > began and not error
                }
                >= names
            ),
            PATIENCE,
        )
        time.sleep(0.6)  # a file is read every half second


def restored(place: storage.Storage, folder: Path) -> dict[str, set[str]]:
    """The users of each tenant of `tenants` that the copies have."""
    folder.mkdir()
    results = {}
    for label in ("acme", "globex", "third"):
        if place.restore(label, folder / f"{label}.db"):
            with closing(sqlite3.connect(folder / f"{label}.db")) as file:
                assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                results[label] = {name for (name,) in file.execute('SELECT name FROM "user"')}
    return results


# The configuration


@pytest.mark.parametrize(
    ("url", "options", "replica"),
    [
        ("s3://b/crm/?region=eu-1", (), {"url": "s3://b/crm/tenants?region=eu-1"}),
        (
            "sftp://u@h:22/x",
            ("--sftp-key", "/a: key", "--sftp-host-key", "ssh-ed25519 A"),
            {
                "url": "sftp://u@h:22/x/tenants",
                "key-path": "/a: key",
                "host-key": "ssh-ed25519 A",
            },
        ),
    ],
)
def test_the_configuration_has_all_files_and_their_place(
    tenants: Tenants, url: str, options: tuple[str, ...], replica: dict[str, str]
) -> None:
    data = tenants.config.data
    printed = yaml.safe_load(crm_(data, "litestream", "config", "--to", url, *options).stdout)
    (every,) = printed["dbs"]
    assert every["dir"] == str(data / "tenants") and every["watch"] is True
    assert every["replica"] == replica | {"sync-interval": "500ms"}
    assert printed["socket"] == {"enabled": True, "path": str(data / "litestream.sock")}


@pytest.mark.parametrize(
    "url", ["file://copies", "ftp://h/x", "s3:///x", "s3://key:top-secret@b/x"]
)
def test_a_target_that_is_no_storage_or_has_a_secret_is_refused(tmp_path: Path, url: str) -> None:
    said = crm_(tmp_path, "litestream", "config", "--to", url, code=2)
    assert "top-secret" not in said.output


# Beside Litestream


def test_checkpoints_are_left_to_litestream_where_it_is_used(tenants: Tenants) -> None:
    def pages() -> int:
        tenants.forget_idle()
        with tenants.session("acme"), transaction():
            here = tenants.tenant("acme")
            connection = here.take(writes=True)
            try:
                return connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
            finally:
                here.give(connection, writes=True)

    assert pages() == CHECKPOINT_BYTES // PAGE_BYTES
    litestream.state_folder(tenants.config.data).mkdir()
    assert pages() == litestream.CHECKPOINT_LOG_BYTES // PAGE_BYTES


@pytest.mark.process
@pytest.mark.deep
def test_a_replaced_file_is_copied_once_litestream_is_restarted(
    tenants: Tenants, place: storage.Storage, tmp_path: Path
) -> None:
    data = tenants.config.data

    def doctor() -> list[tuple[str, str]]:
        return list(installation_checks.check_litestream(DoctorRun(tenants)))

    with storage.litestream(data, place):
        wait_until_copied(tenants)
        add_user(tenants, "acme", "Before")
        (copy,) = crm_(data, "backup", "create", "acme").stdout.split("\t")[:1]
        for number in range(300):  # so that the restored file has fewer pages, and a shorter log
            add_user(tenants, "acme", f"Undone {number}")
        wait_until_copied(tenants)
        said = crm_(data, "restore", "acme", copy, "--yes").stdout
        assert "Litestream copies it once it is restarted" in said
        add_user(tenants, "acme", "After")
        time.sleep(2)  # in which a file that is read is copied
        undone = restored(place, tmp_path / "one")["acme"]
        assert "Undone 299" in undone and "After" not in undone
        assert (FAULT, "acme.db is not copied: it is stopped: restart Litestream") in doctor()
    with storage.litestream(data, place):
        wait_until_copied(tenants)
        assert restored(place, tmp_path / "two")["acme"] == {"Olena", "Before", "After"}
        assert [level for level, _ in doctor()] == [OK]
    tenants.forget_idle()


# The doctor


@pytest.mark.process
@pytest.mark.deep
def test_the_doctor_reports_how_far_the_copies_lag_behind(
    tenants: Tenants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[tuple[str, str]]:
        return list(installation_checks.check_litestream(DoctorRun(tenants)))

    assert told() == []
    with (
        storage.s3(tmp_path) as place,
        storage.litestream(tenants.config.data, place) as copier,
    ):
        wait_until_copied(tenants)
        ((level, said),) = told()
        assert level == OK and said.startswith("2 files, the copies lag by ")
        assert " litestream   2 files" in crm_(tenants.config.data, "doctor").stdout
        place.stop()
        add_user(tenants, "acme", "Unheard")
        monkeypatch.setattr(installation_checks, "MAX_LAG_SECONDS", 2)
        wait_for(lambda: told()[0][0] == FAULT, PATIENCE)
        said = told()[0][1]
        assert "the copies lag by" in said and "acme.db" in said
        copier.kill()  # it would try for half a minute to copy the rest
    ((level, said),) = told()
    assert level == FAULT and "nothing is copied, start it" in said
    litestream.state_folder(tenants.config.data).rename(tmp_path / "given up")
    assert told() == []


# The guide

GUIDE = (ROOT / "crm" / "docs" / "server-burnt-down.md").read_text("utf-8")
PROGRAMS = {
    "bin/sudo": """#!/bin/sh
while :; do case "$1" in -u) shift 2;; -*) shift;; *) exec "$@";; esac; done
""",
    "bin/systemctl": """#!%(python)s
import os, shlex, subprocess, sys
if sys.argv[1:] == ["enable", "--now", "litestream"]:
    unit = open("%(machine)s/etc/systemd/system/litestream.service").read().splitlines()
    of = lambda name: [line.partition("=")[2] for line in unit if line.startswith(name + "=")]
    secrets = open(of("EnvironmentFile")[0].removeprefix("-")).read().split()
    log = open("%(machine)s/litestream.log", "w")
    running = subprocess.Popen(
        shlex.split(of("ExecStart")[0]), stdout=log, stderr=log,
        env=os.environ | dict(line.split("=", 1) for line in secrets),
    )
    print(running.pid, file=open("%(machine)s/started", "w"))
""",
    "bin/curl": "#!/bin/sh\n",
    "opt/crm/bin/pip": "#!/bin/sh\n",
    "opt/crm/bin/litestream": """#!/bin/sh
exec %(litestream)s "$@"
""",
    "opt/crm/bin/crm": """#!/bin/sh
exec %(python)s -W error %(app)s "$@"
""",
}


def run_guide(title: str, machine: Path, url: str) -> str:
    """What the lines below a heading of the guide print on a machine of our own; units of the
    service itself and its health are left out."""
    values = {"python": sys.executable, "machine": machine, "app": ROOT / "app.py"}
    values["litestream"] = storage.LITESTREAM
    for name, text in PROGRAMS.items():
        path = machine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text % values)
        path.chmod(0o755)
    (machine / "etc/systemd/system").mkdir(parents=True)
    item = GUIDE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", item, re.S))
    place, _, query = url.partition("?")
    assert "s3://crm-copies/one" in lines
    lines = lines.replace("s3://crm-copies/one", place).replace("region=eu-central-1", query)
    lines = re.sub(r"(?<![\w.])/(etc|opt/crm|var/lib/crm)", rf"{machine}/\1", lines)
    ran = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\n{lines}"],
        cwd=machine,
        env={"PATH": f"{machine / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.process
@pytest.mark.deep
def test_the_guide_as_it_stands(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    tenants = Tenants(config_for(one / "var/lib/crm"))
    (one / "var/lib").mkdir(parents=True)
    for label in ("acme", "globex"):
        tenant.open_tenant(tenants, label, name=label.title(), owner={"name": "Olena"})
    with tenants.session("acme") as session:
        sha256, _ = session.source.contents.add(io.BytesIO(b"a drawing"))
    tenants.forget_idle()
    with storage.s3(tmp_path) as place:
        try:
            said = run_guide("Set up continuous copies", one, place.url)
            assert re.search(r"ok +litestream +3 files, the copies lag by [0-9.]+ s", said), said
        finally:
            for started in one.glob("started"):
                os.kill(int(started.read_text()), signal.SIGKILL)
        (two / "var/lib").mkdir(parents=True)
        said = run_guide("Restore on another machine", two, place.url)
    tenants = Tenants(config_for(two / "var/lib/crm"))
    with tenants.session("acme") as session:
        assert b"".join(session.source.contents.read(sha256)) == b"a drawing"
    tenants.forget_idle()
    assert "acme is restored from" in said and "globex is restored from" in said
    assert re.search(r"^globex  +business  +active  +Globex$", said, re.M)
    assert re.search(r"ok +tenants +2 of 2 files are whole", said), said
