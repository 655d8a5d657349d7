"""The CRM in a site that finds its user by Flask-Login, for its own views as `g.user`."""

from flask import Flask, abort, g, redirect, request
from flask_login import LoginManager, UserMixin, current_user, login_user, logout_user

from crm import CRM

app = Flask(__name__)
app.secret_key = "change me"
logins = LoginManager(app)
logins.login_view = "login"


class Employee(UserMixin):
    def __init__(self, id, name, role):
        self.id, self.name, self.role = id, name, role


EMPLOYEES = {"1": Employee("1", "Олена", "owner"), "2": Employee("2", "Тарас", "manager")}
logins.user_loader(EMPLOYEES.get)


@app.before_request
def load_user():
    g.user = current_user if current_user.is_authenticated else None


def staff():
    """Who is logged in, for a page of the CRM: no `before_request` function has run there."""
    load_user()
    return g.user


crm = CRM(
    app,
    url_prefix="/crm",
    tenant="acme",
    current_user=staff,
    login_url="/login",
    logout_url="/logout",
)


@app.get("/")
def home():
    return f"Hello {g.user.name}" if g.user else "Hello"


@app.route("/login", methods=["GET", "POST"])
def login():
    """Replace this by your site's login page: it asks for no password."""
    if request.method == "GET":
        return '<form method="post"><input name="id"><button>Log in</button></form>'
    login_user(EMPLOYEES.get(request.form["id"]) or abort(403))
    return redirect("/crm/")


@app.get("/logout")
def logout():
    logout_user()
    return redirect("/")
