"""How files name users: by id, e-mail, phone, or exact name in any letter case."""

from collections import defaultdict
from functools import cached_property
from typing import Any

from crm.records.search import fold
from crm.resources import users
from crm.spreadsheets.csv_columns import Column, reference_column
from crm.spreadsheets.references import References, name_for_file, require_one
from crm.tenancy.database import one_row, rows
from crm.values.ids import integer_id


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


def user_column(name: str, sql: str) -> Column:
    """A column that names a user."""
    return reference_column(name, sql, shows="users")


def resolve_user(
    values: dict[str, Any], column: str, source: str | None, references: References
) -> None:
    """Put the id of the user in place of the text of a column, if it has one; raises Invalid."""
    if (text := values.get(column)) is not None:
        is_foreign = source is not None
        values[column] = references.lookup(UserLookup).find(text, column, is_foreign)
