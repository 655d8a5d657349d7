"""Flask sites made with well-known extensions, as their own manuals make them."""

import tempfile
from pathlib import Path

from flask import Flask, redirect, render_template_string, request
from flask_admin import Admin
from flask_admin.contrib.sqla import ModelView
from flask_babel import Babel, format_decimal, gettext
from flask_login import LoginManager, UserMixin, current_user, login_required, login_user
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from crm import CRM
from tests.installations import settings_for

LEAD = {"name": "Марія Коваль", "phone": "067 123 45 67"}


class Base(DeclarativeBase):
    pass


db = SQLAlchemy(model_class=Base)


class Person(UserMixin, db.Model):
    """Staff of the site, who log in by Flask-Login."""

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    role: Mapped[str] = mapped_column(String(10), default="manager")


class Thanks(db.Model):
    """What a callback of the CRM writes into the site's own database."""

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(String(200))


def shop(folder: Path) -> Flask:
    """A shop with SQLAlchemy, logins, Flask-Admin and Flask-Babel."""
    site = Flask("shop", instance_path=str(folder / "instance"))
    site.config.update(
        SECRET_KEY="the shop's own",
        SQLALCHEMY_DATABASE_URI=f"sqlite:///{folder / 'shop.sqlite'}",
        TESTING=True,  # errors of the site's pages are raised
    )
    db.init_app(site)
    with site.app_context():
        db.create_all()
        db.session.add(Person(id=1, name="Надія"))
        db.session.commit()
    logins = LoginManager(site)
    logins.login_view = "login"
    logins.user_loader(lambda id: db.session.get(Person, int(id)))
    Babel(site, locale_selector=lambda: request.args.get("language", "de"))
    site.add_url_rule("/babel", "babel", lambda: f"{gettext('Hi')} {format_decimal(1234.5)}")
    panel = Admin(site, name="Panel")
    panel.add_view(ModelView(Person, db.session))

    @site.get("/")
    def home() -> str:
        return render_template_string(
            "{{ people|length }} people, {{ current_user.is_authenticated }}",
            people=db.session.scalars(db.select(Person)).all(),
        )

    @site.get("/login")
    def login():
        login_user(db.session.get(Person, 1))
        return redirect("/")

    @site.get("/private")
    @login_required
    def private() -> str:
        return f"private: {current_user.name}"

    return site


def walk(site: Flask) -> list[tuple[str, int, bytes]]:
    """What the site answers at its own pages, before and after a login."""
    client = site.test_client()
    seen = []
    for path in ("/", "/private", *PAGES, "/nowhere", "/login", "/private", *PAGES):
        answer = client.get(path)
        seen.append((path, answer.status_code, answer.data))
    return seen


PAGES = (
    *("/admin/", "/admin/person/", "/admin/person/new/", "/admin/person/edit/?id=1"),
    "/babel",
)


def put_crm_into(site: Flask, folder: Path) -> CRM:
    """The CRM below /crm, for whom Flask-Login knows; its callback writes by Flask-SQLAlchemy."""
    crm = CRM(
        site, url_prefix="/crm", tenant="acme", current_user=lambda: current_user,
        **settings_for(folder / "crm"), sends=False,
    )  # fmt: skip
    crm.create_tenant("acme", owner={"name": "Olena"})

    @crm.on("lead.created")
    def thank(event: dict) -> None:
        db.session.add(Thanks(text=f"Дякуємо, {event['data']['lead']['name']}"))
        db.session.commit()

    return crm


def check() -> None:
    """The site's pages are the same with the CRM in it, and the CRM's work."""
    folder = Path(tempfile.mkdtemp())
    site = shop(folder)
    before = walk(site)
    assert {status for path, status, _ in before if path in PAGES} == {200}, before
    crm = put_crm_into(site, folder)
    assert walk(site) == before
    client = site.test_client()
    assert client.get("/crm/leads").status_code == 302
    client.get("/login")
    page = client.get("/crm/leads")
    assert page.status_code == 200 and "Надія" in page.text and "Ліди" in page.text
    assert "Decimal" not in client.get("/crm/").text
    with crm.tenant("acme"):
        crm.leads.create(**LEAD)
    assert crm.callbacks.wait(10)
    with site.app_context():
        assert [row.text for row in db.session.scalars(db.select(Thanks))] == [
            "Дякуємо, Марія Коваль"
        ]
        db.engine.dispose()
    crm.close()
