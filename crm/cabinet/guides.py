"""The help for people, in their language, and the guides of `crm/docs`, as pages with a menu.

Both are rendered from Markdown and open to everybody, as that of the guides is below
`/api/v1/docs/guides/`. Links between pages are relative, and so the same here.
"""

import re
from functools import cache
from typing import Any

from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.api.docs import GUIDE_FILES, GUIDES, list_guides
from crm.cabinet.languages import language
from crm.cabinet.rendering import BASE_HOST, TENANT, Pages, render
from crm.errors import NotFound

pages = Pages("guides", role=None)
# In each language, with an index.
HELP = ("workspace.md", "fields.md", "importing.md", "alerts.md", "phone.md")
# Links to other files of the repository, which become their text, and pictures, which are left out.
NOT_SERVED = re.compile(r"(!?)\[([^]]*)\]\((?:\.\./[^)]*|examples)\)")


@pages.get("/help/", at=(TENANT, BASE_HOST))
def show_help_index() -> Response:
    return show_help("index.md")


@pages.get("/help/<name>", at=(TENANT, BASE_HOST))
def show_help(name: str) -> Response:
    """A page of the help in the reader's language."""
    if name not in ("index.md", *HELP):
        raise NotFound
    folder = f"help/{language()}"
    listed = [(each, _title(f"{folder}/{each}")) for each in HELP]
    context = {"name": name, "title": _title(f"{folder}/{name}"), "listed": listed}
    return _render("/help/", f"{folder}/{name}", language(), **context)


@pages.get("/guides/", at=(TENANT, BASE_HOST))
def show_index() -> Response:
    """Flask redirects `/guides` here: relative links of the index need the slash."""
    return show_guide("README.md")


@pages.get("/guides/<path:name>", at=(TENANT, BASE_HOST))
def show_guide(name: str) -> Response:
    """A guide as a page; an example as the plain text that it is."""
    if not name.endswith(".md"):
        return GUIDE_FILES.answer(name)
    listed = [(file, title) for file, title, _ in list_guides()]
    titles = dict(listed) | {"README.md": "Guides"}
    if name not in titles:
        raise NotFound
    return _render("/guides/", name, "en", name=name, title=titles[name], listed=listed)


def _render(path: str, file: str, text_language: str, **context: Any) -> Response:
    """The page of a file, one of those below `path`."""
    context |= {"path": path, "text": _rendered(file), "text_language": text_language}
    return render("guide.html", **context)


@cache
def _title(name: str) -> str:
    return (GUIDES / name).read_text("utf-8").partition("\n")[0].removeprefix("# ")


@cache
def _rendered(name: str) -> Markup:
    """The HTML of a guide, whose headings have the anchors that the guides link to."""
    from markdown_it import MarkdownIt  # 3 MB, needed only by those who read

    text = NOT_SERVED.sub(lambda link: link[2] * (not link[1]), (GUIDES / name).read_text("utf-8"))
    parser = MarkdownIt("js-default", {"linkify": False, "typographer": False})
    tokens: list[Any] = parser.parse(text)
    for opening, content in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            anchor = re.sub(r"[^\w\- ]", "", content.content.lower()).replace(" ", "-")
            opening.attrSet("id", anchor)
    return Markup(parser.renderer.render(tokens, parser.options, {}))
