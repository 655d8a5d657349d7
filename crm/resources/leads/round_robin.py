"""Who gets new leads in turn, if the owner has chosen any users for it.

A lead that names nobody goes to the next of them. Imported leads and those with a date of their own
are history, and stay with nobody.
"""

from collections.abc import Iterable

from crm.storage.session import execute, execute_many, row, rows, transaction

NEXT = """
    SELECT user_id FROM lead_turn
    JOIN "user" ON "user".id = user_id AND "user".active = 1 AND "user".role <> 'viewer'
    ORDER BY turn, user_id LIMIT 1
"""


def list_users() -> list[int]:
    """Return the ids of the chosen users."""
    return [id for (id,) in rows("SELECT user_id FROM lead_turn ORDER BY user_id")]


def choose_users(ids: Iterable[int]) -> None:
    """Let these users get new leads in turn; those who did before keep their turn."""
    before, chosen = {*list_users()}, {*ids}
    with transaction():
        gone = [(id,) for id in before - chosen]
        execute_many("DELETE FROM lead_turn WHERE user_id = ?", gone)
        for id in sorted(chosen - before):
            execute('INSERT INTO lead_turn (user_id) SELECT id FROM "user" WHERE id = ?', (id,))


def take_turn() -> int | None:
    """Return whose turn it is, None if nobody is chosen, and move on; inside a transaction."""
    if (found := row(NEXT)) is None:
        return None
    last = "(SELECT max(turn) FROM lead_turn)"
    execute(f"UPDATE lead_turn SET turn = {last} + 1 WHERE user_id = ?", found)
    return found[0]
