"""The web cabinet: pages rendered on the server, which call the same verbs as the API."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, g, request
from jinja2.runtime import Macro

from crm.access.limits import PasswordLimits, SmsLimits, TryLimits
from crm.cabinet import (
    alerts,
    assets,
    calendar,
    choices,
    deals,
    formatting,
    guides,
    installable,
    labels,
    papers,
    reports,
    search,
    settings,
    spreadsheets,
)
from crm.cabinet.app import CabinetApp
from crm.cabinet.login import authentication, login, signup
from crm.cabinet.records import (
    bulk,
    clients,
    leads,
    merging,
    products,
    proposals,
    record_files,
    record_sections,
    saved_views,
    tasks,
    trash,
)
from crm.cabinet.rendering import TENANT
from crm.cabinet.template_cache import TemplateCache
from crm.config import Config
from crm.limits.windows import EMAILS, PASSWORDS, SMS_TENANTS
from crm.messages.queue import MessageQueue
from crm.resources import logo, tenant

BLUEPRINTS: tuple[Any, ...] = (
    signup,
    login,
    installable,
    guides,
    calendar,
    tasks,
    alerts,
    reports,
    search,
    choices,
    *deals.BLUEPRINTS,
    papers,
    bulk,
    record_files,
    record_sections,
    leads,
    clients,
    products,
    trash,
    merging,
    proposals,
    saved_views,
    *spreadsheets.BLUEPRINTS,
    settings,
)


def install(app: CabinetApp, config: Config, message_queue: MessageQueue) -> None:
    """Install all pages; `message_queue` sends SMS and e-mails."""
    app.message_queue = message_queue
    begin_counting(app)
    cabinet = Blueprint("cabinet", __name__, template_folder="templates")

    @cabinet.get("/cabinet/<name>")
    def static(name: str) -> Response:
        return assets.FILES.answer(name)

    view: Any = static
    view.at_any_host = True  # stylesheets and icons, the same for everybody

    app.register_blueprint(cabinet)
    app.jinja_env.bytecode_cache = TemplateCache()
    app.jinja_env.globals.update(
        svg_icon=assets.svg_icon,
        static_url=assets.FILES.url,
        choices=labels.choices,
        batch_note=labels.batch_note,
        choice_label=labels.choice_label,
        user_name=labels.user_name,
        name_of=labels.name_of,
        client_candidates=choices.clients,
        files_of=record_files.files_of,
        once=once_per_page,
        waiting_counts=alerts.waiting_counts,
        bell=alerts.bell,
        saved_views=saved_views.visible,
    )
    formatting.install(app)
    authentication.install(app, config)
    app.context_processor(_common)
    for module in BLUEPRINTS:
        app.register_blueprint(module.pages)


def begin_counting(app: CabinetApp) -> None:
    """Limit SMS, tries of passwords and e-mails, by what its tenants' stores count."""
    counters = app.tenants.counters
    app.sms_limits = SmsLimits(counters, app.tenants.config.sms_limits)
    app.password_limits = PasswordLimits(counters)
    app.password_change_limits = TryLimits(counters, PASSWORDS, account=10)  # of logged-in users
    app.email_limits = TryLimits(counters, EMAILS, to_by_network=3, to=6, network=20)
    # E-mails with papers, of a tenant a day; of one that a stranger has just made few.
    app.paper_limits = TryLimits(counters, SMS_TENANTS, papers=200, papers_of_young=10)


def _common() -> dict[str, Any]:
    """The context of all templates."""
    at_tenant = g.get("place") == TENANT
    # The page of an error may be about a tenant that cannot be read.
    is_readable = at_tenant and "shown_error" not in g
    return {
        "company": tenant.about()["name"] if is_readable or at_tenant and g.get("session") else "",
        "logo": logo.digest() if is_readable else "",
        "is_current": is_current,
        "with_query": with_query,
        "local_input": formatting.local_input,
    }


def once_per_page(macro: Macro, *args: Any) -> str:
    """What a macro writes for these arguments, which many rows of a page have in common."""
    texts, key = g.setdefault("macro_texts", {}), (macro.name, args)
    if key not in texts:
        texts[key] = macro(*args)
    return texts[key]


def is_current(path: str) -> bool:
    """Return whether the current page is at this path or below it."""
    return request.path == path or (path != "/" and request.path.startswith(f"{path}/"))


def with_query(**changed: str) -> str:
    """Return the address of this page with changed parameters, and without the list's cursor."""
    replaced = {"cursor", *changed}
    parameters = [pair for pair in request.args.items(multi=True) if pair[0] not in replaced]
    query = urlencode([*parameters, *((name, text) for name, text in changed.items() if text)])
    return f"{request.root_path}{request.path}?{query}"
