-- Reports: how long calls took, how long deals stood in their stages, and indexes that have all
-- that a report reads of the records of a period.

ALTER TABLE task ADD COLUMN duration_seconds INTEGER;

-- How long the deal had been in from_stage_id when it left it by this move.
ALTER TABLE stage_move ADD COLUMN stayed_seconds INTEGER;
UPDATE stage_move SET stayed_seconds = (
    SELECT CAST(round((julianday(stage_move.moved_at) - julianday(previous.moved_at)) * 86400) AS BIGINT)
    FROM stage_move AS previous
    WHERE previous.deal_id = stage_move.deal_id AND previous.id < stage_move.id
    ORDER BY previous.id DESC LIMIT 1
);
UPDATE stage_move SET stayed_seconds = 0 WHERE stayed_seconds < 0;
DROP INDEX stage_move_deal;
CREATE INDEX stage_move_deal ON stage_move (deal_id, id, from_stage_id, to_stage_id, stayed_seconds);

DROP INDEX deal_created_at;
CREATE INDEX deal_created_at ON deal (created_at, id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at, currency, amount);
DROP INDEX deal_closed;
CREATE INDEX deal_closed ON deal (closed_at, status, currency, amount, assigned_to, pipeline_id,
    source, lost_reason, deleted_at)
    WHERE closed_at IS NOT NULL AND deleted_at IS NULL;
DROP INDEX deal_under_way;
CREATE INDEX deal_under_way ON deal (stage_id, currency, amount, expected_close_date, status,
    assigned_to, pipeline_id, closed_at, deleted_at)
    WHERE closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX task_completed_at ON task (completed_at, type, assigned_to, status, duration_seconds,
    deleted_at)
    WHERE completed_at IS NOT NULL AND deleted_at IS NULL;
