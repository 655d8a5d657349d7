"""`/api/v1/openapi.json`, and below `/api/v1/docs` Swagger UI and the guides (D16), without a key.

To a key the document names the fields of the tenant's own; it is cached by their catalog.

Swagger UI comes from its installed package, so the page works offline; page and start script are
ours, because the package's own page has an inline script, which a strict CSP forbids. The guides of
`crm/docs` are sent as the Markdown they are written in, which is readable without a renderer, and
their examples as plain text.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import flask_swagger_ui
from flask import Blueprint, Flask, Response, request

from crm.access import rights
from crm.api.admission import read_key
from crm.api.custom_schemas import with_custom
from crm.api.openapi import GUIDES_PATH, Api
from crm.api.operations import PREFIX
from crm.api.static_files import CHECK_EACH_TIME, Content, StaticFiles
from crm.config import Config
from crm.errors import Forbidden, Unauthorized
from crm.json import dumps
from crm.records.custom import fields as custom_fields
from crm.storage.session import current_session

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
GUIDES = Path(__file__).parent.parent / "docs"
GUIDE_PATHS = (*GUIDES.glob("*.md"), *GUIDES.glob("examples/*.*"))
GUIDE_FILES = StaticFiles(GUIDES_PATH, {str(p.relative_to(GUIDES)): p for p in GUIDE_PATHS})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def install(app: Flask, api: Api, config: Config) -> None:
    """Serve document, page and guides; none needs a key or counts against the limit."""
    docs = Blueprint("docs", __name__, url_prefix=PREFIX, template_folder="templates")

    def public(view: Any) -> Any:
        view.public = True
        return view

    def answer_page(template: str, **values: Any) -> Response:
        # Not flask.render_template(), which runs what the workspace adds to its own templates.
        text = app.jinja_env.get_template(template).render(**values)
        response = Content(text.encode(), "text/html; charset=utf-8").answer(CHECK_EACH_TIME)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @lru_cache(maxsize=8)
    def document(root: str, digest: str | None, plurals: frozenset[str]) -> Content:
        own = {plural: custom_fields.of(plural) for plural in plurals}
        return Content(dumps(with_custom(api.document(root), own)), "application/json")

    @docs.get("/openapi.json")
    @public
    def openapi() -> Response:
        # Programs such as Postman need the whole address. It is written only where the request came
        # to it: under any other, the page of the documentation could not call it.
        address = urlsplit(config.url_of(current_session().label))
        is_there = (address.netloc, address.path) == (request.host, request.root_path)
        root, plurals = address.geturl() if is_there else request.root_path, _known_resources()
        digest = current_session().fields_digest if plurals else None
        return document(root, digest, plurals).answer(CHECK_EACH_TIME)

    @docs.get("/docs")
    @docs.get("/docs/")
    @public
    def page() -> Response:
        return answer_page("swagger_ui.html", url=FILES.url)

    @docs.get("/docs/<name>")
    @public
    def file(name: str) -> Response:
        return FILES.answer(name)

    @docs.get("/docs/guides/")
    @public
    def guides() -> Response:
        path = f"{request.root_path}{GUIDES_PATH}"
        return answer_page("guides.html", path=path, guides=list_guides())

    @docs.get("/docs/guides/<path:name>")
    @public
    def guide(name: str) -> Response:
        return GUIDE_FILES.answer(name)

    app.register_blueprint(docs)


def _known_resources() -> frozenset[str]:
    """The resources whose fields of the tenant's own the key of the request, if any, may know."""
    try:
        rights.authenticate(read_key(request.environ))
    except (Unauthorized, Forbidden):  # for whom it is the document of all
        return frozenset()
    scopes = rights.granted()
    return frozenset(
        plural
        for plural in custom_fields.current().of_resource
        if any(rights.allows(scopes, f"{plural}:{right}") for right in ("read", "write"))
    )


def list_guides() -> Iterator[tuple[str, str, str]]:
    """Yield the file name, the title and the first sentence of each guide."""
    for path in sorted(GUIDES.glob("*.md")):
        if path.name != "README.md":
            heading, purpose = path.read_text("utf-8").split("\n\n")[:2]
            yield path.name, heading.removeprefix("# "), purpose.replace("`", "")
