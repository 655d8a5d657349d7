"""The guides of `crm/docs` at `/api/v1/docs/guides`: public, like the description of the API.

The OpenAPI document refers to them. Guides are sent as the Markdown they are written in, which is
readable without a renderer; the index is a page with links.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from flask import Blueprint, Response, request
from markupsafe import Markup

from crm.rest.resource import PREFIX
from crm.rest.static_files import CHECK_EACH_TIME, Content, StaticFiles

FOLDER = Path(__file__).parent.parent / "docs"
PATH = f"{PREFIX}/docs/guides"
INDEX = "README.md"
FILES = StaticFiles(PATH, {path.name: path for path in sorted(FOLDER.glob("*.md"))})
POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CRM guides</title>
</head>
<body>
<h1>CRM guides</h1>
<dl>
{rows}
</dl>
</body>
</html>
""")
ROW = Markup('<dt><a href="{path}/{name}">{title}</a></dt>\n<dd>{purpose}</dd>')


def add_to(blueprint: Blueprint) -> None:
    """Register the index and the guides on the blueprint of the documentation."""

    @blueprint.get("/docs/guides/")
    def guides() -> Response:
        response = _index(request.root_path).answer(CHECK_EACH_TIME)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @blueprint.get("/docs/guides/<name>")
    def guide(name: str) -> Response:
        return FILES.answer(name)

    guides.public = guide.public = True


@lru_cache(maxsize=8)  # by mount point: there is one, or a few
def _index(root: str) -> Content:
    rows = Markup("\n").join(
        ROW.format(path=f"{root}{PATH}", name=name, title=title, purpose=purpose)
        for name, title, purpose in list_guides()
    )
    return Content(PAGE.format(rows=rows).encode(), "text/html; charset=utf-8")


def list_guides() -> Iterator[tuple[str, str, str]]:
    """Yield file name, title and first sentence of each guide."""
    for path in sorted(FOLDER.glob("*.md")):
        if path.name != INDEX:
            heading, _, text = path.read_text("utf-8").partition("\n\n")
            purpose = " ".join(text.partition("\n\n")[0].replace("`", "").split())
            yield path.name, heading.removeprefix("# "), purpose
