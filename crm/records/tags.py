"""How records are found by their tags: a table `<noun>_tag` with a folded row for each (D3)."""

from crm.json import loads
from crm.records import fields, search
from crm.records.conditions import Condition
from crm.records.parameters import Parameter, Query
from crm.storage.session import execute, execute_many, rows


def index(noun: str, id: int, tags: str | None) -> None:
    """Write the rows of a record's tags, which are the JSON text of its column."""
    owner = f"{noun}_id"
    execute(f"DELETE FROM {noun}_tag WHERE {owner} = ?", (id,))
    folded = {search.fold(tag) for tag in loads(tags or "[]")}
    sql = f"INSERT INTO {noun}_tag (tag, {owner}) VALUES (?, ?)"
    execute_many(sql, [(tag, id) for tag in folded])


def of_live_records(noun: str, limit: int) -> list[str]:
    """The different tags of live records, in order."""
    tags = rows(
        f"SELECT DISTINCT tag FROM {noun}_tag JOIN {noun} ON {noun}.id = {noun}_tag.{noun}_id"
        f" WHERE {noun}.deleted_at IS NULL ORDER BY tag LIMIT ?",
        (limit,),
    )
    return [tag for (tag,) in tags]


class Tag(Parameter):
    """Tagged with all of these, in any case.

    noun: the table of the records, whose tags are in `<noun>_tag`, with the primary key
    (tag, <noun>_id). has_unfolded: whether older rows there have tags as they were written.
    """

    repeated = True

    def __init__(self, noun: str, has_unfolded: bool = True):
        super().__init__(fields.Text(64), f"{noun}.id", "All of these, in any case.")
        self.table, self.owner, self.has_unfolded = f"{noun}_tag", f"{noun}_id", has_unfolded

    def apply(self, sent: list[str], query: Query) -> None:
        for text in sent:
            query.conditions.append(self.condition([text], self.column))

    def condition(self, sent: list[str], column: str) -> Condition:
        tag = search.fold(self.inner.read(sent[0]))
        known = _list_every(self.table) if self.has_unfolded else []
        spellings = [text for text in known if search.fold(text) == tag] or [tag]
        tagged = f"FROM {self.table} WHERE tag IN ({', '.join('?' * len(spellings))})"
        return Condition(
            f"EXISTS (SELECT 1 {tagged} AND {self.owner} = {column})",
            spellings,
            f"SELECT {self.owner} AS id {tagged}",
            reads_row=True,
        )


def _list_every(table: str) -> list[str]:
    """The different tags of a table of tags, each found in its index from the one before."""
    following = f"SELECT min(tag) AS tag FROM {table} WHERE tag >"
    return [
        tag
        for (tag,) in rows(
            f"WITH RECURSIVE known (tag) AS ({following} '' UNION ALL"
            f" SELECT ({following} known.tag) FROM known WHERE known.tag IS NOT NULL)"
            " SELECT tag FROM known WHERE tag IS NOT NULL"
        )
    ]
