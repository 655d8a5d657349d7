"""The start page: of the base host the ways in, of a tenant's host the dashboard."""

from flask import g
from werkzeug.wrappers import Response

from crm.cabinet import dashboard, signup
from crm.cabinet.rendering import BASE_HOST, TENANT, Pages, me, see_other

pages = Pages("start_page", role=None)


@pages.get("/", at=(TENANT, BASE_HOST))
def start_page() -> Response:
    if g.place == BASE_HOST:
        return signup.welcome()
    return dashboard.show() if me() else see_other("/login")
