"""`/api/v1/openapi.json` and Swagger UI at `/api/v1/docs` (D16): public on a tenant's host.

Swagger UI comes from its installed package, so the page works offline; page and start script are
ours, because the package's own page has an inline script, which a strict CSP forbids.
"""

from functools import lru_cache
from pathlib import Path

import flask_swagger_ui
from flask import Blueprint, Flask, Response, request, send_from_directory
from werkzeug.exceptions import NotFound

from crm.json import dumps
from crm.rest.openapi import Api
from crm.rest.resource import PREFIX

FOLDER = Path(flask_swagger_ui.__file__).parent / "dist"
ASSETS = ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CRM API</title>
<link rel="stylesheet" href="{base}/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="{base}/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{base}/docs/swagger-ui-bundle.js"></script>
<script src="{base}/docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: new URL("../openapi.json", document.currentScript.src).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
"""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def install(app: Flask, api: Api) -> None:
    """Serve the document and the page; neither needs a key nor counts against the limit."""
    docs = Blueprint("docs", __name__, url_prefix=PREFIX)

    @lru_cache(maxsize=8)  # by mount point: there is one, or a few
    def document(root: str) -> bytes:
        return dumps(api.document(root))

    @docs.get("/openapi.json")
    def openapi() -> Response:
        return Response(document(request.root_path), mimetype="application/json")

    @docs.get("/docs")
    @docs.get("/docs/")
    def page() -> Response:
        text = PAGE.replace("{base}", f"{request.root_path}{PREFIX}")
        response = Response(text, mimetype="text/html")
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @docs.get("/docs/start.js")
    def start() -> Response:
        return Response(START, mimetype="text/javascript")

    @docs.get("/docs/<name>")
    def asset(name: str) -> Response:
        if name not in ASSETS:  # the package has a page of its own, with an inline script
            raise NotFound
        return send_from_directory(FOLDER, name, max_age=86_400)

    for view in (openapi, page, start, asset):
        view.public = True
    app.register_blueprint(docs)
