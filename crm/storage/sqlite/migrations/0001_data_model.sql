-- The whole data model on a page: one tenant's file.
--
-- Times are RFC 3339 UTC texts to the second, dates YYYY-MM-DD (D2). Money is an integer number of
-- 1/10 000, a quantity of 1/1 000. Objects and lists are JSON texts. Deleted rows keep `deleted_at`.
-- `folded` is what `q` searches: the row's texts, case-folded by search.py; null when deleted.

CREATE TABLE tenant (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    name         TEXT NOT NULL,
    plan         TEXT NOT NULL CHECK (plan IN ('start', 'base', 'pro', 'business')),
    currency     TEXT NOT NULL DEFAULT 'UAH',
    time_zone    TEXT NOT NULL DEFAULT 'Europe/Kyiv',
    created_at   TEXT NOT NULL,
    suspended_at TEXT,
    tidied_at    TEXT NOT NULL
) STRICT;

CREATE TABLE user (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    email      TEXT COLLATE NOCASE,
    phone      TEXT,
    role       TEXT NOT NULL CHECK (role IN ('owner', 'manager', 'viewer')),
    active     INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX user_email ON user (email) WHERE email IS NOT NULL;
CREATE UNIQUE INDEX user_phone ON user (phone) WHERE phone IS NOT NULL;

CREATE TABLE api_key (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL,
    hash         BLOB NOT NULL UNIQUE,
    hint         TEXT NOT NULL,
    scopes       TEXT NOT NULL,
    origins      TEXT NOT NULL DEFAULT '',
    user_id      INTEGER NOT NULL REFERENCES user (id),
    created_at   TEXT NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT,
    revoked_at   TEXT
) STRICT;

CREATE TABLE pipeline (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    is_default INTEGER NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    position   INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX pipeline_default ON pipeline (is_default) WHERE is_default;

CREATE TABLE stage (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline_id INTEGER NOT NULL REFERENCES pipeline (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    type        TEXT NOT NULL CHECK (type IN ('open', 'won', 'lost')),
    position    INTEGER NOT NULL,
    probability INTEGER CHECK (probability BETWEEN 0 AND 100),
    color       TEXT,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    version     INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX stage_pipeline ON stage (pipeline_id, position, id);

CREATE TABLE lead (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL,
    phone        TEXT,
    email        TEXT COLLATE NOCASE,
    company      TEXT,
    position     TEXT,
    source       TEXT,
    status       TEXT NOT NULL
        CHECK (status IN ('new', 'in_progress', 'qualified', 'unqualified', 'converted')),
    assigned_to  INTEGER REFERENCES user (id),
    comment      TEXT,
    amount       INTEGER CHECK (amount >= 0),
    currency     TEXT NOT NULL,
    tags         TEXT,
    utm_source   TEXT,
    utm_medium   TEXT,
    utm_campaign TEXT,
    utm_content  TEXT,
    utm_term     TEXT,
    page_url     TEXT,
    referrer     TEXT,
    lost_reason  TEXT,
    client_id    INTEGER REFERENCES client (id),
    deal_id      INTEGER REFERENCES deal (id),
    converted_at TEXT,
    created_by   INTEGER REFERENCES user (id),
    external_id  TEXT,
    extra        TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    version      INTEGER NOT NULL DEFAULT 1,
    deleted_at   TEXT,
    folded       TEXT,
    CHECK (phone IS NOT NULL OR email IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX lead_external_id ON lead (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX lead_status ON lead (status, id) WHERE deleted_at IS NULL;
CREATE INDEX lead_source ON lead (source, id) WHERE deleted_at IS NULL;
CREATE INDEX lead_assigned_to ON lead (assigned_to, id) WHERE deleted_at IS NULL;
CREATE INDEX lead_phone ON lead (phone) WHERE phone IS NOT NULL;
CREATE INDEX lead_email ON lead (email) WHERE email IS NOT NULL;
CREATE INDEX lead_name ON lead (name, id) WHERE deleted_at IS NULL;
CREATE INDEX lead_created_at ON lead (created_at, id);
CREATE INDEX lead_updated_at ON lead (updated_at, id);
CREATE INDEX lead_deleted_at ON lead (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX lead_client ON lead (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX lead_deal ON lead (deal_id) WHERE deal_id IS NOT NULL;

CREATE TABLE client (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    type        TEXT NOT NULL CHECK (type IN ('company', 'person')),
    name        TEXT NOT NULL,
    phone       TEXT,
    email       TEXT COLLATE NOCASE,
    website     TEXT,
    address     TEXT,
    tax_number  TEXT,
    tags        TEXT,
    assigned_to INTEGER REFERENCES user (id),
    source      TEXT,
    comment     TEXT,
    external_id TEXT,
    extra       TEXT,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    version     INTEGER NOT NULL DEFAULT 1,
    deleted_at  TEXT,
    folded      TEXT
) STRICT;
CREATE UNIQUE INDEX client_external_id ON client (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX client_type ON client (type, id) WHERE deleted_at IS NULL;
CREATE INDEX client_assigned_to ON client (assigned_to, id) WHERE deleted_at IS NULL;
CREATE INDEX client_phone ON client (phone) WHERE phone IS NOT NULL;
CREATE INDEX client_email ON client (email) WHERE email IS NOT NULL;
CREATE INDEX client_name ON client (name, id) WHERE deleted_at IS NULL;
CREATE INDEX client_created_at ON client (created_at, id);
CREATE INDEX client_updated_at ON client (updated_at, id);

CREATE TABLE client_tag (
    tag       TEXT NOT NULL, -- case-folded
    client_id INTEGER NOT NULL REFERENCES client (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, client_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX client_tag_client ON client_tag (client_id);

CREATE TABLE contact (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id  INTEGER NOT NULL REFERENCES client (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    position   TEXT,
    phone      TEXT,
    email      TEXT COLLATE NOCASE,
    is_primary INTEGER NOT NULL DEFAULT 0 CHECK (is_primary IN (0, 1)),
    comment    TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX contact_client ON contact (client_id, id);
CREATE UNIQUE INDEX contact_primary ON contact (client_id) WHERE is_primary;
CREATE INDEX contact_phone ON contact (phone) WHERE phone IS NOT NULL;
CREATE INDEX contact_email ON contact (email) WHERE email IS NOT NULL;

CREATE TABLE deal (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    title               TEXT NOT NULL,
    client_id           INTEGER REFERENCES client (id),
    client_name         TEXT, -- copied: it outlives the client
    contact_id          INTEGER REFERENCES contact (id) ON DELETE SET NULL,
    lead_id             INTEGER REFERENCES lead (id) ON DELETE SET NULL,
    pipeline_id         INTEGER NOT NULL REFERENCES pipeline (id),
    stage_id            INTEGER NOT NULL REFERENCES stage (id),
    status              TEXT NOT NULL CHECK (status IN ('open', 'won', 'lost')),
    amount              INTEGER CHECK (amount >= 0),
    amount_mode         TEXT NOT NULL CHECK (amount_mode IN ('manual', 'items')),
    currency            TEXT NOT NULL,
    assigned_to         INTEGER REFERENCES user (id),
    expected_close_date TEXT,
    source              TEXT,
    tags                TEXT,
    comment             TEXT,
    lost_reason         TEXT,
    stage_changed_at    TEXT NOT NULL,
    closed_at           TEXT,
    external_id         TEXT,
    extra               TEXT,
    created_at          TEXT NOT NULL,
    updated_at          TEXT NOT NULL,
    version             INTEGER NOT NULL DEFAULT 1,
    deleted_at          TEXT,
    folded              TEXT,
    CHECK ((status = 'open') = (closed_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX deal_external_id ON deal (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX deal_pipeline ON deal (pipeline_id, id) WHERE deleted_at IS NULL;
CREATE INDEX deal_stage ON deal (stage_id, id) WHERE deleted_at IS NULL;
CREATE INDEX deal_status ON deal (status, id) WHERE deleted_at IS NULL;
CREATE INDEX deal_assigned_to ON deal (assigned_to, id) WHERE deleted_at IS NULL;
CREATE INDEX deal_client ON deal (client_id, status, currency, amount) WHERE deleted_at IS NULL;
CREATE INDEX deal_contact ON deal (contact_id) WHERE contact_id IS NOT NULL;
CREATE INDEX deal_lead ON deal (lead_id) WHERE lead_id IS NOT NULL;
CREATE INDEX deal_amount ON deal (coalesce(amount, -1), id);
CREATE INDEX deal_expected ON deal (coalesce(expected_close_date, '9999'), id);
CREATE INDEX deal_created_at ON deal (created_at, id);
CREATE INDEX deal_updated_at ON deal (updated_at, id);

CREATE TABLE stage_move (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    deal_id       INTEGER NOT NULL REFERENCES deal (id) ON DELETE CASCADE,
    from_stage_id INTEGER REFERENCES stage (id) ON DELETE SET NULL,
    to_stage_id   INTEGER REFERENCES stage (id) ON DELETE SET NULL,
    from_name     TEXT,
    to_name       TEXT NOT NULL,
    moved_at      TEXT NOT NULL,
    user_id       INTEGER REFERENCES user (id)
) STRICT;
CREATE INDEX stage_move_deal ON stage_move (deal_id, id);

CREATE TABLE product (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sku         TEXT,
    name        TEXT NOT NULL,
    price       INTEGER NOT NULL CHECK (price >= 0),
    currency    TEXT NOT NULL,
    unit        TEXT,
    category    TEXT,
    description TEXT,
    active      INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    external_id TEXT,
    extra       TEXT,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    version     INTEGER NOT NULL DEFAULT 1,
    deleted_at  TEXT,
    folded      TEXT
) STRICT;
CREATE UNIQUE INDEX product_sku ON product (sku) WHERE sku IS NOT NULL AND deleted_at IS NULL;
CREATE UNIQUE INDEX product_external_id ON product (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX product_name ON product (name, id) WHERE deleted_at IS NULL;
CREATE INDEX product_category ON product (category, name, id) WHERE deleted_at IS NULL;
CREATE INDEX product_updated_at ON product (updated_at, id);
CREATE INDEX product_deleted_at ON product (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE deal_item (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    deal_id         INTEGER NOT NULL REFERENCES deal (id) ON DELETE CASCADE,
    product_id      INTEGER REFERENCES product (id),
    sku             TEXT,
    name            TEXT NOT NULL,
    unit            TEXT,
    quantity        INTEGER NOT NULL CHECK (quantity > 0),
    price           INTEGER NOT NULL CHECK (price >= 0),
    discount        INTEGER NOT NULL DEFAULT 0 CHECK (discount >= 0),
    discount_type   TEXT NOT NULL CHECK (discount_type IN ('percent', 'amount')),
    subtotal        INTEGER NOT NULL,
    discount_amount INTEGER NOT NULL,
    total           INTEGER NOT NULL CHECK (total = subtotal - discount_amount),
    position        INTEGER NOT NULL,
    comment         TEXT,
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL,
    version         INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX deal_item_deal ON deal_item (deal_id, position, id);
CREATE INDEX deal_item_product ON deal_item (product_id) WHERE product_id IS NOT NULL;

CREATE TABLE price_import (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    file_name  TEXT,
    encoding   TEXT NOT NULL,
    delimiter  TEXT NOT NULL,
    rows       INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    unchanged  INTEGER NOT NULL,
    rejected   INTEGER NOT NULL,
    errors     TEXT NOT NULL, -- JSON, the first 1000: [{line, column, code, message}]
    rejects    BLOB,          -- the rejected rows as CSV, for repair
    user_id    INTEGER REFERENCES user (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE task (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    title        TEXT NOT NULL,
    type         TEXT CHECK (type IN ('call', 'meeting', 'email')),
    status       TEXT NOT NULL CHECK (status IN ('open', 'in_progress', 'done', 'cancelled')),
    priority     TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
    assigned_to  INTEGER REFERENCES user (id),
    due_at       TEXT,
    lead_id      INTEGER REFERENCES lead (id) ON DELETE SET NULL,
    client_id    INTEGER REFERENCES client (id),
    deal_id      INTEGER REFERENCES deal (id),
    description  TEXT,
    result       TEXT,
    completed_at TEXT,
    external_id  TEXT,
    extra        TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    version      INTEGER NOT NULL DEFAULT 1,
    deleted_at   TEXT,
    folded       TEXT
) STRICT;
CREATE UNIQUE INDEX task_external_id ON task (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX task_assigned_to ON task (assigned_to, status, id) WHERE deleted_at IS NULL;
CREATE INDEX task_status ON task (status, id) WHERE deleted_at IS NULL;
CREATE INDEX task_type ON task (type, id) WHERE deleted_at IS NULL;
CREATE INDEX task_due ON task (coalesce(due_at, '9999'), id) WHERE deleted_at IS NULL;
CREATE INDEX task_lead ON task (lead_id) WHERE lead_id IS NOT NULL;
CREATE INDEX task_client ON task (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX task_deal ON task (deal_id) WHERE deal_id IS NOT NULL;
CREATE INDEX task_created_at ON task (created_at, id);
CREATE INDEX task_updated_at ON task (updated_at, id);
CREATE INDEX task_deleted_at ON task (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE note (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    noun       TEXT NOT NULL CHECK (noun IN ('lead', 'client', 'deal')),
    record_id  INTEGER NOT NULL,
    text       TEXT NOT NULL,
    user_id    INTEGER REFERENCES user (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX note_record ON note (noun, record_id, id);

-- Every change after creation: what it was, what it became, by whom (D17).
CREATE TABLE change (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    noun      TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    at        TEXT NOT NULL,
    user_id   INTEGER REFERENCES user (id),
    key_id    INTEGER REFERENCES api_key (id),
    before    TEXT NOT NULL,
    after     TEXT NOT NULL
) STRICT;
CREATE INDEX change_record ON change (noun, record_id, id);

-- The outbox: written in the transaction of the change it tells of (D15).
CREATE TABLE event (
    sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL, -- random, not an index of its own: it is looked for by sequence
    type      TEXT NOT NULL,
    at        TEXT NOT NULL,
    noun      TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    data      TEXT NOT NULL,
    previous  TEXT NOT NULL
) STRICT;

-- Answers kept for 24 hours, in the transaction of the change (D4).
CREATE TABLE answer (
    key         TEXT NOT NULL,
    method      TEXT NOT NULL,
    path        TEXT NOT NULL,
    user_key_id INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    status      INTEGER NOT NULL,
    headers     TEXT NOT NULL,
    body        BLOB NOT NULL,
    created_at  TEXT NOT NULL,
    PRIMARY KEY (key, method, path, user_key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_created_at ON answer (created_at);

-- Trigram indexes of `folded`; search.py keeps them and says why they are made so.

CREATE VIRTUAL TABLE lead_search USING fts5 (folded, content = 'lead', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
CREATE VIRTUAL TABLE client_search USING fts5 (folded, content = 'client', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
CREATE VIRTUAL TABLE deal_search USING fts5 (folded, content = 'deal', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
CREATE VIRTUAL TABLE product_search USING fts5 (folded, content = 'product', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
CREATE VIRTUAL TABLE task_search USING fts5 (folded, content = 'task', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
