"""Flask sites that the CRM is put into: a plain one, and one that is hostile in every way."""

import json
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, g, jsonify, request, session
from flask.json.provider import DefaultJSONProvider
from flask_wtf.csrf import CSRFProtect


class Shouting(DefaultJSONProvider):
    """A JSON provider of the site's own taste."""

    def dumps(self, obj: Any, **options: Any) -> str:
        return json.dumps({"SHOUTED": obj}).upper()

    def loads(self, s: str | bytes, **options: Any) -> Any:
        raise ValueError("the site reads no JSON")


class Site(Flask):
    """A site that notes which of its hooks were called."""

    json_provider_class = Shouting

    def __init__(self, folder: Path):
        super().__init__("site", instance_path=str(folder / "instance"), static_folder=None)
        self.heard: list[str] = []


def hostile(folder: Path) -> Site:
    """Everything at once that a site may do to what lives in it."""
    site = Site(folder)
    site.config.update(
        SECRET_KEY="the site's own",
        SERVER_NAME="shop.example.ua",
        MAX_CONTENT_LENGTH=10,
        MAX_FORM_MEMORY_SIZE=5,
        TESTING=True,
        PROPAGATE_EXCEPTIONS=True,
        TRAP_HTTP_EXCEPTIONS=False,
        SESSION_COOKIE_NAME="session",
        SESSION_COOKIE_PATH="/",
        SESSION_REFRESH_EACH_REQUEST=True,
        WTF_CSRF_TIME_LIMIT=1,
    )
    CSRFProtect(site)

    @site.before_request
    def count() -> None:
        site.heard.append("before")
        g.by_the_site = True
        if request.path.startswith("/crm") or "refused" in request.args:
            abort(403)

    @site.after_request
    def mark(response: Response) -> Response:
        site.heard.append("after")
        response.headers["X-Site"] = "here"
        response.headers["Content-Security-Policy"] = "default-src 'none'"
        return response

    @site.teardown_request
    def tear(error: BaseException | None) -> None:
        site.heard.append("teardown")

    @site.teardown_appcontext
    def tear_down(error: BaseException | None) -> None:
        site.heard.append("appcontext")

    @site.url_value_preprocessor
    def preprocess(endpoint: str | None, values: dict | None) -> None:
        site.heard.append("preprocess")

    @site.context_processor
    def company() -> dict[str, str]:
        return {"company": "the site's", "me": "the site's", "menu": "the site's"}

    for status in (400, 403, 404, 405, 413):
        site.register_error_handler(status, lambda error: (f"the site's {error.code}", 200))
    site.register_error_handler(500, lambda error: ("the site's 500", 200))

    @site.route("/", methods=["GET", "POST"])
    def home() -> str:
        session["seen"] = True
        return f"the site, {len(request.get_data())} bytes"

    @site.get("/json")
    def told() -> Response:
        return jsonify(a=1)

    @site.get("/boom")
    def boom() -> str:
        raise RuntimeError("the site's own")

    @site.route("/crm/", methods=["GET", "POST"])
    @site.route("/crm/<path:rest>", methods=["GET", "POST"])
    def hidden(rest: str = "") -> str:
        return "the site's page at the CRM's place"

    @site.get("/crmx")
    def beside() -> str:
        return "beside the CRM"

    return site


def plain(folder: Path) -> Flask:
    """A site with a login: who is there stands in its session."""
    site = Flask("site", instance_path=str(folder / "instance"), static_folder=None)
    site.secret_key = "the site's own"

    @site.get("/")
    def home() -> str:
        return "the site"

    @site.get("/login")
    def login() -> Response | str:
        session.update(request.args.items())
        return "logged in"

    @site.get("/logout")
    def logout() -> str:
        session.clear()
        return "logged out"

    return site


def logged_in() -> dict[str, Any] | None:
    """The current_user of a plain site: whoever has a role there."""
    return dict(session) if "role" in session else None
