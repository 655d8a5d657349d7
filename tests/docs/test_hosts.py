"""The sites of crm/docs/examples that are made with other packages, each with the real package.

Each is run in a process of its own: to import Dash or Django takes seconds.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installations import environ_for
from tests.readme import GUIDES, ROOT, read

EXAMPLES = GUIDES / "examples"
OWNER = 'crm.create_tenant("acme", owner={"name": "Ольга", "email": "olha@shop.example.ua"})\n'
ASK = """
answer = client.post("/ask", {how}={{"name": "Марія", "phone": "067 123 45 67"}})
assert answer.json{call} == {{"lead": "1"}}, answer.text
with crm.tenant("acme"):
    assert crm.leads.get(1)["phone"] == "+380671234567"
page = client.get("/crm/login")
assert page.status_code == 200 and 'href="/crm/' in page.text
me = client.get("/crm/api/v1/users/me")
assert me.status_code == 401 and me.json{call}["instance"] == "/crm/api/v1/users/me"
"""
PROGRAMS = {
    "site_flask_security.py": """
import re
from flask_security import hash_password
from site_flask_security import app, crm, db, users
{owner}
with app.app_context():
    db.create_all()
    users.create_role(name="manager")
    for name, roles in (("taras", ["manager"]), ("ivan", [])):
        address, password = f"{name}@shop.example.ua", hash_password("correct horse")
        users.create_user(email=address, password=password, roles=roles)
    db.session.commit()
for name, status in (("taras", 200), ("ivan", 403)):
    client = app.test_client()
    away = client.get(client.get("/crm/leads").location)
    assert away.location == "/login?next=%2Fcrm%2Fleads"
    token = re.search('name="csrf_token"[^>]*value="([^"]+)"', client.get("/login").text)[1]
    sent = {"email": f"{name}@shop.example.ua", "password": "correct horse", "csrf_token": token}
    assert client.post(away.location, data=sent).location.endswith("/crm/leads")
    page = client.get("/crm/leads")
    assert page.status_code == status and ("taras@" in page.text) == (name == "taras"), page.text
    assert client.get("/crm/settings/users").status_code == 403  # a manager's role
    assert client.get("/logout").status_code == 405  # so the CRM sends a form
    client.post("/logout")
    assert client.get("/crm/leads").location == "/crm/login?next=/leads"
""",
    "site_flask_login.py": """
from site_flask_login import app, crm
{owner}
client = app.test_client()
away = client.get("/crm/leads").location
assert client.get(away).location == "/login?next=%2Fcrm%2Fleads"
for id, name, status in (("2", "Тарас", 403), ("1", "Олена", 200)):
    assert client.post("/login", data={"id": id}).location == "/crm/"
    assert name in client.get("/").text and name in client.get("/crm/leads").text
    assert client.get("/crm/settings/users").status_code == status
    client.get("/logout")
assert client.get("/crm/leads").location == away
""",
    "site_flask_admin.py": """
import sys
sys.modules["flask_babel"] = None  # which Flask-Admin would use where it is installed
from site_flask_admin import app, crm
{owner}
client = app.test_client()
assert client.get("/admin/").location == "/login"
assert client.get("/crm/login").location == "/login?next=%2Fcrm%2F"
client.get("/login")
assert 'href="/crm/"' in client.get("/admin/").text
assert "Олена" in client.get("/crm/leads").text
""",
    "site_dash.py": """
from site_dash import crm, server
{owner}
with crm.tenant():
    crm.deals.create(title="Крісла", amount=12500.5)
client = server.test_client()
assert "dash" in client.get("/").text
asked = {
    "output": "deals.figure",
    "outputs": {"id": "deals", "property": "figure"},
    "inputs": [{"id": "minute", "property": "n_intervals", "value": 1}],
    "changedPropIds": ["minute.n_intervals"],
}
answer = client.post("/_dash-update-component", json=asked)
(bars,) = answer.json["response"]["deals"]["figure"]["data"]
assert (bars["x"], bars["y"]) == (["Крісла"], [12500.5])
assert "Крісла" in client.get("/crm/deals").text
""",
    "site_django.py": """
from werkzeug.test import Client
from site_django import application, crm
{owner}
client = Client(application)
assert client.get("/", base_url="http://127.0.0.1/").text == "The shop"
""" + ASK.format(how="data", call=""),
    "site_fastapi.py": """
from fastapi.testclient import TestClient
from site_fastapi import app, crm
{owner}
client = TestClient(app, base_url="http://127.0.0.1")
assert client.get("/").json() == {"shop": "open"}
""" + ASK.format(how="json", call="()"),
}  # fmt: skip


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.parametrize("example", PROGRAMS)
def test_a_site_of_this_host_has_the_crm_with_its_users(example: str, tmp_path: Path) -> None:
    assert f"](examples/{example})" in read("embedding")
    shutil.copy(EXAMPLES / example, tmp_path)  # the instance folder is made beside it
    program = PROGRAMS[example].replace("{owner}", OWNER) + "crm.close()\nprint('checked')\n"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path, env=environ | environ_for(tmp_path / "crm-data"),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.endswith("checked\n"), done.stdout + done.stderr
