"""Fields that a tenant adds to its records: what they are, and how lists are filtered by them.

They are the tenant's catalog: the rows of `custom_field`, made into a `Catalog` once after each
change. The tenant's row has a random name of it, which comes with the row of the API key or of the
session, so a request needs no query for it; a request that has begun with one catalog keeps it.

A record has their values in its column `custom` (values.py).
"""

import difflib
import re
import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from crm import values
from crm.json import loads
from crm.records import parameters
from crm.records.conditions import Condition
from crm.records.custom.types import NUMBERS, TYPES, Choices, CustomType
from crm.records.fields import Boolean, Choice
from crm.records.parameters import Parameter
from crm.storage.session import current_session, execute, remembered_row, rows

PREFIX, HAS_PREFIX = "custom.", "has_custom."  # of parameters, of orders and of columns of files
MAX_CATALOGS = 1000  # that a process remembers
LIST_FIELDS = """
    SELECT fields_digest, custom_field.id, resource, key, label, help, type, options, filtered,
           searched, in_form, in_list, in_card, required_in_workspace, pending_from IS NOT NULL,
           retired_at IS NOT NULL, deleted_at IS NOT NULL
    FROM tenant LEFT JOIN custom_field ON TRUE ORDER BY resource, position, custom_field.id
"""
# What stands in an order for the number or the date that a record does not have, behind all others.
LARGEST, LAST_DAY = (1 << 63) - 1, "9999-12-32"
ENDS = (LARGEST, -LARGEST, LAST_DAY, "")


class CustomField:
    """A field of a tenant, with the attributes that the declaration of a column has.

    resource: the plural, such as `leads`. name: `custom.` and the key. wire: the field that reads
    and shows its values. is_live: whether it is neither retired nor deleted. is_found: whether
    lists may be filtered by it. is_indexed: whether its values are kept in `wire.found_in`.
    """

    csv = True
    sorted = False
    aliases: tuple[str, ...] = ()

    def __init__(self, row: Sequence[Any]):
        self.id, self.resource, self.key, self.label, self.help, type, options, *flags = row
        filtered, self.searched, self.form, self.in_list, self.in_card, *states = flags
        self.is_required, is_pending, self.is_retired, self.is_deleted = states
        self.options: list[dict[str, Any]] = loads(options) if options else []
        self.type = TYPES[type]
        self.wire: CustomType = self.type([option["key"] for option in self.options])
        self.name = PREFIX + self.key
        self.references = self.type.references
        self.is_live = not self.is_retired and not self.is_deleted
        # What names other records is looked for when these are merged.
        self.is_indexed = bool(filtered or self.references)
        self.is_pending = bool(is_pending)
        self.is_found = bool(filtered) and not self.is_pending
        self.is_sorted = self.is_found and self.wire.is_range

    @property
    def table(self) -> str:
        """The table of the records."""
        return self.resource[:-1]

    @property
    def place(self) -> str:
        """An SQL condition: a row of `wire.found_in` is the field's."""
        return f"field_id = {self.id}"

    @property
    def stored_value(self) -> str:
        """The SQL expression of a record's only value, by which lists find it."""
        of_record = f"{self.place} AND record_id = {self.table}.id"
        return f"(SELECT value FROM {self.wire.found_in} WHERE {of_record})"

    @property
    def ids_head(self) -> str:
        """The SQL that selects ids of records by their value, up to the comparison of it."""
        return f"SELECT record_id AS id FROM {self.wire.found_in} WHERE {self.place} AND "

    def order(self, descends: bool) -> str:
        """The SQL expression by which a list is sorted: records without a value are the last."""
        last: Any = -LARGEST if descends else LARGEST
        if self.wire.found_in != NUMBERS:
            last = "''" if descends else f"'{LAST_DAY}'"
        return f"coalesce({self.stored_value}, {last})"

    def shown_text(self, value: Any) -> str:
        """The label of an option, or the value."""
        return next((one["label"] for one in self.options if one["key"] == value), str(value))

    def shown_texts(self, value: Any) -> list[str]:
        """As shown_text(), of each of several options; none of no value."""
        if value is None:
            return []
        return [*map(self.shown_text, value if isinstance(value, list) else [value])]


class Catalog:
    """The fields of one content of `custom_field`.

    of_resource: the live fields by plural and key, in their order; `all` has all of them.
    hidden: the keys of those that are not live, indexed: the fields of any state whose values are
    kept in tables, both by plural.
    """

    def __init__(self, field_rows: Sequence[Sequence[Any]] = ()):
        self.all = [*map(CustomField, field_rows)]
        self.of_resource: dict[str, dict[str, CustomField]] = {}
        self.hidden: dict[str, set[str]] = {}
        self.indexed: dict[str, list[CustomField]] = {}
        for field in self.all:
            if field.is_live:
                self.of_resource.setdefault(field.resource, {})[field.key] = field
            else:
                self.hidden.setdefault(field.resource, set()).add(field.key)
            if field.is_indexed:
                self.indexed.setdefault(field.resource, []).append(field)

    @cached_property
    def parameters(self) -> dict[str, dict[str, Parameter]]:
        """The parameters of lists, by plural and name."""
        return {
            plural: {name: one for field in fields.values() for name, one in _parameters(field)}
            for plural, fields in self.of_resource.items()
        }


# What names fields of a tenant: by table, SQL of the plural of their records, and columns with it.
uses: dict[str, tuple[str, ...]] = {}

NO_FIELDS = Catalog()
_catalogs: dict[str | None, Catalog] = {None: NO_FIELDS}  # by their names


def current() -> Catalog:
    """The fields of the session's tenant."""
    session = current_session()
    digest = session.fields_digest
    if digest == "":
        digest = session.fields_digest = _read_digest()
    return _catalogs.get(digest) or _read()


def of_transaction() -> Catalog:
    """The fields as the transaction has them; a session that began with others knows them now."""
    current_session().fields_digest = _read_digest()
    return current()


def of(plural: str) -> dict[str, CustomField]:
    """The live fields of a resource by key, in their order."""
    return current().of_resource.get(plural, {})


def by_name(values: dict[str, Any]) -> dict[str, Any]:
    """Values on the wire, with those of `custom` by the names of their fields in its place."""
    own = {PREFIX + key: value for key, value in (values.get("custom") or {}).items()}
    return {name: value for name, value in values.items() if name != "custom"} | own


def note_change() -> None:
    """Give the catalog another name after a change of the fields; inside its transaction."""
    name = secrets.token_hex(8)
    execute("UPDATE tenant SET fields_digest = ?", (name,))
    current_session().fields_digest = name


def _read_digest() -> str | None:
    tenant = remembered_row("SELECT fields_digest FROM tenant")
    return tenant[0] if tenant else None


def _read() -> Catalog:
    field_rows = rows(LIST_FIELDS)
    if len(_catalogs) > MAX_CATALOGS:
        _catalogs.clear()
    # Under the name that was read with it: another change may have come since the first query.
    name = current_session().fields_digest = field_rows[0][0]
    catalog = _catalogs[name] = Catalog([row[1:] for row in field_rows if row[1]])
    return catalog


# Parameters of lists


def parameter(plural: str, name: str) -> Parameter:
    """The parameter of a list that filters by a custom field.

    Raises values.InvalidValue, which says what is there or how it could be.
    """
    if found := current().parameters.get(plural, {}).get(name):
        return found
    key, known = re.sub(r"\A(has_)?custom\.", "", name), of(plural)
    field = known.get(key) or known.get(re.sub(r"_(from|to)\Z", "", key))
    if field is None:
        raise values.InvalidValue("unknown_parameter", describe_unknown(key, known))
    if field.is_found:
        raise values.InvalidValue("unknown_parameter", f"{key} has no range")
    if field.is_pending:
        raise values.InvalidValue("unknown_parameter", "its values are being indexed: try again")
    if not field.wire.found_in:
        detail = f"a field of the type {field.type.type_name} cannot be filtered: search by `q`"
        raise values.InvalidValue("unknown_parameter", detail)
    detail = f'lists are not filtered by {key}: PATCH /fields/{field.id} {{"filtered": true}}'
    raise values.InvalidValue("unknown_parameter", detail)


def order(plural: str, name: str) -> CustomField:
    """The field of an order `custom.<key>` of a list; raises values.InvalidValue."""
    field = of(plural).get(name.removeprefix(PREFIX))
    if field is None or not field.wire.is_range:
        detail = "lists are sorted by custom fields with numbers, amounts and dates"
        raise values.InvalidValue("invalid_choice", detail)
    parameter(plural, name)
    return field


def describe_unknown(key: str, known: dict[str, Any]) -> str:
    """Why a key is refused, with the known one that is most like it."""
    nearest = difflib.get_close_matches(key[:64], known, 1)
    return f"there is no such field{f': is it {nearest[0]}?' if nearest else ''}"


class _InField(parameters.Equals):
    """Records with one of these values in a custom field."""

    def __init__(self, field: CustomField):
        # Of several options each may be asked for.
        wire = Choice(*field.wire.choices) if isinstance(field.wire, Choices) else field.wire
        super().__init__(wire, about=field.help or field.label)
        self.field = field

    def condition(self, sent: list[str], column: str) -> Condition:
        is_boolean = isinstance(self.inner, Boolean)
        read = parameters.read_boolean if is_boolean else self.inner.read
        stored = [*dict.fromkeys(map(read, sent))]
        among = "= ?" if len(stored) == 1 else f"IN ({', '.join('?' * len(stored))})"
        return self._of_values(f"value {among}", stored)

    def _of_values(self, comparison: str, params: Sequence[Any]) -> Condition:
        record, head = f"{self.field.table}.id", self.field.ids_head
        ids = head + comparison
        exists = f"EXISTS ({head}record_id = {record} AND {comparison})"
        for_all = Condition(f"{record} IN ({ids})", params, ids)
        return Condition(exists, params, ids, reads_row=True, for_all=for_all, ids_head=head)


class _From(_InField):
    """Records whose value in a custom field is this or more."""

    repeated = False
    sign = ">="

    def condition(self, sent: list[str], column: str) -> Condition:
        condition = self._of_values(f"value {self.sign} ?", [self.inner.read(sent[0])])
        return condition._replace(span=self.field.name, for_all=None)


class _To(_From):
    sign = "<="


class _HasValue(parameters.HasRelated):
    """Records with a value in a custom field, or without one."""

    def __init__(self, field: CustomField):
        self.head = field.ids_head
        about = f"`true`: has a value, `false`: has none. {field.label}."
        exists = f"{self.head}record_id = {field.table}.id"
        super().__init__(exists, f"{self.head}TRUE", about)

    def condition(self, sent: list[str], column: str) -> Condition:
        has_value = parameters.read_boolean(sent[0])
        condition = super().condition(sent, column)
        return condition._replace(ids=self.ids if has_value else "", ids_head=self.head)


def _parameters(field: CustomField) -> list[tuple[str, Parameter]]:
    """The parameters of a field that lists may be filtered by, with their names."""
    if not field.is_found:
        return []
    named: list[tuple[str, Parameter]] = [
        (field.name, _InField(field)),
        (HAS_PREFIX + field.key, _HasValue(field)),
    ]
    if field.wire.is_range:
        named += [(f"{field.name}_from", _From(field)), (f"{field.name}_to", _To(field))]
    for name, one in named:
        one.name, one.field = name, field
    return named
