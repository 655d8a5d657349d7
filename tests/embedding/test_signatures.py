"""What editors, type checkers and help() know of the resources in Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from crm.embedding import CRM
from crm.embedding.resources import methods_of
from tests.embedding import stub

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.fixture(scope="module")
def crm() -> CRM:
    """A CRM without a tenant: nothing is written."""
    return CRM(data="unused", sends=False)


@pytest.mark.process
def test_the_stub_is_that_of_the_declarations():
    assert stub.PATH.read_text() == stub.generate(), "run: python -m tests.generated"


@pytest.mark.deep
@pytest.mark.process
def test_a_type_checker_knows_arguments_and_results(tmp_path):
    options = ["--follow-imports=silent", "--cache-dir", tmp_path]
    command = [sys.executable, "-m", "mypy", *options, PROGRAM]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_no_endpoint_function_needs_a_request(crm):
    functions = {method.operation.name: method.operation.function for method in methods_of(crm.app)}
    codes = {
        name: function.__code__
        for name, function in functions.items()
        if hasattr(function, "__code__")
    }
    assert len(codes) > 30
    assert not {name for name, code in codes.items() if "request" in code.co_names}
