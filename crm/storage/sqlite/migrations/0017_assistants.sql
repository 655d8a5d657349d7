-- Keys of assistants, the tool by which an assistant changed a record, and proposals: changes of
-- several records that wait for a person's decision.

ALTER TABLE api_key ADD COLUMN preset TEXT CHECK (preset IN ('assistant'));
ALTER TABLE audit_entry ADD COLUMN tool TEXT;

CREATE TABLE proposal (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    resource   TEXT NOT NULL, -- plural, as in paths
    state      TEXT NOT NULL CHECK (state IN ('open', 'applied', 'declined')),
    change     TEXT NOT NULL, -- JSON: the body of a bulk change
    why        TEXT NOT NULL,
    count      INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    user_id    INTEGER REFERENCES user (id),
    key_id     INTEGER REFERENCES api_key (id),
    decided_by INTEGER REFERENCES user (id),
    decided_at TEXT,
    batch_id   INTEGER REFERENCES batch (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX proposal_state ON proposal (state, id);
