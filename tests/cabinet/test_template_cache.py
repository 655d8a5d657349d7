"""Compiled templates are stored for the next process, beside Python's own compiled modules."""

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from crm import create_app
from crm.cabinet.template_cache import TEMPLATES, TemplateCache
from tests.installations import config_for

SOURCE = "Leads: {{ count }}"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where Python stores compiled modules, here those of this test."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    return tmp_path


def environment() -> Environment:
    return Environment(
        loader=DictLoader({"a.html": SOURCE}), autoescape=True, bytecode_cache=TemplateCache()
    )


def rendered() -> str:
    return environment().get_template("a.html").render(count=3)


def test_what_one_process_has_compiled_the_next_one_takes(folder):
    assert rendered() == "Leads: 3"
    other = environment()
    bucket = TemplateCache().get_bucket(other, "a.html", None, SOURCE)
    assert bucket.code is not None
    bucket.code = other.compile("stored", "a.html")
    TemplateCache().set_bucket(bucket)
    assert rendered() == "stored"


def test_an_installation_compiles_all_templates(folder):
    app = create_app(config_for(folder / "data"), sends=False)
    app.compile_templates()
    count = len(app.jinja_env.list_templates(("html", "txt")))
    assert count > 100 and len([*Path(TemplateCache().directory).iterdir()]) == count


def test_they_are_where_only_who_may_change_the_program_writes(folder):
    cache = TemplateCache()
    assert Path(cache.directory).is_relative_to(folder)
    assert cache.directory.endswith(str(TEMPLATES).lstrip("/"))


def test_without_a_folder_that_can_be_written_templates_are_compiled(folder, monkeypatch):
    folder.joinpath("file").write_text("")
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "file"))
    assert rendered() == "Leads: 3"


def test_nothing_is_stored_where_python_stores_nothing(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered() == "Leads: 3"
    assert not [*folder.iterdir()]
