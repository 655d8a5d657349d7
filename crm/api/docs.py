"""`/api/v1/openapi.json`, and below `/api/v1/docs` Swagger UI and the guides (D16), without a key.

Swagger UI comes from its installed package, so the page works offline; page and start script are
ours, because the package's own page has an inline script, which a strict CSP forbids. The guides of
`crm/docs` are sent as the Markdown they are written in, which is readable without a renderer.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import flask_swagger_ui
from flask import Blueprint, Flask, Response, request
from markupsafe import Markup, escape

from crm.api.openapi import GUIDES_PATH, Api
from crm.api.operations import PREFIX
from crm.api.static_files import CHECK_EACH_TIME, Content, StaticFiles
from crm.json import dumps

SWAGGER_UI = Path(flask_swagger_ui.__file__).parent / "dist"
FILES = StaticFiles(  # not all of the package's: its page has an inline script
    f"{PREFIX}/docs",
    {
        "swagger-ui.css": SWAGGER_UI / "swagger-ui.css",
        "swagger-ui-bundle.js": SWAGGER_UI / "swagger-ui-bundle.js",
        "favicon-32x32.png": SWAGGER_UI / "favicon-32x32.png",
        "start.js": Path(__file__).with_name("start.js"),
    },
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CRM API</title>
<link rel="stylesheet" href="{swagger-ui.css}">
<link rel="icon" type="image/png" href="{favicon-32x32.png}">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{swagger-ui-bundle.js}"></script>
<script src="{start.js}"></script>
</body>
</html>
"""
GUIDES = Path(__file__).parent.parent / "docs"
GUIDE_FILES = StaticFiles(GUIDES_PATH, {path.name: path for path in GUIDES.glob("*.md")})
GUIDES_PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CRM guides</title>
</head>
<body>
<h1>CRM guides</h1>
<dl>
{guides}
</dl>
</body>
</html>
""")
GUIDE_LINK = Markup('<dt><a href="{url}">{title}</a></dt>\n<dd>{purpose}</dd>')
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def install(app: Flask, api: Api) -> None:
    """Serve document, page and guides; none needs a key or counts against the limit."""
    docs = Blueprint("docs", __name__, url_prefix=PREFIX)

    @lru_cache(maxsize=8)  # by mount point: there is one, or a few
    def document(root: str) -> Content:
        return Content(dumps(api.document(root)), "application/json")

    @docs.get("/openapi.json")
    def openapi() -> Response:
        return document(request.root_path).answer(CHECK_EACH_TIME)

    @docs.get("/docs")
    @docs.get("/docs/")
    def page() -> Response:
        text = re.sub(r"{(\S+)}", lambda name: escape(FILES.url(name[1])), PAGE)
        response = Response(text, mimetype="text/html")
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @docs.get("/docs/<name>")
    def file(name: str) -> Response:
        return FILES.answer(name)

    @lru_cache(maxsize=8)
    def index(root: str) -> Content:
        links = Markup("\n").join(
            GUIDE_LINK.format(url=f"{root}{GUIDES_PATH}/{name}", title=title, purpose=purpose)
            for name, title, purpose in list_guides()
        )
        return Content(GUIDES_PAGE.format(guides=links).encode(), "text/html; charset=utf-8")

    @docs.get("/docs/guides/")
    def guides() -> Response:
        response = index(request.root_path).answer(CHECK_EACH_TIME)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @docs.get("/docs/guides/<name>")
    def guide(name: str) -> Response:
        return GUIDE_FILES.answer(name)

    views: tuple[Any, ...] = (openapi, page, file, guides, guide)
    for view in views:
        view.public = True
    app.register_blueprint(docs)


def list_guides() -> Iterator[tuple[str, str, str]]:
    """Yield the file name, the title and the first sentence of each guide."""
    for path in sorted(GUIDES.glob("*.md")):
        if path.name != "README.md":
            heading, purpose = path.read_text("utf-8").split("\n\n")[:2]
            yield path.name, heading.removeprefix("# "), purpose.replace("`", "")
