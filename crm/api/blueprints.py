"""Blueprints: how a resource module declares its operations.

Most endpoints of a resource only call a verb: `Endpoints` declares those in a line each.

    products = Endpoints(blueprint, "/products", PRODUCT)
    products.list(PRODUCT_FILTER, "List products by name.")
    products.get()
    products.create(create, example={…})
    products.change(update)
    products.delete(delete)

Any other is a function decorated by `@blueprint.operation(…)`, and it takes what a verb would take:
the ids in the path, then the query, the file and the body, as far as the operation has them.
"""

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

import flask_smorest
from flask import Flask, Request, request

from crm.api.envelopes import page_of
from crm.api.operations import PREFIX, AnyResponse, Operation, compile_view
from crm.records import pagination
from crm.records.queries import Filter
from crm.records.views import RecordView

Serve = Callable[[Request, list[str]], AnyResponse]
Where = Callable[..., tuple[Any, ...]]


class Blueprint(flask_smorest.Blueprint):
    """The endpoints of one resource.

    smorest's decorators wrap the function one in another: its `arguments` would parse a query twice
    (60 µs), its `response` dump a list of 50 in 3.8 ms. Ours only notes what an endpoint takes and
    returns, and compile_view() makes one wrapper.

    label: what people call the resource, marked by N_(). With one, the resource has its own scopes,
    `<name>:read` and `<name>:write`.
    """

    def __init__(self, name: str, description: str, label: str = ""):
        super().__init__(name, __name__, url_prefix=PREFIX, description=description)
        self.label = label
        self.operations: dict[str, Operation] = {}
        self.views: dict[str, RecordView] = {}  # by URL rule, of what GET shows there

    def operation(self, method: str, rule: str, **declared: Any) -> Callable:
        """Declare the decorated function as an operation.

        declared: attributes of the `Operation`. Its name and its text are the function's, unless
        they are given, as for a function that is made for several nouns.
        """

        def register(function: Callable) -> Callable:
            text = {"name": function.__name__, "about": cleandoc(function.__doc__ or "")}
            self.add(method, rule, **{**text, "function": function, **declared})
            return function

        return register

    def add(self, method: str, rule: str, **declared: Any) -> None:
        """Register an operation, of the declared attributes, with its compiled view."""
        operation = Operation(method=method, rule=rule, **declared)
        if operation.needs is None:
            operation.needs = (f"{self.name}:{'read' if method == 'GET' else 'write'}",)
        if method != "GET" and operation.needs:
            operation.reads = f"{operation.needs[0].partition(':')[0]}:read"
        if operation.kind == "record" and operation.response_view:
            self.views[rule] = operation.response_view
        self.operations[operation.name] = operation
        # DELETE shows nothing: its record is shown as by GET or PATCH, registered before it.
        operation.current_view = self.views.get(rule)
        limit, serve = operation.max_body_bytes, compile_view(operation)
        view = make_view(operation.name, serve, max_body_bytes=limit, operation=operation)
        view.__doc__ = operation.about
        super().add_url_rule(rule, None, view, methods=[method])

    def register_views_in_doc(
        self, api: Any, app: Flask, spec: Any, *, name: str, parameters: Any
    ) -> None:
        """Let the API describe the operations (smorest calls this at registration)."""
        api.operations |= {f"{name}.{key}": operation for key, operation in self.operations.items()}


def make_view(name: str, serve: Serve, **attributes: Any) -> Callable[..., AnyResponse]:
    """Make the view function that Flask calls, where routes.py does not find the operation.

    serve: what answers a request with the ids in its path, such as compile_view() makes; an
    attribute of the function, as the others.
    """

    def view(**ids: str) -> AnyResponse:
        return serve(request._get_current_object(), [*ids.values()])  # type: ignore[attr-defined]

    view.__name__ = name
    view.__dict__ |= {"serve": serve, **attributes}
    return view


class Endpoints:
    """Declares the usual endpoints of a kind of records, in the order of the calls.

    path: that of the list; `<id>` in it is the record that these records are parts of.
    view: how they are shown. name: what operation ids and summaries call one, by default the view's
    noun. id: what the path of one calls its id.

    The methods take further attributes of an `Operation`, such as `needs` or `conflicts`. By
    default the bodies are those of the view, and 409 is possible where an external_id is sent.
    """

    def __init__(
        self, blueprint: Blueprint, path: str, view: RecordView, name: str = "", id: str = "id"
    ):
        self.blueprint, self.view, self.name = blueprint, view, name or view.noun
        self.path, self.record_path = path, f"{path}/<{id}>"

    def list(
        self,
        filter: Filter,
        about: str = "",
        *,
        view: RecordView | None = None,
        where: Where = lambda: ("", ()),
        **declared: Any,
    ) -> None:
        """GET a page of the records.

        view: how the list shows them, where that differs. where: takes the ids in the path and
        gives the SQL condition of the list, its parameters and perhaps the index by which it is
        read, as pagination.page() takes them; raises NotFound.
        """
        listed, sort = view or self.view, filter.fields["sort"]

        def list_page(*ids_and_query: Any) -> pagination.Page:
            *ids, query = ids_and_query
            shown, as_json = listed.expanded(query.expand), query.as_json
            return pagination.page(shown, query, sort, *where(*ids), as_json=as_json)

        about = about or f"List {self.name}s, the newest first."
        page = page_of(self.view.schema, deleted="include_deleted" in filter.fields)
        declared = {"name": f"list_{self.name}s", "kind": "page", "answer": page, **declared}
        self.blueprint.add(
            "GET", self.path, about=about, function=list_page, query=filter, **declared
        )

    def get(
        self, about: str = "", show: Callable[..., dict[str, Any]] | None = None, **declared: Any
    ) -> None:
        """GET one record; `show` takes the ids in the path and the query, and shows the record."""
        declared |= {"function": show or self.view.one, "response_view": self.view}
        declared["about"] = about or f"Get one {self.name}."
        self.blueprint.add("GET", self.record_path, name=f"get_{self.name}", **declared)

    def create(self, create: Callable[..., Any], about: str = "", **declared: Any) -> None:
        """POST a record; `create` takes the ids in the path and the body, and gives the new id."""
        declared |= {"function": create, "kind": "created", "status": 201}
        declared |= {"noun": self.view.noun, "response_view": self.view}
        declared = {"body": self.view.body, "conflicts": self.view.has_audit_trail, **declared}
        declared["about"] = about or f"Create a {self.name}."
        self.blueprint.add("POST", self.path, name=f"create_{self.name}", **declared)

    def change(self, update: Callable[..., Any], about: str = "", **declared: Any) -> None:
        """PATCH a record; `update` takes the ids in the path, the body and perhaps a version."""

        def change_record(*arguments: Any, expected_version: int | None = None) -> dict[str, Any]:
            return self.view.changed(update(*arguments, expected_version).id)

        declared |= {"function": change_record, "response_view": self.view}
        declared = {"body": self.view.patch, "conflicts": self.view.has_audit_trail, **declared}
        declared["about"] = about or f"Change the sent fields of a {self.name}."
        self.blueprint.add("PATCH", self.record_path, name=f"change_{self.name}", **declared)

    def delete(self, delete: Callable[..., Any], about: str = "", **declared: Any) -> None:
        """DELETE a record; `delete` takes the ids in the path, and perhaps `expected_version`."""
        declared |= {"function": delete, "kind": "empty", "status": 204}
        declared["about"] = about or f"Delete a {self.name}."
        self.blueprint.add("DELETE", self.record_path, name=f"delete_{self.name}", **declared)
