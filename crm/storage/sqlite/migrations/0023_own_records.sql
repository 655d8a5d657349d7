-- The role seller, whose users see their own records only: those assigned to them or made by them.

ALTER TABLE user ADD COLUMN new_role TEXT NOT NULL DEFAULT 'manager'
    CHECK (new_role IN ('owner', 'manager', 'seller', 'viewer'));
UPDATE user SET new_role = role;
ALTER TABLE user DROP COLUMN role;
ALTER TABLE user RENAME COLUMN new_role TO role;

ALTER TABLE tenant ADD COLUMN sellers_see_unassigned INTEGER NOT NULL DEFAULT 0
    CHECK (sellers_see_unassigned IN (0, 1));
ALTER TABLE api_key ADD COLUMN own INTEGER NOT NULL DEFAULT 0 CHECK (own IN (0, 1));

-- Who made a record; leads have it. The first move of a deal is that of whoever made it.
ALTER TABLE client ADD COLUMN created_by INTEGER REFERENCES user (id);
ALTER TABLE deal ADD COLUMN created_by INTEGER REFERENCES user (id);
ALTER TABLE task ADD COLUMN created_by INTEGER REFERENCES user (id);
UPDATE deal SET created_by = (SELECT user_id FROM stage_move
    WHERE stage_move.deal_id = deal.id ORDER BY stage_move.id LIMIT 1);

CREATE INDEX lead_created_by ON lead (created_by) WHERE deleted_at IS NULL;
CREATE INDEX client_created_by ON client (created_by) WHERE deleted_at IS NULL;
CREATE INDEX deal_created_by ON deal (created_by) WHERE deleted_at IS NULL;
CREATE INDEX task_created_by ON task (created_by) WHERE deleted_at IS NULL;
