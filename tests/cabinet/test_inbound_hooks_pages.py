"""Settings, Inbound hooks: hooks by a preset, what they were sent, and fields of its values."""

import html
import re

from crm.cabinet.settings.inbound_hooks import PRESETS
from crm.resources.inbound.hooks import HOOK
from crm.resources.leads.record import Lead
from tests.conftest import Api

PATH = "/settings/inbound-hooks"
BODY = {"Name": "Олег", "tel": "067 123 45 67", "more": {"color": "<red>"}}


def add_hook(owner, **fields):
    """A hook as Olena adds it; its path on the page, and the address as it is shown there."""
    path = owner.sends(PATH, fields)
    page = owner.sees(path)
    return path, html.unescape(re.search(r'id="url"[^>]*><code>([^<]+)', page)[1])


def send(crm, url, body):
    host, _, path = url.removeprefix("http://").partition("/")
    answer = crm.test_client().post(f"/{path}", json=body, headers={"Host": host.partition(":")[0]})
    assert answer.status_code == 200


def names_of_leads(crm):
    with crm.tenants.session("acme"):
        return [(lead.name, lead.phone) for lead in Lead.every("TRUE ORDER BY id")]


def test_fields_are_chosen_for_the_values_of_a_call_without_scripts(crm, olena):
    path, url = add_hook(olena, target="lead")
    send(crm, url, BODY)
    page = olena.sees(path)
    assert "<h1>Інша програма" in page  # by default
    assert "067 123 45 67" in page and "&lt;red&gt;" in page
    assert "його значення нічому не відповідають" in page
    # The menu counts it, on the pages of settings alone.
    assert re.search(r"Вхідні хуки</span> <b class=\"menu-count late\">1</b>", page)
    form = {
        **olena.form_fields(page, path),
        "path": ["Name", "tel", "more.color"],
        "field": ["name", "", "extra."],
        "defaults": "source: shop\n",
        **{"name": "Сайт", "known": "skip", "signature_algorithm": "sha256", "active": "1"},
    }
    tried = olena.post(path, form | {"try": "1"}).text
    assert 'id="outcome"' in tried and "alert-danger" in tried
    form["field"] = ["name", "phone", "extra."]
    tried = olena.post(path, form | {"try": "1"}).text
    outcome = re.search(r'id="outcome">.*?</dl>', tried, re.S)[0]
    assert "Телефон" in outcome and "shop" in outcome
    assert names_of_leads(crm) == []
    with crm.tenants.session("acme"):
        assert HOOK.one(path.rpartition("/")[2])["mapping"] == {}
    olena.sends(path, form)
    replay = re.search(rf'action="({path}/calls/\d+/replay)"', olena.sees(path))[1]
    olena.sends(replay)
    assert names_of_leads(crm) == [("Олег", "+380671234567")]
    page = olena.sees(path)
    assert "нічому не відповідають" not in page and "menu-count late" not in page
    with crm.tenants.session("acme"):
        hook = HOOK.one(path.rpartition("/")[2])
    assert hook["mapping"] == {"Name": "name", "tel": "phone", "more.color": "extra.color"}
    assert hook["defaults"] == {"source": "shop"}


def test_a_hook_is_added_by_a_preset_and_deleted_after_a_question(crm, olena):
    path, _ = add_hook(olena, preset="shopify", signature_secret="s")
    page = olena.sees(path)
    assert "X-Shopify-Hmac-Sha256" in page and 'value="Shopify"' in page
    unsigned, _ = add_hook(olena, preset="woocommerce")
    assert "X-WC-Webhook-Signature" not in olena.sees(unsigned)
    assert "sure" in olena.post(f"{path}/delete").text
    olena.sends(f"{path}/delete", {"sure": "1"})
    olena.sees(path, 404)


def test_every_preset_fits(api: Api):
    for name, preset in PRESETS.items():
        hook = {key: value for key, value in preset.items() if key != "signature_header"}
        assert api.post("/inbound-hooks", hook).status_code == 201, name
