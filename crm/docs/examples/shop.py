"""A Flask site with the CRM below /crm, its own login, and calls of the CRM in Python."""

from flask import Flask, redirect, request, session

from crm import CRM

app = Flask(__name__)
app.secret_key = "change me"


def staff():
    """Who is logged in at the shop, or None."""
    return session.get("staff")


crm = CRM(app, url_prefix="/crm", tenant="acme", current_user=staff, login_url="/login")


@app.get("/login")
def login():
    """Replace this by your site's login page: it logs everybody in as Олена."""
    session["staff"] = {"name": "Олена", "email": "olena@shop.example.ua", "role": "owner"}
    return redirect("/crm/")


@app.post("/ask")
def ask():
    with crm.tenant("acme"):
        lead = crm.leads.create(name=request.form["name"], phone=request.form["phone"])
    return {"lead": lead["id"]}


@crm.on("deal.won")
def thank(event):
    deal = event["data"]["deal"]
    crm.tasks.create(title=f"Подякувати: {deal['title']}", deal_id=deal["id"])
