"""The guides of `crm/docs` as pages: rendered from their Markdown, with a menu of all of them.

They are open to everybody, as the Markdown itself is below `/api/v1/docs/guides/`. Links between
guides are relative, and so the same here.
"""

import re
from functools import cache
from typing import Any

from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.api.docs import GUIDE_FILES, GUIDES, list_guides
from crm.cabinet.rendering import BASE_HOST, TENANT, Pages, render
from crm.errors import NotFound

pages = Pages("guides", role=None)
# Links to other files of the repository, which become their text, and pictures, which are left out.
NOT_SERVED = re.compile(r"(!?)\[([^]]*)\]\((?:\.\./[^)]*|examples)\)")


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
    title = titles[name]
    return render("guide.html", listed=listed, name=name, title=title, text=_rendered(name))


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
