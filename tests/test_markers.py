"""Who starts another program says so: quick runs start none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.concurrency import ROOT

pytestmark = pytest.mark.process
TESTS = """
import os, subprocess, sys
import pytest

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

def start_unheard():
    try:
        start()
    except Exception:
        pass

@pytest.fixture(scope="module")
def server():
    start()

@pytest.mark.process
def test_marked(server): start()
@pytest.mark.process
def test_a_process_is_no_browser(): subprocess.run([BROWSER, "-c", ""])
def test_unmarked(): start()
def test_unheard(): start_unheard()
def test_shared(server): pass
@pytest.mark.slow
def test_slow(): os.fork()
def test_quick(): pass
"""


@pytest.mark.parametrize(
    ("options", "failing", "passing"),
    [
        ([], {"unmarked", "unheard", "shared", "slow", "a_process_is_no_browser"}, 2),
        pytest.param(
            *(["-m", "quick"], {"unmarked", "unheard", "shared"}, 1), marks=pytest.mark.deep
        ),
    ],
)
def test_a_test_without_its_marker_starts_nothing(
    tmp_path: Path, options: list[str], failing: set[str], passing: int
) -> None:
    browser = tmp_path / "playwright"
    browser.symlink_to(sys.executable)
    (tmp_path / "test_some.py").write_text(TESTS.replace("BROWSER", repr(str(browser))))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.markers", *options]
    command += ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", tmp_path, tmp_path]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    failed = re.findall(r"^(?:FAILED|ERROR) .*::test_(\w+)", ran.stdout, re.M)
    assert set(failed) == failing
    # In CI the summary names each failure once more.
    assert len(set(re.findall(r"Failed: test_some\.py::(\w+)", ran.stdout))) == len(failing)
    assert f" {passing} passed" in ran.stdout
