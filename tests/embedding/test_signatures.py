"""What editors, type checkers and help() know of the resources in Python."""

import inspect
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


def test_a_signature_has_the_declared_fields(crm):
    signature = inspect.signature(crm.leads.create)
    assert str(signature.parameters["name"]) == "name"
    assert str(signature.parameters["phone"]) == "phone=Ellipsis"
    assert [*inspect.signature(crm.deals.items.update).parameters][:2] == ["deal_id", "id"]
    assert [*inspect.signature(crm.products.import_csv).parameters][0] == "file"


def test_a_docstring_tells_what_names_do_not(crm):
    lines = crm.leads.list.__doc__.splitlines()
    assert lines[0] == "List leads, the newest first."
    assert "source_not: From none of these sources; leads without one are included." in lines
    assert "version: As it was read: refused when the record has changed since." in (
        crm.leads.update.__doc__
    )


def test_no_endpoint_function_needs_a_request(crm):
    functions = {method.operation.name: method.operation.function for method in methods_of(crm.app)}
    codes = {
        name: function.__code__
        for name, function in functions.items()
        if hasattr(function, "__code__")
    }
    assert len(codes) > 30
    assert not {name for name, code in codes.items() if "request" in code.co_names}
