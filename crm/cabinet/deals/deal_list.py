"""All deals as a list."""

from werkzeug.wrappers import Response

from crm.cabinet import choices
from crm.cabinet.languages import N_
from crm.cabinet.records import lists
from crm.cabinet.records.filters import OPEN, VIEW
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL

WITHOUT_STEP = N_("Without a next step")
# The filters of the board, which has neither stages nor statuses: it shows each open stage as a
# column.
OF_BOARD = (
    *("tag", "assigned_to", "has_open_task", "amount_from", "amount_to"),
    *("expected_close_from", "expected_close_to"),
)
LIST = lists.ListPage(
    DEAL,
    DEAL_FILTER,
    N_("Deals"),
    filters=("pipeline_id", "stage_id", "status", *OF_BOARD, "closed_since", "closed_until"),
    sorts=(
        *(lists.NEWEST_FIRST, lists.OLDEST_FIRST, lists.LARGEST_FIRST),
        ("expected_close_date", N_("Closing soonest first")),
        lists.UPDATED_FIRST,
    ),
    columns=(
        *("title", "client_name", "stage_id", "amount"),
        *("expected_close_date", "assigned_to", "created_at"),
    ),
    more_columns=("source", "tags", "comment", "closed_at", "updated_at"),
    tabs=(
        *lists.OPEN_TABS[:-1],
        (WITHOUT_STEP, {"status": OPEN, "has_open_task": "false"}),
        lists.OPEN_TABS[-1],
    ),
    open_statuses=("open",),
    new=N_("New deal"),
    fixed={VIEW: "list"},
)


BOARD = LIST._replace(
    filters=OF_BOARD,
    sorts=(),
    tabs=(
        *((N_("All open"), {}), (N_("Mine"), {"assigned_to": "me"}), lists.NOBODYS),
        (WITHOUT_STEP, {"has_open_task": "false"}),
    ),
    open_statuses=(),
    fixed={},
)


def show_list() -> Response:
    stages = choices.list_stages()
    pipelines = [(pipeline["id"], pipeline["name"]) for pipeline in choices.pipelines()]
    return lists.render_list(
        LIST if len(pipelines) > 1 else LIST._replace(filters=LIST.filters[1:]),
        choices={"pipeline_id": pipelines, "stage_id": stages},
        stages=dict(stages),
    )
