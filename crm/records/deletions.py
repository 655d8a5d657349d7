"""What the audit trail says of a record's deletion: who, and into what it was merged (D6, D17)."""

from crm.errors import NotFound
from crm.json import integer_id
from crm.records.retention import KEPT_SECONDS
from crm.storage.session import row, time_before

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


def absent(noun: str, id: int | str, unknown: str = "") -> NotFound:
    """The error of an id without a live record.

    It names the record that this one was merged into, or says that it is in the trash.
    unknown: what it says of any other id.
    """
    sql = of_deletion(f"{MERGED_INTO}, at", noun, "?")
    merged_into, at = row(sql, (integer_id(id),), own=True) or (None, "")
    if merged_into:
        error = NotFound(f"the {noun} {id} was merged into {merged_into}", merged_into=merged_into)
        error.id = str(id)
        return error
    if at >= time_before(KEPT_SECONDS):
        return NotFound(f"the {noun} {id} is in the trash: restore it first", in_trash=True)
    return NotFound(unknown or f"there is no {noun} with this id")
