"""A declared field comes into forms, cards and history with its label; no page changes."""

import re

import pytest
from flask import g, render_template_string

from crm.cabinet import labels
from crm.cabinet.forms import Form
from crm.cabinet.records import record_fields
from crm.records import columns
from crm.records.columns import N_
from crm.resources.leads.record import Lead
from tests.conftest import OLENA

PAGES = {"lead": "/leads/1/edit", "client": "/clients/1/edit", "product": "/products/1"}
PAGES |= {"deal": "/deals/1/edit", "task": "/tasks/1", "stage": "/settings/pipelines/1/stages/1"}


class WiderLead(Lead):
    """A lead with fields of several types that no page knows."""

    estimate = columns.Amount(label=N_("Estimate"), form="new")
    visited_on = columns.Date(label=N_("Visited on"))
    is_partner = columns.Boolean(allow_none=False, default=False, label=N_("Partner"))
    size = columns.Choice("small", "large", label=N_("Size"))
    score = columns.Integer(0, 100, label=N_("Score"), form=False)


@pytest.fixture
def wider(monkeypatch):
    monkeypatch.setitem(labels.MODELS, "lead", WiderLead)


def test_a_new_field_is_in_forms_in_the_order_of_declaration(wider):
    names = record_fields.form_names("lead")
    assert [name for name in names if name not in vars(Lead) and name != "external_id"] == [
        *("estimate", "visited_on", "is_partner", "size")
    ]
    assert "estimate" in record_fields.form_names("lead", new=True)
    assert "size" not in record_fields.form_names("lead", new=True)


def test_the_type_on_the_wire_decides_the_widget_and_the_fact(crm, wider):
    record = {"estimate": 1500, "visited_on": "2026-03-02", "is_partner": True, "size": "large"}
    record |= {"currency": "UAH"}
    with crm.tenants.session("acme"), crm.test_request_context():
        g.session = None
        fields = record_fields.record_fields("lead", [*record][:4])
        form = render_template_string(
            '{% import "_record_fields.html" as fields with context %}{{ fields.all(form, all) }}',
            form=Form(record),
            all=fields,
        )
        facts = render_template_string(
            '{% import "_facts.html" as facts with context %}{{ facts.all(all, record) }}',
            record=record,
            all=fields,
        )
        changed = [labels.value("lead", name, record[name], record) for name in [*record][:4]]
    assert re.search(r'id="estimate"\s+name="estimate" value="1500"[^>]* inputmode="decimal"', form)
    assert re.search(r'type="date"\s+id="visited_on"', form)
    assert 'type="checkbox" id="is_partner" name="is_partner" value="1" checked' in form
    assert '<option value="large" selected>' in form
    for label in ("Estimate", "Visited on", "Partner", "Size"):
        assert f">{label}</label>" in form
        assert f"<dt>{label}</dt>" in facts
    assert changed == ["1\N{NO-BREAK SPACE}500\N{NO-BREAK SPACE}₴", "2 бер. 2026", "Так", "large"]
    for text in changed:
        assert text in facts
    assert labels.field("lead", "score") == "Score"


@pytest.mark.parametrize("noun", PAGES)
def test_an_edit_form_has_all_declared_fields(crm, api, olena, noun):
    api.create("/leads", name="Марія", phone="+380501112233")
    api.create("/clients", name="ТОВ Ромашка")
    api.create("/products", name="Стіл", price=1)
    api.create("/deals", title="Меблі")
    api.create("/tasks", title="Зателефонувати", assigned_to=str(OLENA))
    page = olena.sees(PAGES[noun])
    hidden = {"custom", *{"deal": {"lost_reason"}}.get(noun, set())}  # of lost deals alone
    assert record_fields.form_names(noun)
    for name in set(record_fields.form_names(noun)) - hidden:
        assert f'id="{name}"' in page, name
