"""The page of alerts, the bell that leads to it, what an alert says, and the counts of the menu:
how many records wait on each page.
"""

from flask import Flask, request
from werkzeug.wrappers import Response

from crm.access import api_keys
from crm.alerts import alerts as stored
from crm.alerts.kinds import KINDS
from crm.cabinet import formatting, labels
from crm.cabinet.languages import DEFAULT, LANGUAGES, force_locale, gettext, ngettext
from crm.cabinet.rendering import MANAGER, RANK, VIEWER, Pages, me, render, see_other
from crm.cabinet.settings.sections import home
from crm.errors import NotFound
from crm.json import dumps
from crm.outbox.subscriptions import Webhook
from crm.resources import agenda, proposals, task_figures
from crm.resources.inbound.hooks import InboundHook
from crm.spreadsheets.import_run import ImportRun
from crm.storage.session import now
from crm.values.message_names import name_for_message

PATH, PROFILE_PATH = "/alerts", "/settings/profile#alerts"
MAX_COUNT = 99  # more are shown as "99+"
MAX_LINES, MAX_NAME = 20, 100  # of a message: alerts, and characters of a record's name

pages = Pages("alerts", role=VIEWER)


@pages.get(PATH)
def list_alerts() -> Response:
    """The newest alerts, those not seen marked."""
    alerts = [(alert, describe(alert)) for alert in stored.list_newest(me().user_id)]
    return render("alerts.html", alerts=alerts, proposals=count_by_page().get("/proposals", 0))


@pages.get(f"{PATH}/<id>")
def open_alert(id: str) -> Response:
    """Go to what an alert is about; messages link to this. It counts as seen."""
    alert = stored.find(me().user_id, id)
    stored.mark_seen(alert.user_id, alert.id)
    return see_other(_name_and_path(alert)[1])


@pages.post(f"{PATH}/seen")
def mark_all_seen() -> Response:
    stored.mark_seen(me().user_id)
    return see_other(PATH)


@pages.get("/bell")
def show_bell() -> Response:
    """Where the bell leads, its count, and the newest alert, which a page asks for again and again.

    The alert is its id, what it says and since when; null if all are seen.
    """
    path, (count, _) = bell()
    alert = stored.newest_unseen(me().user_id)
    newest = [alert.id, describe(alert), alert.due_at] if alert else None
    response = Response(dumps([path, count, newest]), mimetype="application/json")
    response.add_etag()
    return response.make_conditional(request.environ)


def describe(alert: stored.Alert, in_message: bool = False) -> str:
    """What an alert says, in the language of who reads it."""
    name = _name_and_path(alert)[0]
    if in_message:  # which has little room, and a stranger's name may be a lure
        name = name_for_message(name) if alert.noun in ("lead", "user") else name[:MAX_NAME]
    return gettext(KINDS[alert.kind].text, name=name or "—")


def write_message(app: Flask, language: str | None, alerts: list[stored.Alert]) -> tuple[str, str]:
    """Subject and text of the message that tells a user of alerts, in a session of the tenant.

    Outside of requests. The link has the id of the alert, or of the last one.
    """
    with app.app_context(), force_locale(language or DEFAULT):
        lines = [describe(alert, in_message=True) for alert in alerts[:MAX_LINES]]
        subject, last = lines[0], alerts[-1].id
        link = f"{home()}{PATH}/{last}"
        if len(alerts) > 1:
            subject = ngettext("%(num)d alert", "%(num)d alerts", len(alerts))
            link = f"{home()}{PATH}#{last}"
        if len(alerts) > MAX_LINES:
            lines.append("…")
        profile = gettext("What you are told, and how: %(url)s", url=f"{home()}{PROFILE_PATH}")
        return subject, "\n".join([*lines, "", link, "", profile])


def answer_in_telegram(app: Flask, language: str | None, is_connected: bool) -> str:
    """What the bot answers to a code; `language` is as Telegram has it."""
    with app.app_context(), force_locale(language if language in LANGUAGES else DEFAULT):
        if is_connected:
            return gettext("Connected: alerts of the CRM come here.")
        return gettext("This code is not valid any more: get a new one in your profile.")


def _name_and_path(alert: stored.Alert) -> tuple[str, str]:
    """The name of what an alert is about, and the path of its page."""
    noun, id = alert.noun, alert.record_id or 0
    if noun is None:
        return "", "/"
    try:
        if noun == Webhook.noun:
            webhook = Webhook.find(id)
            return webhook.description or webhook.url, f"/settings/webhooks/{id}"
        if noun == InboundHook.noun:
            return InboundHook.find(id).name, f"/settings/inbound-hooks/{id}"
        if noun == "import_run":
            run = ImportRun.find(id)
            return run.file_name or "", f"/{run.noun}s/imports/{id}"
        if noun == "api_key":
            return api_keys.find(id).name, "/settings/api-keys"
    except NotFound:
        return "", PATH
    folder = "/settings" if noun == "user" else ""
    return labels.name_of(noun, str(id)), f"{folder}/{noun}s/{id}"


def waiting_counts() -> dict[str, tuple[str, bool]]:
    """(count, whether records are late) of each page of the menu, by its path.

    Leads and deals that are open; of the user's own tasks those that are overdue or due today.
    """
    user_id = me().user_id
    limit = MAX_COUNT + 1
    overdue, today = task_figures.count_own(user_id, now(), formatting.end_of_today(), limit)
    leads, deals = (agenda.count_open(noun, user_id, limit)[0] for noun in agenda.OPEN)
    return {
        "/": (_count_text(overdue + today), overdue > 0),
        "/leads": (_count_text(leads), False),
        "/deals": (_count_text(deals), False),
        "/tasks": (_count_text(overdue), True),
    }


def count_by_page() -> dict[str, int]:
    """How much waits for the person who looks, by its page."""
    counts = {"/alerts": stored.count_unseen(me().user_id, MAX_COUNT + 1)}
    if RANK[me().role] >= RANK[MANAGER]:
        counts["/proposals"] = proposals.count_open()
    return counts


def bell() -> tuple[str, tuple[str, bool]]:
    """The page that the bell leads to, and the count beside it.

    The page is the first one on which something waits.
    """
    counts = count_by_page()
    path = next((path for path, count in counts.items() if count), "/alerts")
    return path, (_count_text(sum(counts.values())), False)


def _count_text(count: int) -> str:
    return f"{MAX_COUNT}+" if count > MAX_COUNT else str(count or "")
