"""What a browser loads to install the workspace as an app: manifest, worker, offline page, logo."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import assets
from crm.cabinet.rendering import VIEWER, Pages, render
from crm.errors import NotFound
from crm.json import dumps
from crm.resources import logo, tenant

pages = Pages("installable", role=None)


@pages.get("/logo")
def show_logo() -> Response:
    """The logo, also for those who have not logged in; its address changes with it."""
    stored = logo.read()
    if stored is None:
        raise NotFound
    content_type, data = stored
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(data, headers=headers, content_type=content_type)


@pages.get("/manifest.webmanifest", role=VIEWER)
def show_manifest() -> Response:
    """The name, the icons and the first page of the installed app."""
    root, name = request.root_path, tenant.about()["name"]
    icons: list[dict[str, Any]] = [
        {"src": assets.FILES.url("icon.svg"), "sizes": "any", "type": "image/svg+xml"}
    ]
    if digest := logo.digest():
        icons.insert(0, {"src": f"{root}/logo?v={digest}", "sizes": "any"})
    manifest = {
        "name": name,
        "short_name": name[:30],
        "start_url": f"{root}/",
        "scope": f"{root}/",
        "display": "standalone",
        "theme_color": "#3a57d6",
        "background_color": "#ffffff",
        "icons": icons,
    }
    return Response(dumps(manifest), content_type="application/manifest+json")


@pages.get("/worker.js")
def show_worker() -> Response:
    """The worker of the installed app; at the root, because it serves the pages below its path."""
    return assets.FILES.answer("worker.js")


@pages.get("/offline")
def show_offline() -> Response:
    """The page that the worker keeps for when there is no network."""
    return render("offline.html")
