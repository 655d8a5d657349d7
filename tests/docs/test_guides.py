"""The guides of `crm/docs`: complete, linked, served, and with commands that exist."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from crm import cli
from crm.api.openapi import GUIDES_PATH
from tests.raw_wsgi import send_request

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "crm" / "docs"
GUIDES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)(?:::(test_\w+))?`")
TABLE_ROW = re.compile(r"^\| \[([^]]+)\]\((?:crm/docs/)?([\w-]+\.md)\) \| (.*) \|$", re.M)
COMMAND = re.compile(r"(?:app\.py|/opt/crm/bin/crm|dist/crm(?:\.pyz)?) (.*)")
each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
each_page = pytest.mark.parametrize(
    "page", [ROOT / "README.md", FOLDER / "README.md", *GUIDES], ids=lambda path: path.name
)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that a renderer of Markdown gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_command(words: list[str]) -> None:
    """Check that the first words name a command and that it has the options."""
    command: Any = cli.group
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            assert word in command.commands, words
            command = command.commands[word]
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if re.match(r"--\w", word)} <= options, words


def test_the_threat_model_names_tests_that_exist():
    named = NAMED.findall((FOLDER / "threat-model.md").read_text("utf-8"))
    assert len(named) > 40
    for file, name in named:
        code = (ROOT / "tests" / file).read_text("utf-8")
        assert not name or f"\ndef {name}(" in code, f"{file}::{name}"


def test_readme_and_index_list_every_guide_by_its_title():
    readme, index = (
        TABLE_ROW.findall((folder / "README.md").read_text("utf-8")) for folder in (ROOT, FOLDER)
    )
    assert readme == index
    assert {name: title for title, name, _ in index} == {
        path.name: path.read_text("utf-8").partition("\n")[0].removeprefix("# ") for path in GUIDES
    }


@each_guide
def test_a_guide_begins_with_one_sentence_on_its_purpose_and_readers(guide):
    title, purpose = guide.read_text("utf-8").split("\n\n")[:2]
    assert re.fullmatch(r"# .+", title)
    assert re.search(r"\bfor\b", purpose)
    assert purpose.endswith(".") and not re.search(r"\.\s", purpose)


@each_page
def test_the_links_of_a_page_lead_to_files_and_headings_that_exist(page):
    for link in re.findall(r"\]\((?!https?://)([^)]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


@each_page
def test_the_commands_of_a_page_exist_with_their_options(page):
    for block in re.findall(r"```(?:sh|text)\n(.*?)```", page.read_text("utf-8"), re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if command := COMMAND.search(line):
                check_command(re.split(r" [|>&#]", command[1])[0].split())


def test_the_table_of_commands_is_complete():
    section = (FOLDER / "command-line.md").read_text("utf-8").split("\n## Commands\n")[1]
    table = "".join(re.findall(r"^\| (`.*) \| .* \|$", section.split("\n## ")[0], re.M))
    words = {word for name in re.findall(r"`([^`]+)`", table) for word in name.split()}
    for name, command in cli.group.commands.items():
        assert name in words, name
        for below in getattr(command, "commands", {}):
            assert below in words, f"{name} {below}"


# Served by every installation


@pytest.mark.parametrize("root", ["", "/crm"])
def test_the_api_document_refers_to_guides_that_are_served(crm, root):
    document = json.loads(send_request(crm, path="/api/v1/openapi.json", SCRIPT_NAME=root).body)
    url = document["externalDocs"]["url"]
    assert url == f"{root}{GUIDES_PATH}/"
    index = send_request(crm, path=url.removeprefix(root), SCRIPT_NAME=root)
    assert index.status == 200
    assert index.headers["Content-Type"] == "text/html; charset=utf-8"
    links = re.findall(r'href="([^"]+)"', index.body.decode())
    assert [link.rpartition("/")[2] for link in links] == [path.name for path in GUIDES]
    for link, path in zip(links, GUIDES, strict=True):
        guide = send_request(crm, path=link.removeprefix(root), SCRIPT_NAME=root)
        assert (guide.status, guide.body) == (200, path.read_bytes())
        assert guide.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_the_examples_of_the_guides_are_served_as_plain_text(crm):
    for path in (FOLDER / "examples").iterdir():
        if path.is_file():
            example = send_request(crm, path=f"{GUIDES_PATH}/examples/{path.name}")
            assert (example.status, example.body) == (200, path.read_bytes())
            assert example.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("name", ["x.md", "..%2fwsgi.py", "../wsgi.py", "api", "examples"])
def test_nothing_else_is_served_as_a_guide(crm, name):
    assert send_request(crm, path=f"{GUIDES_PATH}/{name}").status == 404
