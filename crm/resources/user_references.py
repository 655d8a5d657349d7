"""How files name users: by id, e-mail, phone, or exact name in any letter case."""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from crm.json import integer_id
from crm.records.columns import declared
from crm.records.custom.fields import PREFIX
from crm.resources import users
from crm.spreadsheets.references import References, name_for_file, require_one
from crm.spreadsheets.resource import ImportableResource
from crm.storage.session import one_row, rows
from crm.values.folding import fold

NAME_AND_EMAIL = re.compile(r"(\S.*?) [(<](\S+@\S+)[)>]")  # as HubSpot names the owner


class UserLookup:
    """The users of the tenant, deactivated ones too, because older records refer to them."""

    @cached_property
    def _users(self) -> tuple[set[int], dict[str, int], dict[str, list[int]]]:
        """Their ids, {e-mail or phone: id}, {name: ids}."""
        by_contact: dict[str, int] = {}
        by_name: dict[str, list[int]] = defaultdict(list)
        user_rows = rows('SELECT id, name, email, phone FROM "user" ORDER BY id')
        for id, name, email, phone in user_rows:
            by_contact |= {contact.lower(): id for contact in (phone, email) if contact}
            by_name[fold(name)].append(id)
        return {id for id, *_ in user_rows}, by_contact, by_name

    def find(self, text: str, column: str, is_foreign: bool = False) -> int:
        """The id of the user that a cell names; raises Invalid.

        `is_foreign`: the file is of another tenant, so its ids mean nothing here.
        """
        ids, by_contact, by_name = self._users
        if not is_foreign and integer_id(text) in ids:
            return integer_id(text)
        if id := by_contact.get(text.lower()) or by_contact.get(users.reach_of(text)):
            return id
        return require_one(by_name.get(fold(text), []), "user", text, column)

    def name_of(self, id: int) -> str:
        """Return the text for a user in files, by which another tenant finds the same person."""
        name, email, phone = one_row('SELECT name, email, phone FROM "user" WHERE id = ?', (id,))
        return name_for_file(id, [email, phone, name], lambda text: self.find(text, ""))


class ImportableRecord(ImportableResource):
    """A resource whose files name users and other records as its model declares them."""

    @cached_property
    def _references(self) -> dict[str, str]:
        """{column: table of the record that it names}."""
        own_fields = {one.name: one.custom for one in self.custom_columns if one.custom}
        fields = [*declared(self.record).items(), *own_fields.items()]
        return {name: field.references for name, field in fields if field.csv and field.references}

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        name_of = references.lookup(UserLookup).name_of
        return {
            name: name_of if table == "user" else partial(references.text_of, table)
            for name, table in self._references.items()
            if table == "user" or name.startswith(PREFIX)
        }

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        for name, table in self._references.items():
            if table == "user":
                resolve_user(values, name, source, references)
            elif name.startswith(PREFIX):
                if text := values.pop(name, None):
                    find = partial(references.find_named, table, source, name)
                    values[name] = references.resolve(name, text, find)
            elif (id := references.find_record(table, values, source)) is not None:
                values[name] = id
        return values


def resolve_user(
    values: dict[str, Any], column: str, source: str | None, references: References
) -> None:
    """Put the id of the user in place of the text of a column, if it has one; raises Invalid."""
    if (text := values.pop(column, None)) is None:
        return
    lookup, is_mapped = references.lookup(UserLookup), references.options.mapping is not None

    def find(text: str) -> int:
        named = NAME_AND_EMAIL.fullmatch(text) if is_mapped else None
        return lookup.find(named[2] if named else text, column, source is not None)

    create = None if column.startswith(PREFIX) else _create_colleague
    id = references.resolve(column, text, find, create, within="user")
    if id is not None:
        values[column] = id


def _create_colleague(text: str) -> int:
    """Add a user who can only be named as responsible, until an owner activates the account."""
    named = NAME_AND_EMAIL.fullmatch(text)
    email = named[2] if named else text if "@" in text else ""
    name = named[1] if named else text.partition("@")[0]
    sent = {"name": name, **({"email": email} if email else {})}
    return users.create(users.USER_IN.parse(sent) | {"active": 0}).id
