-- Whether a tenant is for trying things out: one of the demo, or a clone. Only there commands may make
-- records that nobody asked for.
ALTER TABLE tenant ADD COLUMN is_trial INTEGER NOT NULL DEFAULT 0 CHECK (is_trial IN (0, 1));
