"""The CRM in a site with Flask-Admin, whose panel links to it: who may open one may open both."""

from flask import Flask, redirect, session
from flask_admin import Admin, AdminIndexView
from flask_admin.menu import MenuLink

from crm import CRM

app = Flask(__name__)
app.secret_key = "change me"


def staff():
    """Who is logged in, or None."""
    return session.get("staff")


class Panel(AdminIndexView):
    def is_accessible(self):
        return staff() is not None

    def inaccessible_callback(self, name, **kwargs):
        return redirect("/login")


admin = Admin(app, name="Shop", index_view=Panel())
admin.add_link(MenuLink("CRM", url="/crm/"))
crm = CRM(app, url_prefix="/crm", tenant="acme", current_user=staff, login_url="/login")


@app.get("/login")
def login():
    """Replace this by your site's login page: it logs everybody in as Олена."""
    session["staff"] = {"name": "Олена", "email": "olena@shop.example.ua", "role": "owner"}
    return redirect("/admin/")
