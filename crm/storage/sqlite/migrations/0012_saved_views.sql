-- Saved views of lists, and what more lists are filtered by.

CREATE TABLE saved_view (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES user (id),
    resource   TEXT NOT NULL, -- plural, as in paths
    name       TEXT NOT NULL,
    query      TEXT,          -- JSON: {parameter of the list: a text or several}
    columns    TEXT,          -- JSON: the columns shown, null for the usual ones
    shared     INTEGER NOT NULL DEFAULT 0 CHECK (shared IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX saved_view_name ON saved_view (user_id, resource, name);

-- The tags of client_tag are folded; of the records that there are, these come as they were written.

CREATE TABLE lead_tag (
    tag     TEXT NOT NULL,
    lead_id INTEGER NOT NULL REFERENCES lead (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, lead_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX lead_tag_lead ON lead_tag (lead_id);
INSERT INTO lead_tag (tag, lead_id)
    SELECT DISTINCT tag.value, lead.id FROM lead, json_each(lead.tags) AS tag;

CREATE TABLE deal_tag (
    tag     TEXT NOT NULL,
    deal_id INTEGER NOT NULL REFERENCES deal (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, deal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deal_tag_deal ON deal_tag (deal_id);
INSERT INTO deal_tag (tag, deal_id)
    SELECT DISTINCT tag.value, deal.id FROM deal, json_each(deal.tags) AS tag;

CREATE INDEX lead_amount ON lead (coalesce(amount, -1), id,
    status, source, assigned_to, deleted_at);
