"""Pages of the base host: sign-up in three steps (phone, code, company), and the way to a tenant.

A sign-up needs a Ukrainian phone that was confirmed by SMS, and each confirmation opens one tenant.
The new owner is redirected to the tenant's own host by a link that is valid for two minutes (D18).
"""

import re
import secrets

from flask import g, redirect, request, session
from werkzeug.wrappers import Response

from crm.access import codes, links
from crm.cabinet import languages, today
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.login import authentication, phone_codes
from crm.cabinet.login.login import PHONE_IN
from crm.cabinet.rendering import BASE_HOST, TENANT, Pages, me, render, see_other
from crm.config import LABEL
from crm.errors import Invalid, NotFound
from crm.installation.tenants import RESERVED
from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.storage.session import settings
from crm.values import transliterate

AT = (BASE_HOST,)
MAX_PROPOSAL_CHARACTERS = 30
MAX_LABEL_NUMBER = 20  # of the numbers tried after a label that is taken
HOST = re.compile(r"(?:https?://)?([^/:\s]*)")


class CompanySchema(RecordSchema):
    company = fields.Text(255, required=True)
    name = fields.Text(255)
    label = fields.Text(63)


COMPANY_IN = CompanySchema.body("CompanyIn")

pages = Pages("signup", role=None)


@pages.get("/", at=(TENANT, BASE_HOST))
def start_page() -> Response:
    """The start page: of the base host the ways in, of a tenant's host Today."""
    if g.place == BASE_HOST:
        return welcome()
    return today.show() if me() else see_other("/login")


def welcome(form: Form | None = None) -> Response:
    """The start page of the base host, also shown at the bare address of the machine."""
    at_ip_address = authentication.BY_IP_ADDRESS in request.environ
    return render(
        "signup/welcome.html",
        form=form or Form(),
        signup=settings().signup,
        home=settings().base_url if at_ip_address else request.root_path,
        example=_host("firma"),
    )


@pages.post("/open", at=AT, page=welcome)
def open_cabinet() -> Response:
    match = HOST.match(request.form.get("label", "").strip().lower())
    host = match[1] if match else ""
    label = host.removesuffix(f".{settings().base_domain}")
    if not current_app.tenants.exists(label):
        raise Invalid.field("label", "unknown_label", gettext("Workspace not found."))
    return redirect(f"{settings().url_of(label)}/login", 303)


@pages.before_request
def refuse_when_closed() -> None:
    if request.path.startswith("/signup") and not settings().signup:
        raise NotFound


@pages.get("/signup", at=AT)
def phone_page(form: Form | None = None) -> Response:
    return render("signup/phone.html", form=form or Form())


@pages.post("/signup", at=AT, page=phone_page)
def send_signup_code() -> Response:
    phone = load_form(PHONE_IN)["phone"]
    if not phone.startswith("+380"):
        detail = gettext("Sign-up needs a Ukrainian number: +380…")
        raise Invalid.field("phone", "not_ukrainian", detail)
    return phone_codes.send(codes.SIGNUP, phone)


@pages.post("/signup/code", at=AT, page=phone_codes.add_pages(pages, codes.SIGNUP, at=AT))
def check_signup_code() -> Response:
    if not phone_codes.check(codes.SIGNUP):
        raise phone_codes.wrong()
    return see_other("/signup/company")


@pages.get("/signup/company", at=AT)
def company_page(form: Form | None = None) -> Response:
    if not phone_codes.entered(codes.SIGNUP):
        return see_other("/signup")
    suffix = _host("").removeprefix(".")
    return render("signup/company.html", form=form or Form(), suffix=suffix)


@pages.post("/signup/company", at=AT, page=company_page)
def create_company() -> Response:
    data = load_form(COMPANY_IN, COMPANY_IN.fields)
    for field in ("company", "name"):
        users.check_name(data[field], field)
    label = (data["label"] or propose(data["company"])).lower()
    if label in RESERVED:
        raise Invalid.field("label", "reserved_label", gettext("This address is reserved."))
    # The code is spent together with the new tenant: a refused label leaves it valid.
    with phone_codes.spending(codes.SIGNUP) as may:
        if not may:
            return see_other("/signup")
        name, phone = data["name"] or data["company"], phone_codes.phone(codes.SIGNUP)
        about = {"name": data["company"], "plan": "start", "language": languages.language()}
        open_tenant(current_app.tenants, label, owner={"name": name, "phone": phone}, **about)
    with current_app.tenants.session(label):
        token = links.create(links.HANDOVER, users.owner_id())
    session.clear()
    # The session must begin at the tenant's host, whose cookies the base host cannot set.
    return redirect(f"{settings().url_of(label)}/enter/{token}", 303)


def propose(company: str) -> str:
    """A free label that a company's name suggests."""
    words = transliterate(company)[:MAX_PROPOSAL_CHARACTERS].strip("-")
    label = words if LABEL.match(words) else "crm"
    for number in range(1, MAX_LABEL_NUMBER):
        candidate = f"{label}-{number}" if number > 1 else label
        if candidate not in RESERVED and not current_app.tenants.exists(candidate):
            return candidate
    # Random instead of counting further: each try looks for a file.
    return f"{label}-{secrets.token_hex(4)}"


def _host(label: str) -> str:
    """Return the address of a tenant as pages show it: without the scheme."""
    return settings().url_of(label).partition("://")[2]
