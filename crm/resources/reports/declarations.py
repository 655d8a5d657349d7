"""What each report counts: its numbers, as lists with filters, and what its rows are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

# The filters of lists for the first and the last day of a period, by what is in the period.
RANGES = {
    "created": ("created_since", "created_until"),
    "closed": ("closed_since", "closed_until"),
    "completed": ("completed_since", "completed_until"),
    "expected": ("expected_close_from", "expected_close_to"),
}
FOR_DEALS = ("pipeline_id", "currency")  # parameters of a report that narrow its deals alone


class Number(NamedTuple):
    """A number of each row of a report: how many records a list has.

    period: what is in the period of the report, a name in RANGES. filters: of the list, besides.
    sums: what the sums of the records are called, if they are shown: `…_amounts` or `…_seconds`.
    """

    name: str
    resource: str
    period: str
    filters: Mapping[str, str] = {}
    sums: str = ""


class Report(NamedTuple):
    """A report.

    key, label: the fields of a row that say what it is of; a row without a label has the key alone.
    numbers: its counts. more: the names of further fields of a row.
    needs: the scopes that it needs. title, about: for the documentation.
    """

    key: str
    label: str
    numbers: tuple[Number, ...]
    needs: tuple[str, ...]
    title: str
    about: str = ""
    more: tuple[str, ...] = ()


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
    ),
    "people": Report(
        "user_id",
        "user",
        WORK,
        (*OF_WORK, "users:read"),
        "Count what each user has got and done in a period.",
        "By `assigned_to`; the user null stands for records of nobody.",
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
    narrowing = {
        name: value
        for name, value in filters.items()
        if number.resource == "deals" or name not in FOR_DEALS
    }
    days = zip(RANGES[number.period], period, strict=True)
    return narrowing | dict(number.filters) | {name: day for name, day in days if day}
