"""The start page: of the base host the ways in, of a tenant's host the dashboard."""

from flask import g
from werkzeug.wrappers import Response

from crm.cabinet import dashboard, signup
from crm.cabinet.rendering import FRONT, TENANT, Pages, me, onward

pages = Pages("home", role=None)


@pages.get("/", at=(TENANT, FRONT))
def home() -> Response:
    if g.place == FRONT:
        return signup.welcome()
    return dashboard.show() if me() else onward("/login")
