"""What each report counts: its numbers, as lists with filters, and what its rows are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crm.errors import Fault, Invalid
from crm.records import custom_fields
from crm.records.custom_fields import CustomField
from crm.records.custom_types import TYPES
from crm.values import InvalidValue

# The filters of lists for the first and the last day of a period, by what is in the period.
RANGES = {
    "created": ("created_since", "created_until"),
    "closed": ("closed_since", "closed_until"),
    "completed": ("completed_since", "completed_until"),
    "expected": ("expected_close_from", "expected_close_to"),
}
FOR_DEALS = ("pipeline_id", "currency")  # parameters of a report that narrow its deals alone
FITTING = {"group_by": "groups", "sum": "is_summed"}  # what the type of a custom field must be


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
    is_grouped: whether it may be counted by a custom field; by: the one that it is counted by.
    replaced: the fields of a row that those of the custom field take the place of.
    """

    key: str
    label: str
    numbers: tuple[Number, ...]
    needs: tuple[str, ...]
    title: str
    about: str = ""
    more: tuple[str, ...] = ()
    is_grouped: bool = False
    by: Any = None
    replaced: Mapping[str, Any] = {}

    @property
    def has_sums(self) -> bool:
        return any(number.sums for number in self.numbers)

    def custom_options(self, parameter: str) -> dict[str, dict[str, CustomField]]:
        """What `group_by` or `sum` may be: the fields of its records by name and resource."""
        options: dict[str, dict[str, CustomField]] = {}
        if not (self.is_grouped if parameter == "group_by" else self.has_sums):
            return options
        for plural in dict.fromkeys(number.resource for number in self.numbers):
            for field in custom_fields.of(plural).values():
                if field.is_found and getattr(field.wire, FITTING[parameter]):
                    options.setdefault(field.name, {})[plural] = field
        return options

    def customized(self, group_by: str = "", sum: str = "") -> "Report":
        """The report counted by a custom field, with the sums of another. Raises Invalid."""
        by = self._custom_fields("group_by", group_by) if group_by else {}
        summed = self._custom_fields("sum", sum) if sum else {}
        numbers = []
        for number in self.numbers:
            if by:
                field = by.get(number.resource)
                number = number._replace(by=field.stored_value if field else "NULL")
            numbers.append(number)
            if field := summed.get(number.resource):
                # As a floating number: the exact sum of large values may have more than 64 bits.
                value = f"CAST({field.stored_value} AS DOUBLE PRECISION)"
                name = f"{number.name}_sum"
                numbers.append(number._replace(name=name, sums="", value=value, label=field.label))
        report = self._replace(numbers=(*numbers,))
        if not by:
            return report
        report = report._replace(by=next(iter(by.values())))
        if self.key == "stage_id":
            return report
        replaced = {self.key: None, **({self.label: ""} if self.label else {})}
        return report._replace(key="value", label="label", replaced=replaced)

    def _custom_fields(self, parameter: str, name: str) -> dict[str, CustomField]:
        """The fields of a name, by resource; raises Invalid, which says why it cannot be taken."""
        if fields := self.custom_options(parameter).get(name):
            return fields
        plurals = [*dict.fromkeys(number.resource for number in self.numbers)]
        key = name.removeprefix(custom_fields.PREFIX)
        plural = next((one for one in plurals if key in custom_fields.of(one)), plurals[0])
        types = [type for type, one in TYPES.items() if getattr(one, FITTING[parameter])]
        detail = f"must be `custom.<key>` of a field of the types {', '.join(types)}"
        try:
            if name.startswith(custom_fields.PREFIX):
                custom_fields.parameter(plural, name)
        except InvalidValue as error:
            detail = error.detail
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
        is_grouped=True,
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
        is_grouped=True,
    ),
    "people": Report(
        "user_id",
        "user",
        WORK,
        (*OF_WORK, "users:read"),
        "Count what each user has got and done in a period.",
        "By `assigned_to`; the user null stands for records of nobody.",
        is_grouped=True,
    ),
    "activity": Report(
        "period",
        "",
        (*WORK, _done("meetings", type="meeting"), _done("emails", type="email")),
        OF_WORK,
        "Count what came in and was done on each day of a period.",
        "In each month, `YYYY-MM`, of a period of more than two months; it has at most 120.",
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
