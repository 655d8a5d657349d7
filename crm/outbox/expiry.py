"""Deletion of expired events, test deliveries and webhook secrets (D15)."""

from crm.records.retention import expired_before
from crm.storage import sweeps
from crm.storage.clocks import erasing_before, steady_now
from crm.storage.session import execute, execute_many, rows

# Makes the next pending delivery of a record to an endpoint due, when the one before it has gone.
MAKE_NEXT_DUE = """
    UPDATE delivery SET due_at = ? WHERE due_at IS NULL AND id = (
        SELECT id FROM delivery WHERE webhook_id = ? AND noun = ? AND record_id = ?
            AND status = 'pending' ORDER BY sequence LIMIT 1)
"""


@sweeps.register
def delete_events(max_rows: int) -> int:
    """Delete expired events with their deliveries."""
    # Only the oldest are looked at, so that no index of times is needed.
    oldest = "SELECT sequence, at FROM event ORDER BY sequence LIMIT ?"
    expired = f"(SELECT sequence FROM ({oldest}) AS oldest WHERE at < ?)"
    params = (max_rows, expired_before())
    pending = rows(
        "SELECT DISTINCT webhook_id, noun, record_id FROM delivery"
        f" WHERE status = 'pending' AND sequence IN {expired}",
        params,
    )
    count = execute(f"DELETE FROM event WHERE sequence IN {expired}", params).rowcount
    execute_many(MAKE_NEXT_DUE, [(steady_now(), *delivery) for delivery in pending])
    return count


@sweeps.register
def delete_test_deliveries(max_rows: int) -> int:
    """Delete expired deliveries of test events, which belong to no event."""
    return execute(
        "DELETE FROM delivery WHERE id IN"
        " (SELECT id FROM delivery WHERE sequence IS NULL AND created_at < ? LIMIT ?)",
        (expired_before(), max_rows),
    ).rowcount


@sweeps.register
def delete_old_secrets(_: int) -> int:
    """Delete rotated secrets whose time of grace is over."""
    execute(
        "UPDATE webhook SET old_secret = NULL, old_secret_until = NULL WHERE old_secret_until < ?",
        (erasing_before(0),),
    )
    return 0
