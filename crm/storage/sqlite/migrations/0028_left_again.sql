-- Whether the deal had left from_stage_id before: a report counts each deal once without sorting.
ALTER TABLE stage_move ADD COLUMN left_again INTEGER NOT NULL DEFAULT 0 CHECK (left_again IN (0, 1));
UPDATE stage_move SET left_again = 1 WHERE EXISTS (
    SELECT 1 FROM stage_move AS former
    WHERE former.deal_id = stage_move.deal_id AND former.from_stage_id = stage_move.from_stage_id
        AND former.id < stage_move.id
);
DROP INDEX stage_move_deal;
CREATE INDEX stage_move_deal ON stage_move (deal_id, id, from_stage_id, to_stage_id, stayed_seconds,
    left_again);
