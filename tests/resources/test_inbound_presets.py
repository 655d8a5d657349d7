"""The presets of inbound hooks: a body in the shape that each sender publishes becomes its record.

The bodies are of our own making; the presets name the descriptions that they follow.
"""

import base64
import hmac
import json
from typing import Any

import pytest

from crm.cabinet.settings.inbound_hooks import PRESETS
from tests.resources.test_inbound_hooks import Sender

ORDER_OF_A_SHOP = {
    "client": {"name": "Марія Коваль", "phone": "+380671112233", "email": "maria@example.com"},
    "items": [("Стіл", 2, 1250.5), ("Лампа", 1, 99)],
}
MARIA = {"first_name": "Марія", "last_name": "Коваль"}
WOOCOMMERCE = {
    "id": 727,
    "number": "727",
    "currency": "UAH",
    "total": "2650.00",
    "customer_note": "Подзвоніть",
    "billing": {**MARIA, "company": "", "phone": "067 111 22 33", "email": "maria@example.com"},
    "line_items": [
        {"id": 1, "name": "Стіл", "product_id": 9, "quantity": 2, "sku": "T-1", "price": 1250.5},
        {"id": 2, "name": "Лампа", "product_id": 8, "quantity": 1, "sku": "", "price": 99},
    ],
    "shipping_lines": [{"id": 3, "method_title": "Нова пошта", "total": "50.00"}],
}
SHOPIFY = {
    "id": 820982911946154508,
    "name": "#9999",
    "email": "maria@example.com",
    "phone": None,
    "note": "Подзвоніть",
    "currency": "UAH",
    "total_price": "2650.00",
    "customer": {"id": 115310627314723954, **MARIA, "phone": "+380671112233"},
    "shipping_address": {"phone": "+380671112233", "city": "Львів"},
    "line_items": [
        {"id": 866550311766439020, "title": "Стіл", "quantity": 2, "price": "1250.50"},
        {"id": 141249953214522974, "title": "Лампа", "quantity": 1, "price": "99.00"},
    ],
    "shipping_lines": [{"title": "Нова пошта"}],
}
PROM = {
    "id": 338390,
    "date_created": "2026-03-01T08:00:00.151722+00:00",
    "client_first_name": "Марія",
    "client_last_name": "Коваль",
    "email": "maria@example.com",
    "phone": "+380671112233",
    "delivery_option": {"id": 1, "name": "Нова Пошта"},
    "full_price": "2 650 грн",
    "client_notes": "Подзвоніть",
    "products": [
        {"id": 5, "name": "Стіл", "sku": "T-1", "price": "1 250.50 грн", "quantity": 2.0},
        {"id": 6, "name": "Лампа", "sku": "", "price": "99 грн", "quantity": 1.0},
    ],
}
BINOTEL = {
    "requestType": "apiCallCompleted",
    "callDetails[generalCallID]": "612107649",
    "callDetails[startTime]": "1772440000",
    "callDetails[externalNumber]": "0671112233",
    "callDetails[billsec]": "122",
    "callDetails[disposition]": "ANSWER",
}
RINGOSTAT = {
    "uniqueid": "ua-1772440000.1",
    "calldate": "2026-03-02 10:26:40",
    "caller": "380671112233",
    "disposition": "ANSWERED",
    "billsec": 122,
    "utm_source": "google",
}
TILDA = {
    "Name": "Марія Коваль",
    "Phone": "+38 (067) 111-22-33",
    "Email": "maria@example.com",
    "Comments": "Подзвоніть",
    "tranid": "1234:5678",
    "utm_source": "google",
}
GOOGLE = {
    "id": "2_ABaOnud",
    "email": "maria@example.com",
    "answers": {"Ім'я": "Марія Коваль", "Телефон": "067 111 22 33", "Колір": ["дуб", "горіх"]},
}


@pytest.fixture
def sent(api):
    def send(preset: str, **sent: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The call of a body that is sent to a hook of a preset twice, and its record."""
        hook = dict(PRESETS[preset])
        if header := hook.get("signature_header"):
            body = json.dumps(sent["json"]).encode()
            mac = base64.b64encode(hmac.digest(b"secret", body, "sha256")).decode()
            sent = {"data": body, "headers": {header: mac}}
            hook["signature_secret"] = "secret"
        sender = Sender(api, **hook)
        first, second = sender.sent(**sent), sender.sent(**sent)
        assert (first["state"], first["reasons"]) == ("done", [])
        assert second["record_id"] == first["record_id"]
        assert sender.send(**sent).data == b'{"status":"success"}'
        return first, api.read(f"/{first['resource']}/{first['record_id']}")

    return send


def test_orders_of_shops_become_deals_with_clients_and_items(api, sent):
    for preset, body in {"woocommerce": WOOCOMMERCE, "shopify": SHOPIFY, "prom": PROM}.items():
        _, deal = sent(preset, json=body)
        assert (deal["amount"], deal["currency"], deal["comment"]) == (2650, "UAH", "Подзвоніть")
        assert deal["extra"]["delivery"].lower() == "нова пошта"
        client = api.read(f"/clients/{deal['client_id']}")
        assert {name: client[name] for name in ORDER_OF_A_SHOP["client"]} == (
            ORDER_OF_A_SHOP["client"]
        )
        items = api.read(f"/deals/{deal['id']}/items")
        assert [(item["name"], item["quantity"], item["price"]) for item in items] == (
            ORDER_OF_A_SHOP["items"]
        )
    assert len(api.read("/clients")) == 1


def test_forms_become_leads(api, sent):
    for preset, options in {"tilda": {"data": TILDA}, "google-forms": {"json": GOOGLE}}.items():
        _, lead = sent(preset, **options)
        assert (lead["name"], lead["phone"]) == ("Марія Коваль", "+380671112233")
        assert (lead["email"], lead["source"]) == ("maria@example.com", preset)


def test_calls_of_telephony_become_calls_of_their_client(api, sent):
    client = api.create("/clients", name="Марія", phone="0671112233")
    for preset, options in {"binotel": {"data": BINOTEL}, "ringostat": {"json": RINGOSTAT}}.items():
        _, task = sent(preset, **options)
        assert (task["type"], task["status"], task["client_id"]) == ("call", "done", client)
        assert task["completed_at"] == "2026-03-02T08:26:40Z"
        assert task["extra"]["duration"] == "122"
        assert task["result"].startswith("ANSWER")
