"""How records are found by their tags: a table `<noun>_tag` with a folded row for each (D3)."""

from crm.json import loads
from crm.records import fields
from crm.records.conditions import Condition
from crm.records.parameters import Parameter, Query
from crm.storage.session import execute, execute_many
from crm.values import folding


def index(noun: str, id: int, tags: str | None, is_new: bool = False) -> None:
    """Write the rows of a record's tags, which are the JSON text of its column."""
    owner = f"{noun}_id"
    if not is_new:
        execute(f"DELETE FROM {noun}_tag WHERE {owner} = ?", (id,))
    folded = {folding.fold(tag) for tag in loads(tags or "[]")}
    sql = f"INSERT INTO {noun}_tag (tag, {owner}) VALUES (?, ?)"
    execute_many(sql, [(tag, id) for tag in folded])


class Tag(Parameter):
    """Tagged with all of these, in any case.

    noun: the table of the records, whose tags are in `<noun>_tag`, with the primary key
    (tag, <noun>_id).
    """

    repeated = True

    def __init__(self, noun: str):
        super().__init__(fields.Text(64), f"{noun}.id", "All of these, in any case.")
        self.table, self.owner = f"{noun}_tag", f"{noun}_id"

    def apply(self, sent: list[str], query: Query) -> None:
        for text in sent:
            query.conditions.append(self.condition([text], self.column))

    def condition(self, sent: list[str], column: str) -> Condition:
        tagged = f"FROM {self.table} WHERE tag = ?"
        ids = f"SELECT {self.owner} AS id {tagged}"
        params = [folding.fold(self.inner.read(sent[0]))]
        for_all = Condition(f"{column} IN ({ids})", params, ids)
        exists = f"EXISTS (SELECT 1 {tagged} AND {self.owner} = {column})"
        return Condition(exists, params, ids, reads_row=True, for_all=for_all)
