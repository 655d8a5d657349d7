"""The start page: of the base host the ways in, of a tenant's host the dashboard."""

from flask import g
from werkzeug.wrappers import Response

from crm.cabinet import dashboard, signup
from crm.cabinet.rendering import BASE_HOST, TENANT, Pages, me, onward

pages = Pages("home", role=None)


@pages.get("/", at=(TENANT, BASE_HOST))
def home() -> Response:
    if g.place == BASE_HOST:
        return signup.welcome()
    return dashboard.show() if me() else onward("/login")
