"""The page of a list, made from a description: filters, sorting, columns, and a form for a new
record. A template that extends list.html writes the cells of a row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from werkzeug.wrappers import Response

from crm.cabinet import lists, user_choices
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.record_fields import RecordField
from crm.cabinet.rendering import render
from crm.cabinet.spreadsheets.exports import export_links
from crm.records.queries import Filter
from crm.records.views import RecordView

NUMBER = "num"  # the class of a column of numbers

Choices = Sequence[tuple[str, str]]  # (value, text)


class FilterField(NamedTuple):
    """A field of the filters above a list.

    kind: "text", "select", "tags" (one input for each tag and one for another) or "day".
    choices: of a select. suggestions: values that the browser proposes for a text.
    """

    kind: str
    name: str
    label: str
    choices: Choices = ()
    suggestions: Sequence[str] = ()
    max_length: int = 64


class Link(NamedTuple):
    """A button in the head of a page that leads to another one."""

    path: str
    label: str
    icon: str
    kind: str = "outline-secondary"
    changes: bool = False  # whether it leads to a form, which viewers cannot send


class ListPage(NamedTuple):
    """What a page of a list shows.

    columns: (heading, class) of each. sorts: the values of `sort`, the first for its absence.
    empty: the text instead of rows when there is no record at all. new: the title of the form for
    a new record. fixed: parameters that every address of the list has.
    """

    noun: str
    path: str
    title: str
    filters: Sequence[FilterField]
    sorts: Choices
    columns: Sequence[tuple[str, str]]
    empty: str
    new: str = ""
    links: Sequence[Link] = ()
    fixed: dict[str, str] = {}

    @property
    def filter_names(self) -> list[str]:
        """The parameters that the filters' form sends."""
        return ["q", "sort", *self.fixed, *(filter.name for filter in self.filters)]


def assigned_to_filter() -> FilterField:
    choices = [("me", gettext("Me")), ("none", gettext("Nobody")), *user_choices.choices()]
    return FilterField("select", "assigned_to", gettext("Responsible"), choices)


def render_list(
    template: str,
    page: ListPage,
    view: RecordView,
    filter: Filter,
    *,
    form: Form | None = None,
    fields: Sequence[RecordField] = (),
    is_form_open: bool = False,
    **context: Any,
) -> Response:
    """Render a list; `form` and `fields` are those of the form for a new record.

    The form is shown closed unless `is_form_open`, or it was refused.
    """
    form = form or Form()
    fields = list(fields)
    # Not for a refused form, whose faults are to be read first.
    if is_form_open and fields:
        fields[0] = fields[0]._replace(attributes={**fields[0].attributes, "autofocus": True})
    return render(
        template,
        list=page,
        page=lists.read_page(view, filter),
        active_filters=lists.active_filters(page.noun),
        is_filtered=lists.is_filtered(),
        export_links=export_links(page.path.removeprefix("/")),
        everyone=user_choices.everyone(),
        form=form,
        fields=fields,
        is_form_open=is_form_open or bool(form.faults or form.messages),
        **context,
    )
