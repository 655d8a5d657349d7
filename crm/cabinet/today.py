"""Today, the first page: tasks due, new leads, deals without a next step, deals that close soon.

Users see their own records and the leads of nobody; the owner may see those of everybody. A new
business sees a list of first steps above.
"""

from datetime import timedelta

from flask import request
from werkzeug.wrappers import Response

from crm.access import passwords
from crm.cabinet import formatting, labels
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import OWNER, SELLER, VIEWER, me, render
from crm.resources import agenda
from crm.resources.deals.record import Deal
from crm.resources.leads.record import Lead
from crm.resources.products.record import Product
from crm.resources.users import User
from crm.storage.session import now

MAX_TASKS, MAX_RECORDS = 50, 10
EVERYBODY = "all"  # the value of the parameter `of`


def show() -> Response:
    """The page `/` of a tenant's host."""
    is_everybody = me().role == OWNER and request.args.get("of") == EVERYBODY
    user_id = None if is_everybody else me().user_id
    today = formatting.local(now()).date()
    sunday = today + timedelta(6 - today.weekday())
    tasks = agenda.due_tasks(user_id, formatting.end_of_today(), MAX_TASKS)
    idle = agenda.deals_without_step(user_id, MAX_RECORDS)
    closing = agenda.deals_closing(user_id, f"{sunday}", MAX_RECORDS)
    return render(
        "today.html",
        steps=_first_steps(),
        is_everybody=is_everybody,
        today=f"{today}",
        tasks=tasks,
        people=agenda.people_of(tasks),
        leads=agenda.new_leads(user_id, MAX_RECORDS),
        idle=idle,
        closing=closing,
        phones=agenda.phones_of_clients(deal["client_id"] for deal in idle + closing),
        sunday=f"{sunday}",
    )


def _first_steps() -> list[tuple[str, str, bool]]:
    """(label, path, is done) of each step, while there is no deal and not all steps are done."""
    if me().role == VIEWER or Deal.has_rows():
        return []
    if me().role == SELLER:  # who imports nothing
        return [(gettext("New lead"), "/leads/new", False)] * (not Lead.has_rows())
    steps = [
        (gettext("Add people or import them"), "/clients/import", Lead.has_rows()),
        (gettext("Import the price list"), "/products/import", Product.has_rows()),
    ]
    if me().role == OWNER:
        user = User.find(me().user_id)
        can_return = user.phone or user.email or passwords.find_hash(user.id)
        has_colleagues = len(labels.user_names()) > 1
        steps.append((gettext("Invite a colleague"), "/settings/users", has_colleagues))
        if not can_return:
            way = gettext("Add your phone or e-mail, so that you can log in again")
            steps.insert(0, (way, "/settings/profile", False))
    return [] if all(is_done for *_, is_done in steps) else steps
