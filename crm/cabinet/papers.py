"""Papers: their list, the page of one and what is done with it, and what a client sees of it.

A client opens `/p/<token>` without an account (crm/resources/papers/links.py). Nothing of it is
stored, indexed or passed on, and it sets no cookie. Every GET of the page counts, also that of a
messenger which draws a preview, but none of a user of the workspace.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import flask
from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import formatting, labels
from crm.cabinet.app import current_app
from crm.cabinet.edits import sent_version
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, force_locale, gettext
from crm.cabinet.records.filters import read_query
from crm.cabinet.rendering import SELLER, Pages, confirmed, me, render, see_other
from crm.cabinet.settings.emails import YOUNG_SECONDS
from crm.errors import NotFound
from crm.json import loads
from crm.networks import networks_of
from crm.papers import layout, pdf, qr
from crm.records import pagination
from crm.resources import tenant
from crm.resources.deals.record import Deal
from crm.resources.papers import endpoints, links, record, sending
from crm.resources.papers.links import LINK, LINK_IN
from crm.resources.papers.record import PAPER, PAPER_PATCH, Paper
from crm.storage.clocks import steady_before, steady_seconds, uptime
from crm.storage.session import current_session, now, settings

STATES = ("kind", "is_paid", "is_void")  # parameters that tabs choose
TABS: tuple[tuple[str, dict[str, str]], ...] = (
    (N_("All"), {}),
    (N_("Unpaid invoices"), {"kind": "invoice", "is_paid": "false", "is_void": "false"}),
    (N_("Paid"), {"is_paid": "true"}),
    (N_("Void"), {"is_void": "true"}),
)
UNSEEN = {"X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}

pages = Pages("papers")


@pages.get("/papers")
def list_papers() -> Response:
    query = read_query(endpoints.PAPER_FILTER)
    page = pagination.page(PAPER, query, endpoints.PAPER_FILTER.fields["sort"])
    return render(
        "papers/list.html",
        page=page,
        seen=links.count_seen([paper["id"] for paper in page.records]),
        sums=record.sums(query.conditions),
        tabs=[(gettext(label), dict.fromkeys(STATES, "") | tab) for label, tab in TABS],
    )


@pages.get("/papers/export.csv")
def export_papers() -> Response:
    return endpoints.export_papers(read_query(endpoints.EXPORT_FILTER))


@pages.get("/papers/<id>")
def show_paper(
    id: str,
    form: Form | None = None,
    mail: Form | None = None,
    payment: Form | None = None,
    url: str = "",
) -> Response:
    """`form`, `mail`, `payment`: refused forms; `url`: of a link that was just made."""
    paper, shown = Paper.find(id), PAPER.one(id)
    today = formatting.local(now()).date()
    paid = {"paid_at": f"{today}", "paid_amount": shown["amount"]}
    paid |= {name: shown[name] for name in paid if shown["paid_at"]}
    expires = {"expires_at": f"{today + timedelta(links.DEFAULT_DAYS)}"}
    buyer = loads(paper.snapshot).get("buyer", {})
    return render(
        "papers/paper.html",
        paper=shown,
        deal=Deal.find_any(paper.deal_id),
        links=LINK.every("paper_id = ? ORDER BY id DESC LIMIT ?", paper.id, links.MAX_LINKS),
        can_mail=current_app.message_queue.sends_mail,
        now=now(),
        url=url,
        form=form or Form(expires),
        mail=mail or Form({"to": buyer.get("email")}),
        payment=payment or Form(paid),
        **_shown(paper, f"/papers/{paper.id}"),
    )


def _shown(paper: Paper, path: str) -> dict[str, Any]:
    """What the paper itself shows; nothing of an erased one. `path` is that of its page."""
    text = None if paper.is_erased else layout.show(loads(paper.snapshot))
    return {
        "text": text,
        "qr": qr.picture(text["qr"]) if text and text["qr"] else "",
        "path": path,
        "has_pdf": text and (paper.sha256 or pdf.is_installed()),
    }


@pages.get("/papers/<id>.pdf")
def download_pdf(id: str) -> flask.Response:
    return record.pdf_of(Paper.find(id)).respond(request)


@pages.get("/papers/<id>/pictures/<sha256>")
def show_picture(id: str, sha256: str) -> flask.Response:
    return record.picture_of(Paper.find(id), sha256).respond(request)


@pages.post("/papers/<id>/links", page=show_paper, once=True)
def create_link(id: str) -> Response:
    return show_paper(id, url=links.create(id, load_form(LINK_IN))[1])


@pages.post("/papers/<id>/links/revoke")
def revoke_link(id: str) -> Response:
    links.revoke(id, request.form.get("link_id", ""))
    return see_other(f"/papers/{id}", gettext("The link is revoked"))


@pages.post("/papers/<id>/send", page=show_paper, form_name="mail")
def send_paper(id: str) -> Response:
    label, to = current_session().label, request.form.get("to", "").strip()
    network, letter = networks_of(request.remote_addr or "")[0], f"{label}/{to.lower()}"
    current_app.email_limits.count_try(
        uptime(), to_by_network=f"{letter} {network}", to=letter, network=network
    )
    is_young = settings().signup and tenant.about()["created_at"] > steady_before(YOUNG_SECONDS)
    kind = "papers_of_young" if is_young else "papers"
    current_app.paper_limits.count_try(steady_seconds(), **{kind: label})
    sending.send(id, to, current_app.message_queue)
    return see_other(f"/papers/{id}", gettext("The e-mail is on its way"))


@pages.post("/papers/<id>/payment", page=show_paper, form_name="payment")
def note_payment(id: str) -> Response:
    data = load_form(PAPER_PATCH, ("paid_at", "paid_amount"))
    known = {name: value for name, value in data.items() if value is not None}
    record.update(id, known or data, sent_version())
    return see_other(f"/papers/{id}", gettext("Saved."))


@pages.post("/papers/<id>/void", role=SELLER, page=show_paper)
def void_paper(id: str) -> Response:
    paper = Paper.find(id)
    kind = labels.choice_label("paper", "kind", paper.kind)
    question = gettext("Void “%(name)s”?", name=f"{kind} № {paper.number}")
    detail = gettext("It keeps its number, and its links end. This cannot be undone.")
    with confirmed(question, gettext("Void this paper"), f"/papers/{id}", detail):
        record.void(id)
    return see_other(f"/papers/{id}", gettext("The paper is void"))


@pages.get("/p/<token>", role=None)
def show_to_client(token: str) -> Response:
    def show(paper: Paper) -> Response:
        with force_locale(paper.language):
            return render("papers/public.html", **_shown(paper, f"/p/{token}"))

    return _for_client(token, show, counts=request.method == "GET")


@pages.get("/p/<token>.pdf", role=None)
def give_pdf(token: str) -> Response:
    return _for_client(token, lambda paper: record.pdf_of(paper).respond(request))


@pages.get("/p/<token>/pictures/<sha256>", role=None)
def give_picture(token: str, sha256: str) -> Response:
    return _for_client(token, lambda paper: record.picture_of(paper, sha256).respond(request))


def _for_client(token: str, show: Callable[[Paper], Response], counts: bool = False) -> Response:
    """What `show` gives of the paper of a link, else a page that says in both languages that there
    is none."""
    # Whoever has the link sees the paper, also a seller who does not see its deal.
    current_session().own_user_id = None
    try:
        response = show(links.find_paper(token, counts=counts and not me()))
    except NotFound:
        response = render("papers/ended.html", 404)
    response.headers.update(UNSEEN)
    return response
