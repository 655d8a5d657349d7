"""The pages and actions that nouns share: add a record, edit it, delete it, undo that.

A module of pages declares those of its noun, which call the noun's verbs:

    actions = RecordActions(pages, LEAD)
    actions.create(leads.create, LEAD_FORM, list_leads, N_("Lead added"))
    actions.edit(leads.update, LEAD_PATCH)
    actions.delete(leads.delete)
    actions.restore(leads.restore, N_("Lead restored"))

The texts are marked by N_() and translated when they are shown.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from werkzeug.wrappers import Response

from crm.cabinet import edits, labels
from crm.cabinet.forms import load_form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records.record_fields import form_names, record_fields
from crm.cabinet.rendering import MANAGER, Pages, render, see_other, with_undo
from crm.records.schemas import Body
from crm.records.views import RecordView

DELETED = N_("“%(name)s” deleted. It can be restored from the trash for 30 days.")

Page = Callable[..., Response]
Verb = Callable[..., Any]


class RecordActions:
    """Declares the usual actions of a noun's pages, at `/<noun>s` and `/<noun>s/<id>`."""

    def __init__(self, pages: Pages, view: RecordView):
        self.pages, self.view, self.noun = pages, view, view.noun
        self.path = f"/{view.noun}s"
        self.names = form_names(view.noun)

    def create(self, create: Verb, body: Body, page: Page, added: str) -> None:
        """Add a record by the form of `page`. added: the text that is shown then."""
        names = form_names(self.noun, new=True)

        def create_record() -> Response:
            id = create(load_form(body, names))
            return see_other(f"{self.path}/{id}", gettext(added))

        self._post(f"create_{self.noun}", self.path, create_record, page)

    def edit(self, update: Verb, patch: Body) -> None:
        """Show the edit form on a page of its own, and save it."""

        def edit_record(id: str, form: Any = None) -> Response:
            record = self.view.one(id)
            form = form or edits.open_form(record, self.names)
            fields = record_fields(self.noun, self.names, record)
            path = f"{self.path}/{record['id']}"
            return render("edit.html", heading=record["name"], path=path, form=form, fields=fields)

        path = f"{self.path}/<id>/edit"
        self.pages.get(path, endpoint=f"edit_{self.noun}", role=MANAGER)(edit_record)
        self.save(update, patch, edit_record, path)

    def save(
        self, update: Verb, patch: Body, page: Page, path: str = "", after: str = "/{}"
    ) -> None:
        """Save the edit form of `page`, with what another user has changed meanwhile.

        path: where it is sent, by default that of the record. after: the path of the next page,
        below that of the noun, with the id in place of `{}`.
        """

        def change_record(id: str) -> Response:
            edits.save(self.view, id, load_form(patch, self.names), partial(update, id))
            return see_other(self.path + after.format(id))

        self._post(f"change_{self.noun}", path or f"{self.path}/<id>", change_record, page)

    def delete(
        self, delete: Verb, refused: Page | None = None, back: Callable[[Any], str] | None = None
    ) -> None:
        """Soft-delete a record; the next page has a button that restores it.

        refused: the page that shows why a record cannot be deleted, as its form `refused`.
        back: takes the record and gives the path of the next page, by default the list's.
        """

        def delete_record(id: str) -> Response:
            record = delete(id)
            text = gettext(DELETED, name=labels.title(record))
            undo = with_undo(text, f"{self.path}/{id}/restore")
            return see_other(back(record) if back else self.path, undo)

        path = f"{self.path}/<id>/delete"
        self._post(f"delete_{self.noun}", path, delete_record, refused, "refused")

    def restore(self, restore: Verb, restored: str) -> None:
        """Undo delete(). restored: the text that is shown then."""

        def restore_record(id: str) -> Response:
            restore(id)
            return see_other(f"{self.path}/{id}", gettext(restored))

        self._post(f"restore_{self.noun}", f"{self.path}/<id>/restore", restore_record)

    def _post(
        self, name: str, path: str, view: Page, page: Page | None = None, form_name: str = "form"
    ) -> None:
        """Register an action; `page` shows its form again when that is refused."""
        self.pages.post(path, endpoint=name, page=page, form_name=form_name)(view)
