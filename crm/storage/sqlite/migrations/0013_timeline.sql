-- Timelines read the newest notes, changes, tasks and moves of a record.

CREATE INDEX note_time ON note (noun, record_id, created_at, id);
CREATE INDEX audit_entry_time ON audit_entry (noun, record_id, at, id);
CREATE INDEX task_lead_time ON task (lead_id, coalesce(completed_at, created_at), id) WHERE lead_id IS NOT NULL;
CREATE INDEX task_client_time ON task (client_id, coalesce(completed_at, created_at), id) WHERE client_id IS NOT NULL;
CREATE INDEX task_deal_time ON task (deal_id, coalesce(completed_at, created_at), id) WHERE deal_id IS NOT NULL;
CREATE INDEX stage_move_time ON stage_move (deal_id, moved_at, id);
DROP INDEX task_lead;
DROP INDEX task_client;
DROP INDEX task_deal;
