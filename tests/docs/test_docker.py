"""The files for Docker, without Docker: a linter, the unit's bounds, and the steps in a folder."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests import external_programs
from tests.installations import environ_for
from tests.server_process import ROOT, find_free_port, run_listening_process

pytestmark = [pytest.mark.process, pytest.mark.files]

DEPLOY = ROOT / "crm" / "deploy"
SERVICE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["crm"]
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """The instructions of the Dockerfile: keyword and arguments."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(keyword, rest) for keyword, _, rest in (line.partition(" ") for line in lines)]


def value(keyword: str) -> str:
    """The arguments of the last instruction of that keyword."""
    return [rest for result, rest in instructions() if result == keyword][-1]


def test_a_linter_finds_no_fault_in_the_dockerfile() -> None:
    program = external_programs.found("hadolint")
    result = subprocess.run([program, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_container_has_the_bounds_of_the_unit() -> None:
    unit = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "crm.service").read_text(), re.M))
    bounds = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "hardening.conf").read_text(), re.M))
    assert SERVICE["restart"] == unit["Restart"]
    assert SERVICE["stop_grace_period"] == f"{unit['TimeoutStopSec']}s"
    assert bounds["ProtectSystem"] == "strict" and SERVICE["read_only"] is True
    assert bounds["CapabilityBoundingSet"] == "" and SERVICE["cap_drop"] == ["ALL"]
    assert bounds["NoNewPrivileges"] == "yes"
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert SERVICE["tmpfs"] == ["/tmp"]
    assert SERVICE["user"] == value("USER") == "10001:10001"
    (volume,) = SERVICE["volumes"]
    data = volume.partition(":")[2]
    assert data == value("VOLUME") == re.search(r"CRM_DATA=(\S+)", value("ENV"))[1]
    assert (DEPLOY / SERVICE["build"]["context"]).resolve() == ROOT
    assert ROOT / SERVICE["build"]["dockerfile"] == DEPLOY / "Dockerfile"


@pytest.mark.deep
def test_the_steps_of_the_dockerfile_lead_to_a_service(tmp_path: Path) -> None:
    """Each stage in one folder: what it copies, what it runs, and what the container starts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "useradd").write_text('#!/bin/sh\n[ "$(echo "$*" | grep -c "uid 10001")" = 1 ]\n')
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    real = shutil.which("install")
    (programs / "install").write_text(f"#!/bin/sh\nexec {real} $(echo $* | sed 's/-[og] crm//g')\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    environ = {
        **{"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        **{"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"},
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }

    def here(text: str) -> str:
        return re.sub(r"(?<![\w.])/(opt|src|var/lib)\b", rf"{tmp_path}/\1", text)

    (tmp_path / "opt").mkdir()
    (tmp_path / "var/lib").mkdir(parents=True)
    folder = tmp_path
    for keyword, rest in instructions():
        if keyword == "WORKDIR":
            folder = Path(here(rest))
            folder.mkdir()
        elif keyword == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / source, folder / source, ignore=ignored)
                else:
                    shutil.copyfile(ROOT / source, folder / source)
        elif keyword == "RUN":
            result = subprocess.run(
                ["sh", "-ec", here(rest)], cwd=folder, env=environ, capture_output=True, text=True
            )
            assert result.returncode == 0, result.stderr
    assert [*(tmp_path / "opt").rglob("cabinet/templates/__pycache__/*.pyc")], "compiled templates"
    data = tmp_path / "var/lib/crm"
    assert data.stat().st_mode & 0o777 == 0o700
    port = find_free_port()
    settings = dict(shlex.split(here(value("ENV")))[i].split("=", 1) for i in range(2))
    settings |= environ_for(data) | {"CRM_PORT": str(port)}
    entry = json.loads(here(value("ENTRYPOINT")))
    check = json.loads(here(value("HEALTHCHECK").partition("CMD ")[2]))
    for command in (json.loads(value("CMD")), SERVICE["command"]):
        with run_listening_process([*entry, *command], port, cwd="/", env=environ | settings):
            assert subprocess.run(check, env=environ | settings).returncode == 0
    assert subprocess.run(check, env=environ | settings, stderr=subprocess.DEVNULL).returncode == 1
