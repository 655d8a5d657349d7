"""The pages and actions that nouns share: list records, add one, edit it, delete it, undo that."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from werkzeug.wrappers import Response

from crm.cabinet import edits, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import N_, coded_text, gettext
from crm.cabinet.records.lists import ListPage, render_list, render_new
from crm.cabinet.records.record_fields import form_names, load_record, record_fields, with_focus
from crm.cabinet.rendering import SELLER, Pages, render, see_other, with_undo
from crm.records.schemas import Body
from crm.records.views import RecordView

DELETED = N_("“%(name)s” deleted. It can be restored from the trash for 30 days.")

Page = Callable[..., Response]


def add_record_pages(
    pages: Pages,
    view: RecordView,
    verbs: Any,
    *,
    list: ListPage | None = None,
    body: Body | None = None,
    edits_here: bool = True,
    edit_page: Page | None = None,
    after_edit: str = "/{}",
    delete_page: Page | None = None,
) -> None:
    """Register the usual pages of a noun, at `/<noun>s` and `/<noun>s/<id>`.

    verbs: the module with the noun's `create`, `update`, `delete` and `restore`.
    list: the list with the form for a new record. body: the schema of that form, by default that of
    the API.
    edit_page: the page of a record that has its edit form; by default one is made, at `/edit`.
    edits_here: False for a noun with another way to edit its records. after_edit: the path of the
    next page, below that of the noun, with the id in place of `{}`.
    delete_page: the page that shows why a record cannot be deleted, as its form `refused`.
    """
    noun, path, names = view.noun, f"/{view.noun}s", form_names(view.noun)
    record_path, patch = f"{path}/<id>", cast(Body, view.patch)

    def edit_record(id: str, form: Form | None = None) -> Response:
        record = view.one(id)
        return render(
            "edit.html",
            heading=record["name"],
            path=f"{path}/{record['id']}",
            form=form or edits.open_form(record, names, noun=noun),
            fields=with_focus(record_fields(noun, names, record), form),
        )

    def change_record(id: str) -> Response:
        data = load_record(noun, patch, names)
        edits.save(view, id, data, partial(verbs.update, id))
        return see_other(path + after_edit.format(id))

    def delete_record(id: str) -> Response:
        text = gettext(DELETED, name=labels.title(verbs.delete(id)))
        return see_other(path, with_undo(text, f"{path}/{id}/restore"))

    def restore_record(id: str) -> Response:
        verbs.restore(id)
        return see_other(f"{path}/{id}", coded_text("restored", noun))

    if list:

        @pages.get(path)
        def list_records() -> Response:
            return render_list(list)

        @pages.get(f"{path}/new", role=SELLER)
        def new_record(form: Form | None = None) -> Response:
            return render_new(list, form)

        @pages.post(path, page=new_record, once=True)
        def create_record() -> Response:
            schema = body or cast(Body, view.body)
            id = verbs.create(load_record(noun, schema, form_names(noun, new=True)))
            return see_other(f"{path}/{id}", coded_text("added", noun))

    if edit_page:
        pages.post(record_path, page=edit_page)(change_record)
    elif edits_here:
        pages.get(f"{record_path}/edit", role=SELLER)(edit_record)
        pages.post(f"{record_path}/edit", page=edit_record)(change_record)
    pages.post(f"{record_path}/delete", page=delete_page, form_name="refused")(delete_record)
    pages.post(f"{record_path}/restore")(restore_record)
