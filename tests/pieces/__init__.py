"""A page of all pieces that templates are made of (`crm/cabinet/templates/macros.html`).

It is for those who change them: `python -m tests.pieces FOLDER` saves its pictures, on a wide
screen and a phone, in the light and in the dark. No installation has this page.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flask import Flask, render_template_string
from playwright.sync_api import Browser, Page

from crm import create_app, demo
from crm.access import sessions
from crm.cabinet.forms import Form
from crm.cabinet.login.authentication import COOKIE
from crm.cabinet.rendering import TENANT, VIEWER
from crm.errors import Invalid
from crm.resources import users
from tests.chromium import NARROW, WIDE, open_page, serving
from tests.installations import config_for

PATH = "/pieces"
KINDS = [(width, scheme) for width in (WIDE, NARROW) for scheme in ("light", "dark")]
TEMPLATE = Path(__file__).with_name("pieces.html")


def _add_page(app: Flask) -> None:
    """Add the page to an app that has served nothing yet."""

    def show_pieces() -> str:
        refused = Invalid.field("phone", "invalid_phone", "not a phone number")
        return render_template_string(
            TEMPLATE.read_text("utf-8"),
            form=Form({"name": "Марія Коваленко", "amount": "24 000"}),
            refused=Form({"phone": "123"}, refused),
        )

    show_pieces.role = VIEWER  # type: ignore[attr-defined]
    show_pieces.is_file = False  # type: ignore[attr-defined]
    show_pieces.at = (TENANT,)  # type: ignore[attr-defined]
    app.add_url_rule(PATH, view_func=show_pieces)


@contextmanager
def shown(
    data: Path, browser: Browser, kinds: Sequence[tuple[int, str]] = KINDS
) -> Iterator[Iterator[tuple[str, Page]]]:
    """(name, page) for each width and colour scheme, of a demo in the folder `data`."""
    app = create_app(config_for(data), sends=False)
    demo.prepare(app.tenants)
    _add_page(app)
    with app.tenants.session("acme"):
        token = sessions.open(users.owner_id(), "pieces")

    def open_each(home: str) -> Iterator[tuple[str, Page]]:
        for width, scheme in kinds:
            with open_page(browser, width, color_scheme=scheme) as page:
                page.context.add_cookies([{"name": COOKIE, "value": token, "url": home}])
                page.goto(home + PATH)
                yield f"{width}-{scheme}", page

    with serving(app) as home:
        yield open_each(home)
    app.tenants.forget_idle()
