"""What the audit trail says of a record's deletion: who, and into what it was merged (D6, D17)."""

from crm.errors import NotFound
from crm.json import integer_id
from crm.storage.session import row

# A condition: the audit entry is that of a deletion, which names who deleted the record.
IS_DELETION = """substr(after, 1, 15) = '{"deleted_at":"'"""
# Of such an entry: the id behind the time, of a record that was merged into another; else null.
MERGED_INTO = """nullif(rtrim(substr(after, 53), '"}'), '')"""


def of_deletion(column: str, table: str, id: str = "") -> str:
    """Build an SQL query: a column of the audit entry of a record's last deletion.

    id: an expression, by default the id of the table's row.
    """
    return (
        f"SELECT {column} FROM audit_entry WHERE noun = '{table}' AND record_id ="
        f" {id or f'{table}.id'} AND {IS_DELETION} ORDER BY id DESC LIMIT 1"
    )


def absent(noun: str, id: int | str) -> NotFound:
    """The error of an id without a live record, which names the one that it was merged into."""
    deletion = row(of_deletion(MERGED_INTO, noun, "?"), (integer_id(id),))
    return NotFound(**({"merged_into": deletion[0]} if deletion and deletion[0] else {}))
