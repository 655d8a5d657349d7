"""The guides as pages of the workspace: for everybody, linked among each other, rendered whole."""

import re

import pytest

from crm.api.docs import GUIDES
from crm.cabinet.guides import HELP
from crm.cabinet.languages import LANGUAGES
from tests.cabinet.test_page_sizes import PAGE_BYTES, compressed

NAMES = sorted(path.name for path in GUIDES.glob("*.md"))


@pytest.fixture
def read(crm):
    """GET of a path at a tenant's host by a visitor."""
    client = crm.test_client()
    return lambda path, host="acme.localhost": client.get(path, headers={"Host": host})


@pytest.fixture
def pages(read):
    """{name: HTML} of all guides."""
    answers = {name: read(f"/guides/{name}") for name in NAMES}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {name: answer.get_data(as_text=True) for name, answer in answers.items()}


def test_every_guide_is_a_page_with_a_menu_of_all_and_a_way_back(pages):
    for name, page in pages.items():
        menu = page.partition("guide-menu")[2]
        assert set(re.findall(r'href="/guides/([^"]+)"', menu)) == {*NAMES} - {"README.md"}
        assert ('aria-current="page"' in menu) == (name != "README.md")
        assert re.search(r'guide-back"><a href="/"', page)
        assert compressed(page) <= PAGE_BYTES, name


def test_links_between_guides_lead_to_headings_that_are_there(pages, read):
    followed = 0
    for name, page in pages.items():
        text = page.partition("<article")[2].partition("</article>")[0]
        for target in re.findall(r'href="([^"]+)"', text):
            file, _, anchor = target.partition("#")
            assert "../" not in target, (name, target)
            if not target.startswith("http"):
                followed += 1
                if anchor:
                    assert f'id="{anchor}"' in pages[file or name], (name, target)
                else:
                    assert read(f"/guides/{file}").status_code == 200, (name, target)
    assert followed > 150


def test_tables_code_and_marks_of_the_text_are_rendered(pages):
    assert "<table>" in pages["api.md"]
    assert re.search(r"<pre><code[^>]*>", pages["api.md"])
    texts = [re.sub(r"(?s)<(pre|code).*?</\1>", "", page) for page in pages.values()]
    assert not [text for text in texts if re.search(r"^#+ |^\| |^```|\]\(|\*\*", text, re.M)]


def test_an_example_is_plain_text_and_nothing_else_is_served(read):
    example = read("/guides/examples/shop.py")
    assert example.content_type.startswith("text/plain")
    for path in ("nothing.md", "../config.py", "examples/nothing.py", "examples/../api.md"):
        assert read(f"/guides/{path}").status_code == 404, path


def test_they_are_there_at_the_base_host_and_logged_in(read, olena):
    assert "guide-text" in read("/guides/", "localhost").get_data(as_text=True)
    page = olena.sees("/guides/api.md")
    assert 'class="menu"' in page
    assert 'href="/help/"' in olena.sees("/")


def test_the_help_is_in_the_readers_language_and_complete(olena):
    for language, title in (("uk", "Робочий простір"), ("en", "The workspace")):
        headers = {"Accept-Language": language}
        index = olena.sees("/help/", headers=headers)
        assert title in index and 'href="/guides/"' in index
        text = index.partition("<article")[2].partition("</article>")[0]
        assert sorted(re.findall(r'href="([^"]+)"', text)) == sorted(HELP)
        for name in HELP:
            assert f'lang="{language}"' in olena.sees(f"/help/{name}", headers=headers)
    olena.sees("/help/nothing.md", 404)


def test_the_help_has_the_same_parts_in_both_languages():
    for name in ("index.md", *HELP):
        parts = [
            re.findall(r"^#+|^- ", (GUIDES / "help" / language / name).read_text("utf-8"), re.M)
            for language in LANGUAGES
        ]
        assert parts[0] == parts[1] and parts[0], name
