"""The company: its name, its default currency and its time zone."""

from flask import request
from werkzeug.wrappers import Response

from crm import values
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import flash, rerender_on_error, see_other
from crm.cabinet.settings.sections import home, pages, show
from crm.resources import tenant

USUAL = ("UAH", "USD", "EUR")


@pages.get("/settings/company")
def show_company(form: Form | None = None) -> Response:
    currencies = [*USUAL, *sorted(set(values.CURRENCIES) - {*USUAL})]
    return show(
        "company.html",
        form=form or Form(tenant.about()),
        currencies=[(code, code) for code in currencies],
        zones=[(zone, zone.replace("_", " ")) for zone in tenant.time_zones()],
        home=home(),
    )


@pages.post("/settings/company")
@rerender_on_error(lambda form: show_company(form))
def change_company() -> Response:
    form = request.form
    names = ("name", "currency", "time_zone")
    tenant.update(**{name: form.get(name, "") for name in names})
    flash(gettext("Saved."))
    return see_other("/settings/company")
