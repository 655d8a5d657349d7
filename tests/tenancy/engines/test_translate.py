"""The translation of statements from canonical SQL to PostgreSQL's, rule by rule."""

import pytest

from crm.storage.postgres.sql_tokens import TranslationError
from crm.storage.postgres.translate import translate, translate_insert
from tests.tenancy.engines import translate_migrations
from tests.tenancy.engines.translate_migrations import translate_migration, translate_step

TRANSLATIONS = {
    "parameters get numbers": (
        "SELECT id FROM lead WHERE name = ? AND source = ?",
        "SELECT id FROM lead WHERE name = $1 AND source = $2",
    ),
    "a numbered parameter keeps its number, and the next one is higher": (
        "SELECT id FROM lead WHERE name = ?2 AND source = ?1 AND status = ?",
        "SELECT id FROM lead WHERE name = $2 AND source = $1 AND status = $3",
    ),
    "texts and quoted names stay as they are": (
        """SELECT 'a ? -- '' user', "user"."id" FROM "user" WHERE name <> '?'""",
        """SELECT 'a ? -- '' user', "user"."id" FROM "user" WHERE name <> '?'""",
    ),
    "comments are left out": (
        "SELECT id -- of a lead: ?\nFROM lead /* all */ WHERE id = ?",
        "SELECT id FROM lead WHERE id = $1",
    ),
    "the table user is quoted": (
        "SELECT user.id FROM user JOIN session ON session.user_id = user.id",
        'SELECT "user".id FROM "user" JOIN session ON session.user_id = "user".id',
    ),
    "advice on indexes is left out": (
        "SELECT id FROM lead INDEXED BY lead_name WHERE (+status) = ? AND name <> ' NOT INDEXED'",
        "SELECT id FROM lead WHERE (status) = $1 AND name <> ' NOT INDEXED'",
    ),
    "advice against indexes is left out": (
        "SELECT id FROM lead NOT INDEXED WHERE (+(status = ?)) AND id IN (+lead.id)",
        "SELECT id FROM lead WHERE ((status = $1)) AND id IN (lead.id)",
    ),
    "sums and differences stay": (
        "UPDATE lead SET version = version + 1, amount = amount - ? WHERE id = -1",
        "UPDATE lead SET version = version + 1, amount = amount - $1 WHERE id = -1",
    ),
    "IS compares with NULL and truth": (
        "SELECT d IS NULL, e IS NOT NULL, f IS TRUE FROM t",
        "SELECT d IS NULL, e IS NOT NULL, f IS TRUE FROM t",
    ),
    "instr": (
        "SELECT id FROM lead WHERE instr(lead.search_text, ?) > 0",
        "SELECT id FROM lead WHERE strpos(lead.search_text, $1) > 0",
    ),
    "days between times": (
        "SELECT round((julianday(a) - julianday(t.b)) * 86400) FROM t",
        "SELECT round(((extract(epoch FROM CAST(a AS timestamptz)) / 86400.0)"
        " - (extract(epoch FROM CAST(t.b AS timestamptz)) / 86400.0)) * 86400) FROM t",
    ),
    "types of CAST": (
        "SELECT CAST(id AS TEXT), CAST(? AS BIGINT), CAST(coalesce(a, b) AS TEXT) FROM t",
        "SELECT CAST(id AS TEXT), CAST($1 AS BIGINT), CAST(coalesce(a, b) AS TEXT) FROM t",
    ),
    "an object as JSON": (
        "SELECT (SELECT json_object('id', id, 'name', coalesce(name, '')) FROM t)",
        "SELECT (SELECT json_build_object('id', id, 'name', coalesce(name, '')) FROM t)",
    ),
    "rows as JSON, an empty list without any": (
        "SELECT json_group_array(json_object('id', id)) FROM (SELECT id FROM t) AS part",
        "SELECT coalesce(json_agg(json_build_object('id', id))::text, '[]')"
        " FROM (SELECT id FROM t) AS part",
    ),
    "values of a JSON array": (
        "DELETE FROM note WHERE noun = ? AND id IN (SELECT CAST(value AS BIGINT) FROM"
        " json_each(?))",
        "DELETE FROM note WHERE noun = $1 AND id = ANY (ARRAY(SELECT CAST(value AS BIGINT)"
        " FROM json_array_elements_text(CAST($2 AS JSON)) AS t (value)))",
    ),
    "none of the values of a JSON array": (
        "SELECT sku FROM product WHERE sku NOT IN (SELECT CAST(value AS TEXT) FROM json_each(?))",
        "SELECT sku FROM product WHERE sku <> ALL (ARRAY(SELECT CAST(value AS TEXT)"
        " FROM json_array_elements_text(CAST($1 AS JSON)) AS t (value)))",
    ),
    "an e-mail address is compared without letter case": (
        "SELECT email FROM client WHERE email = ? AND client.email <> email",
        'SELECT email FROM client WHERE lower(email) = lower(CAST($1 AS TEXT) COLLATE "C")'
        " AND lower(client.email) <> lower(email)",
    ),
    "an e-mail address in a list": (
        "SELECT 1 FROM t WHERE t.email IN (?, ?) OR email NOT IN (SELECT a.email UNION SELECT email"
        " FROM b)",
        'SELECT 1 FROM t WHERE lower(t.email) IN (lower(CAST($1 AS TEXT) COLLATE "C"),'
        ' lower(CAST($2 AS TEXT) COLLATE "C")) OR lower(email) NOT IN (SELECT lower(a.email)'
        " UNION SELECT lower(email) FROM b)",
    ),
    "an e-mail address is assigned as it is": (
        "UPDATE t SET email = ?, a = (SELECT 1 FROM b WHERE email = ?) WHERE email = ?",
        "UPDATE t SET email = $1, a = (SELECT 1 FROM b WHERE lower(email) ="
        ' lower(CAST($2 AS TEXT) COLLATE "C")) WHERE lower(email) ='
        ' lower(CAST($3 AS TEXT) COLLATE "C")',
    ),
    "a list of a statement of its own": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO t(a) SELECT i FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)"
        " INSERT INTO t(a) SELECT i FROM n",
    ),
    "what both have": (
        "INSERT INTO t (a) VALUES (?) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a",
    ),
    "filtered aggregates": (
        "SELECT count(*) FILTER (WHERE a > ?), count(DISTINCT b) FROM t",
        "SELECT count(*) FILTER (WHERE a > $1), count(DISTINCT b) FROM t",
    ),
    "upkeep of a full-text index": (
        "INSERT INTO lead_search (rowid, search_text) VALUES (?, ?)",
        "",
    ),
}
REFUSED = (
    "SELECT a IS ? FROM t",
    "SELECT b IS NOT c FROM t",
    "SELECT a IS NOT DISTINCT FROM email FROM t",
    "SELECT a == b FROM t",
    "SELECT x'00ff' FROM t",
    "SELECT min(a, ?) FROM t",
    "SELECT a+b FROM t",
    "SELECT +a FROM t",
    "SELECT a +b FROM t",
    "SELECT CAST(a AS INTEGER) FROM t",
    "SELECT a FROM t WHERE a = ? COLLATE NOCASE",
    "SELECT id FROM lead WHERE ? = email",
    "SELECT id FROM lead WHERE email > ?",
    "SELECT id FROM lead WHERE email BETWEEN ? AND ?",
    "SELECT id FROM lead WHERE lead.email IS NOT ?",
    "SELECT email, count(*) FROM lead GROUP BY email",
    "SELECT id FROM lead ORDER BY lead.email, id",
    "SELECT DISTINCT email FROM lead",
    "SELECT count(DISTINCT email) FROM lead",
    "",
    "PRAGMA user_version",
    "BEGIN IMMEDIATE",
    "REPLACE INTO t (a) VALUES (?)",
    "INSERT OR IGNORE INTO t (a) VALUES (?)",
    "SELECT rowid FROM t",
    "SELECT a FROM t WHERE a LIKE ?",
    "SELECT a FROM t WHERE a GLOB ?",
    "SELECT a FROM t WHERE t MATCH ?",
    "SELECT a FROM t WHERE a NOTNULL",
    "SELECT name FROM sqlite_schema",
    "SELECT strftime('%Y', a) FROM t",
    "SELECT group_concat(a) FROM t",
    "SELECT lower(a) FROM t",
    "SELECT lower(hex(randomblob(16))) FROM t",
    "SELECT CAST(a AS NUMERIC) FROM t",
    "SELECT a FROM t WHERE a = ? COLLATE RTRIM",
    "SELECT a FROM t LIMIT -1",
    "SELECT a FROM t WHERE a IN (SELECT value FROM json_each(?))",
    "SELECT value FROM json_each(?)",
    "SELECT a -> 'b' FROM t",
    "SELECT [a] FROM t",
    "SELECT `a` FROM t",
    "SELECT 0x10",
    "SELECT :name",
    "SELECT 'a",
    "SELECT coalesce(a, b FROM t",
)
REFUSED_MIGRATIONS = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY)",
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a ANY) STRICT",
    "CREATE TABLE t (a INTEGER GENERATED ALWAYS AS (1)) STRICT",
    "CREATE TABLE t (a INTEGER REFERENCES u (id) ON DELETE RESTRICT) STRICT",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TABLE IF NOT EXISTS t (a INTEGER) STRICT",
    "CREATE VIEW v AS SELECT 1",
    "CREATE VIRTUAL TABLE t_search USING fts5 (a, content = 't', content_rowid = 'id')",
    "CREATE TRIGGER t_a AFTER UPDATE ON t BEGIN UPDATE t SET a = 1; END",
    "CREATE INDEX IF NOT EXISTS t_a ON t (a)",
    "ALTER TABLE t RENAME a TO b",
    "DROP TABLE IF EXISTS t",
    "VACUUM",
)


@pytest.mark.parametrize("claim", TRANSLATIONS)
def test_statement_is_translated(claim: str) -> None:
    sql, expected = TRANSLATIONS[claim]
    assert translate(sql) == expected


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_unknown_is_refused(sql: str) -> None:
    with pytest.raises(TranslationError):
        translate(sql)


@pytest.mark.parametrize("sql", REFUSED_MIGRATIONS)
def test_unknown_migration_is_refused(sql: str) -> None:
    with pytest.raises(TranslationError):
        translate_migration(sql)


def test_insert_returns_the_id() -> None:
    sql = "INSERT INTO note (text) VALUES (?)"
    assert translate_insert(sql) == "INSERT INTO note (text) VALUES ($1) RETURNING id"


def test_insert_of_an_event_returns_its_sequence() -> None:
    sql = 'INSERT INTO "event" (id) VALUES (?)'
    assert translate_insert(sql) == 'INSERT INTO "event" (id) VALUES ($1) RETURNING sequence'


def test_only_inserts_return_an_id() -> None:
    with pytest.raises(TranslationError):
        translate_insert("UPDATE note SET text = ?")


def test_foreign_keys_come_last() -> None:
    deal = "CREATE TABLE deal (id INTEGER PRIMARY KEY AUTOINCREMENT) STRICT"
    lead = "CREATE TABLE lead (deal_id INTEGER REFERENCES deal (id) ON DELETE SET NULL) STRICT;"
    assert translate_step([lead, deal]) == [
        "CREATE TABLE lead (\n    deal_id BIGINT\n)",
        "CREATE TABLE deal (\n    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY\n)",
        "ALTER TABLE lead ADD FOREIGN KEY (deal_id) REFERENCES deal (id) ON DELETE SET NULL",
    ]


def test_texts_are_compared_by_bytes_unless_said_otherwise() -> None:
    sql = "CREATE TABLE t (a TEXT NOT NULL DEFAULT 'b c', email TEXT COLLATE NOCASE) STRICT"
    assert translate_migration(sql) == [
        "CREATE TABLE t (\n    a TEXT COLLATE \"C\" NOT NULL DEFAULT 'b c',\n"
        '    email TEXT COLLATE "C"\n)'
    ]
    index = "CREATE INDEX t_email ON t (email, id) WHERE email IS NOT NULL"
    assert translate_migration(index) == [
        "CREATE INDEX t_email ON t (lower(email), id) WHERE email IS NOT NULL"
    ]
    with pytest.raises(TranslationError):
        translate_migration("CREATE TABLE t (a TEXT COLLATE NOCASE) STRICT")


def test_index_of_what_is_marked_names_its_value() -> None:
    sql = "CREATE UNIQUE INDEX first ON contact (client_id) WHERE is_primary;"
    assert translate_migration(sql) == [
        "CREATE UNIQUE INDEX first ON contact (client_id) WHERE is_primary = 1"
    ]


def test_reserved_name_of_an_index_is_quoted() -> None:
    sql = "CREATE INDEX session_user ON session (user_id, id) WHERE ended_at IS NULL"
    assert translate_migration(sql) == [
        'CREATE INDEX "session_user" ON session (user_id, id) WHERE ended_at IS NULL'
    ]


def test_full_text_index_becomes_an_index() -> None:
    sql = (
        "CREATE VIRTUAL TABLE lead_search USING fts5 (folded, content = 'lead', content_rowid ="
        " 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);"
    )
    created = [
        "CREATE INDEX lead_search ON lead USING gin (folded crm.gin_trgm_ops)"
        " WITH (gin_pending_list_limit = 256)"
    ]
    assert translate_migration(sql) == created
    assert translate_migration("DROP TABLE lead_search") == ["DROP INDEX lead_search"]
    assert translate_migration("DROP TABLE lead") == ["DROP TABLE lead"]
    fill = "INSERT INTO lead_search (rowid, folded) SELECT id, folded FROM lead;"
    assert translate_migration(fill) == []


def test_trigger_becomes_a_default() -> None:
    sql = (
        "CREATE TRIGGER t_a AFTER INSERT ON t BEGIN"
        " UPDATE t SET a = lower(hex(randomblob(4))); END;"
    )
    default = "substr(CAST(gen_random_uuid() AS TEXT), 1, 8)"
    assert translate_migration(sql) == [f"ALTER TABLE t ALTER COLUMN a SET DEFAULT {default}"]


def test_every_step_is_translated() -> None:
    """If it is not: `python -m tests.generated`."""
    assert translate_migrations.PATH.read_text("utf-8") == translate_migrations.generate()
