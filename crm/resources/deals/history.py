"""The history of a deal: its moves from stage to stage, the first one into where it began (D7)."""

from datetime import datetime

from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.resources.pipelines.record import Stage
from crm.storage import own_rows
from crm.storage.session import current_session, execute, one_row, row

# Whether a stage was left by the deal whose id is added.
LEFT_BY_DEAL = "SELECT 1 FROM stage_move WHERE from_stage_id = ? AND deal_id ="

own_rows.declare_parts("stage_move", "deal")


def add_move(deal_id: int, old_stage: Stage | None, stage: Stage, moved_at: str) -> None:
    """Store a move with the names that the stages have now; inside a transaction."""
    execute(
        "INSERT INTO stage_move (deal_id, from_stage_id, to_stage_id, from_name, to_name,"
        " moved_at, user_id, stayed_seconds, left_again) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            deal_id,
            old_stage and old_stage.id,
            stage.id,
            old_stage and old_stage.name,
            stage.name,
            moved_at,
            current_session().user_id,
            old_stage and _seconds_since_last_move(deal_id, moved_at),
            int(row(f"{LEFT_BY_DEAL} ?", (old_stage and old_stage.id, deal_id)) is not None),
        ),
    )


def _seconds_since_last_move(deal_id: int, moved_at: str) -> int:
    """How long a deal has been in its stage; 0 if it is closed with a time before it came there."""
    sql = "SELECT moved_at FROM stage_move WHERE deal_id = ? ORDER BY id DESC LIMIT 1"
    came_at = datetime.fromisoformat(one_row(sql, (deal_id,))[0])
    return max(0, int((datetime.fromisoformat(moved_at) - came_at).total_seconds()))


def stage_before_closing(deal_id: int) -> int | None:
    """The open stage from which a deal came to the closed one where it is, while it exists."""
    id, type = row(
        "SELECT from_stage_id, type FROM stage_move LEFT JOIN stage ON stage.id = from_stage_id"
        " WHERE deal_id = ? ORDER BY stage_move.id DESC LIMIT 1",
        (deal_id,),
    ) or (None, None)
    return id if type == "open" else None


class StageMoveSchema(RecordSchema):
    """All fields of a move, in the order they are shown."""

    id = fields.Id(dump_only=True)
    from_stage_id = fields.Id(dump_only=True, allow_none=True, about="null for the first move.")
    from_name = fields.Text(255, dump_only=True, allow_none=True)
    to_stage_id = fields.Id(
        dump_only=True, allow_none=True, about="null when it was deleted since."
    )
    to_name = fields.Text(255, dump_only=True)
    moved_at = fields.DateTime(dump_only=True)
    user_id = fields.Id(dump_only=True, allow_none=True)


STAGE_MOVE = RecordView(StageMoveSchema.out("StageMoveOut"), "stage_move", live=False)
