"""What each report counts: its numbers, as lists with filters, and what its rows are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crm.errors import Fault, Invalid
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import CustomField
from crm.records.custom.types import TYPES

# The filters of lists for the first and the last day of a period, by what is in the period.
RANGES = {
    "created": ("created_since", "created_until"),
    "closed": ("closed_since", "closed_until"),
    "completed": ("completed_since", "completed_until"),
    "expected": ("expected_close_from", "expected_close_to"),
}
FOR_DEALS = ("pipeline_id", "currency")  # parameters of a report that narrow its deals alone
TAKEN = {"group_by": "groups", "sum": "is_summed"}  # parameters, and what their fields must be


class Number(NamedTuple):
    """A number of each row of a report: how many records a list has.

    period: what is in the period of the report, a name in RANGES. filters: of the list, besides.
    sums: what the sums of the records are called, if they are shown: `…_amounts` or `…_seconds`.
    by: the SQL expression of the custom field that it is counted by. value: of what it adds up, if
    it is the sum of one, in 1/10 000; label: that field's.
    """

    name: str
    resource: str
    period: str
    filters: Mapping[str, str] = {}
    sums: str = ""
    by: str = ""
    value: str = ""
    label: str = ""


class Report(NamedTuple):
    """A report.

    key, label: the fields of a row that say what it is of; a row without a label has the key alone.
    numbers: its counts. more: the names of further fields of a row.
    needs: the scopes that it needs. title, about: for the documentation.
    takes: which parameters with custom fields; by: the field that it is counted by.
    """

    key: str
    label: str
    numbers: tuple[Number, ...]
    needs: tuple[str, ...]
    title: str
    about: str = ""
    more: tuple[str, ...] = ()
    takes: tuple[str, ...] = ("sum",)
    by: Any = None

    def custom_options(self, parameter: str) -> dict[str, dict[str, CustomField]]:
        """What `group_by` or `sum` may be: the fields of its records by name and resource."""
        options: dict[str, dict[str, CustomField]] = {}
        for plural in {number.resource: 1 for number in self.numbers if parameter in self.takes}:
            for field in custom_fields.of(plural).values():
                if field.is_found and getattr(field.wire, TAKEN[parameter]):
                    options.setdefault(field.name, {})[plural] = field
        return options

    def customized(self, options: Mapping[str, str]) -> "Report":
        """The report counted by a custom field, with the sums of another. Raises Invalid."""
        by, summed = (self._chosen(parameter, options.get(parameter, "")) for parameter in TAKEN)
        numbers = [*self.numbers]
        for number in self.numbers if summed else ():
            if field := summed.get(number.resource):
                sums = {"name": f"{number.name}_sum", "sums": "", "label": field.label}
                numbers.append(number._replace(**sums, value=field.stored_value))
        if not by:
            return self._replace(numbers=(*numbers,))
        columns = {plural: field.stored_value for plural, field in by.items()}
        grouped = [one._replace(by=columns.get(one.resource, "NULL")) for one in numbers]
        report = self._replace(numbers=(*grouped,), by=next(iter(by.values())))
        return report if self.key == "stage_id" else report._replace(key="value", label="label")

    def _chosen(self, parameter: str, name: str) -> dict[str, CustomField]:
        """The fields of a name by resource, if there is one; raises Invalid."""
        options = self.custom_options(parameter)
        if not name or name in options:
            return options.get(name, {})
        types = ", ".join(type for type, one in TYPES.items() if getattr(one, TAKEN[parameter]))
        detail = f"must be one of: {', '.join(options)}" if options else "there is none yet"
        detail += f"; a field of the types {types} needs `filtered` (PATCH /fields/<id>)"
        raise Invalid(Fault(parameter, "invalid_choice", detail, "parameter"))


def _done(name: str, sums: str = "", **filters: str) -> Number:
    return Number(name, "tasks", "completed", {"status": "done", **filters}, sums)


LEADS = Number("leads", "leads", "created")
DEALS = Number("deals", "deals", "created", sums="deals_amounts")
WON = Number("won", "deals", "closed", {"status": "won"}, "won_amounts")
LOST = Number("lost", "deals", "closed", {"status": "lost"}, "lost_amounts")
TASKS, CALLS = _done("tasks"), _done("calls", "calls_seconds", type="call")
WORK = (LEADS, DEALS, WON, LOST, TASKS, CALLS)
OF_STAGES, OF_WORK = ("deals:read", "pipelines:read"), ("leads:read", "deals:read", "tasks:read")

REPORTS = {
    "funnel": Report(
        "stage_id",
        "stage",
        (DEALS,),
        OF_STAGES,
        "Count the deals of a period by the stages that they have reached.",
        "Of the deals created in the period: how many have come to each stage, or further.",
        takes=(*TAKEN,),
    ),
    "stage-time": Report(
        "stage_id",
        "stage",
        (Number("deals", "deals", "closed"),),
        OF_STAGES,
        "Get how long deals have been in each stage.",
        "Of the deals closed in the period: how many have left each open stage, and how long they"
        " have been there on average. The total is of all stages together.",
        ("average_seconds",),
        takes=(),
    ),
    "forecast": Report(
        "month",
        "",
        (Number("deals", "deals", "expected", {"status": "open"}, "deals_amounts"),),
        OF_STAGES,
        "Get the amounts of open deals by the month of their expected closing.",
        "`weighted_amounts`: amounts times the probabilities of the stages. By default of any time,"
        " and only then with deals without an expected day, as the month null.",
        ("weighted_amounts",),
    ),
    "lost": Report(
        "reason",
        "",
        (LOST._replace(name="deals", sums="deals_amounts"),),
        ("deals:read",),
        "Count the deals lost in a period by their reasons.",
        "Those without a reason have null. There are at most 200 rows, the largest.",
    ),
    "sources": Report(
        "source",
        "",
        (LEADS, Number("converted", "leads", "created", {"status": "converted"}), WON),
        ("leads:read", "deals:read"),
        "Count leads and won deals by their sources.",
        "Leads created in the period, those of them that are converted, and deals won in it. There"
        " are at most 200 rows, the largest.",
        takes=(*TAKEN,),
    ),
    "people": Report(
        "user_id",
        "user",
        WORK,
        (*OF_WORK, "users:read"),
        "Count what each user has got and done in a period.",
        "By `assigned_to`; the user null stands for records of nobody.",
        takes=(*TAKEN,),
    ),
    "activity": Report(
        "period",
        "",
        (*WORK, _done("meetings", type="meeting"), _done("emails", type="email")),
        OF_WORK,
        "Count what came in and was done on each day of a period.",
        "In each month, `YYYY-MM`, of a period of more than two months; it has at most 120.",
    ),
    "received": Report(
        "period",
        "",
        (Number("payments", "papers", "paid", {"kind": "invoice"}, "payments_amounts"),),
        ("papers:read",),
        "Sum the money received by invoices on each day of a period.",
        "By the days on which invoices were paid. In each month, `YYYY-MM`, of a period of more"
        " than two months; it has at most 120.",
        takes=(),
    ),
}


def list_parameters(number: Number, period: Any, filters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the list whose records a number counts; days are those of the tenant.

    filters: of the report and of the row, if it is the number of one row.
    """
    custom = custom_fields.current().parameters.get(number.resource, {})
    narrowing = {
        name: value
        for name, value in filters.items()
        if (number.resource == "deals" or name not in FOR_DEALS)
        and ("custom." not in name or name in custom)  # records without the field have no value
    }
    days = zip(RANGES[number.period], period, strict=True)
    return narrowing | dict(number.filters) | {name: day for name, day in days if day}
