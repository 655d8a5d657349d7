"""With CRM_DATABASE_ROLES a leak of one tenant's data fails in the server too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crm import CRMApp
from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema
from crm.storage.session import transaction
from crm.storage.sqlite import migrations
from tests.conftest import Api
from tests.database_cases import (
    error_line,
    new_database,
    open_installation,
    open_tenant,
    run_command,
)
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

LEAKS = (
    'SELECT name FROM "t_globex".lead',
    'UPDATE "t_globex".lead SET name = name',
    'DELETE FROM "t_globex".lead',
    'INSERT INTO "t_globex".event_sequence (last) VALUES (1)',
    "SELECT label FROM crm.tenant",
    "SELECT value FROM crm.setting",
    "DELETE FROM crm.directory",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        server.execute("CREATE ROLE owner LOGIN CREATEROLE")  # no superuser, whom nothing is denied
        yield server


@pytest.fixture
def name(server: Postgres) -> str:
    name = new_database(server)
    server.execute(f"ALTER DATABASE {name} OWNER TO owner")
    return name


def address(server: Postgres, name: str) -> str:
    return f"postgresql://owner@127.0.0.1:{server.port}/{name}"


def leak(crm: CRMApp, sql: str) -> str:
    """Execute a statement in a transaction of acme; return its SQLSTATE if it fails."""
    try:
        with crm.tenants.session("acme") as session, transaction():
            session.connection.execute(sql)
    except ServerError as error:
        return error.sqlstate
    return ""


def note_due(crm: CRMApp, label: str, at: float | None) -> str:
    """Note in a transaction of acme when a tenant's deliveries are due; return its SQLSTATE."""
    (database,) = crm.tenants.postgres.directory.databases
    crm.tenants.postgres.directory.prepared(database)
    try:
        with schema.writing(database) as connection:
            connection.run("SELECT crm.use_tenant('acme', $1)", (len(migrations.STEPS),))
            connection.run("SELECT crm.note_due($1, $2)", (label, at))
    except ServerError as error:
        return error.sqlstate
    return ""


def noted(server: Postgres, name: str) -> dict[str, float]:
    return dict(server.execute("SELECT label, at FROM crm.due", name))


def roles_of(server: Postgres) -> set[str]:
    names = server.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'crm_%'")
    return {name for (name,) in names}


@pytest.mark.parametrize("has_roles", [True, False])
def test_a_leak_is_denied_by_the_server(server, name, tmp_path: Path, has_roles):
    crm = open_installation(tmp_path, address(server, name), database_roles=has_roles)
    for label in ("acme", "globex"):
        key = open_tenant(crm, label)
        Api(crm, label, key).create("/leads", name=f"Ivan at {label}", phone="+380501112233")
    for sql in LEAKS:
        assert leak(crm, sql) == ("42501" if has_roles else ""), sql
    crm.tenants.forget_idle()


@pytest.mark.parametrize("has_roles", [True, False])
def test_a_tenant_notes_its_own_deliveries_only(server, name, tmp_path, has_roles):
    crm = open_installation(tmp_path, address(server, name), database_roles=has_roles)
    for label in ("acme", "globex"):
        open_tenant(crm, label)
    assert note_due(crm, "acme", 7.0) == ""
    server.execute(
        "INSERT INTO crm.due VALUES ('globex', 8) ON CONFLICT (label) DO UPDATE SET at = 8", name
    )
    assert noted(server, name) == {"acme": 7, "globex": 8}
    for label, at in (("globex", 0.0), ("globex", None), ("nobody", 0.0)):
        assert note_due(crm, label, at) == ("42501" if has_roles else "")
    if has_roles:
        assert noted(server, name) == {"acme": 7, "globex": 8}
    assert note_due(crm, "acme", None) == ""
    assert "acme" not in noted(server, name)
    crm.tenants.forget_idle()


def test_a_role_of_the_connections_own_may_note(server, name, tmp_path):
    """An operator may let the user of CRM_DATABASE begin as another role."""
    crm = open_installation(tmp_path, address(server, name))
    open_tenant(crm, "acme")
    crm.tenants.forget_idle()
    server.execute(f"ALTER ROLE owner IN DATABASE {name} SET role = 'owner'")
    crm = open_installation(tmp_path, address(server, name))
    assert note_due(crm, "acme", 7.0) == ""
    assert noted(server, name) == {"acme": 7}
    crm.tenants.forget_idle()


def test_the_shared_schema_of_before_is_brought_up_to_date(server, name, tmp_path):
    """An installation of release 0.1.0, whose function took any label."""
    crm = open_installation(tmp_path, address(server, name), database_roles=True)
    for label in ("acme", "globex"):
        open_tenant(crm, label)
    crm.tenants.forget_idle()
    server.execute(
        "CREATE OR REPLACE FUNCTION crm.note_due(tenant_label TEXT, due_at DOUBLE PRECISION)"
        " RETURNS VOID LANGUAGE sql SECURITY DEFINER AS $$"
        " DELETE FROM crm.due WHERE label = tenant_label $$;"
        "UPDATE crm.setting SET value = '0001:0123456789abcdef' WHERE name = 'shared_version'",
        name,
    )
    old = open_installation(tmp_path, address(server, name), database_roles=True)
    assert note_due(old, "globex", 0.0) == "42501"
    assert note_due(old, "acme", 0.0) == ""
    old.tenants.forget_idle()


def test_work_goes_on_as_without_roles(server, name, tmp_path):
    """Events with numbers, deliveries, search, uploads and a later migration."""
    crm = open_installation(tmp_path, address(server, name), database_roles=True)
    key = open_tenant(crm, "acme")
    api = Api(crm, "acme", key)
    before = [event["sequence"] for event in api.events()]
    ids = [api.create("/leads", name=f"Олена {n}", phone="+380501112233") for n in range(3)]
    assert {lead["id"] for lead in api.read("/leads?q=олена")} == set(ids)
    numbers = [event["sequence"] for event in api.events()]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) == len(before) + 3
    body = {"url": "https://example.com/hook", "events": ["lead.created"]}
    assert api.post("/webhooks", body).status_code in (201, 422)
    assert roles_of(server) and crm.tenants.labels() == ["acme"]
    assert api.delete(f"/leads/{ids[0]}").status_code in (200, 204)
    crm.tenants.forget_idle()


def test_migrations_make_tables_that_the_role_may_use(server, name, tmp_path):
    crm = open_installation(tmp_path, address(server, name), database_roles=True)
    (database,) = crm.tenants.postgres.directory.databases
    crm.tenants.postgres.directory.prepared(database)
    schema.create(database, "acme", "t_acme", 3)
    schema.migrate(database, "acme")
    with schema.writing(database) as connection:
        connection.run("SELECT crm.use_tenant('acme', $1)", (len(migrations.STEPS),))
        tables = connection.run(
            "SELECT relname FROM pg_class WHERE relnamespace = 't_acme'::regnamespace"
            " AND relkind = 'r'"
        )
        assert len(tables) > 20
        for (table,) in tables:
            connection.run(f'SELECT count(*) FROM "{table}"')
            connection.run(f'DELETE FROM "{table}" WHERE false')
    crm.tenants.forget_idle()


def test_a_role_ends_with_its_tenant(server, name, tmp_path):
    before = roles_of(server)
    crm = open_installation(tmp_path, address(server, name), database_roles=True)
    open_tenant(crm, "acme")
    (role,) = roles_of(server) - before
    ((oid,),) = server.execute(f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    assert role.startswith(f"crm_{oid}_") and len(role) < 64
    assert server.execute(f"SELECT rolcanlogin FROM pg_roles WHERE rolname = '{role}'") == [
        (False,)
    ]
    crm.tenants.forget_idle()
    # While a copy of the database has it too, it stays; the last to drop the tenant drops it.
    server.create_database(f"{name}_copy", name)
    for database_name, left in ((name, {role}), (f"{name}_copy", set())):
        app = open_installation(tmp_path, server.url(database_name))
        (database,) = app.tenants.postgres.directory.databases
        with schema.writing(database) as connection:
            schema.drop(connection, "acme")
        assert roles_of(server) - before == left
        app.tenants.forget_idle()


def test_roles_that_a_dump_has_lost_are_made_by_migrate(server, name, tmp_path):
    crm = open_installation(tmp_path, address(server, name), database_roles=True)
    key = open_tenant(crm, "acme")
    ((role,),) = server.execute("SELECT role FROM crm.tenant WHERE label = 'acme'", name)
    server.execute(f"DROP OWNED BY {role}", name)
    server.execute(f"DROP ROLE {role}")
    crm.tenants.forget_idle()
    doctor = run_command(tmp_path, address(server, name), "doctor")
    assert "the roles of acme are not there: run migrate" in doctor.stdout
    assert run_command(tmp_path, address(server, name), "migrate").exit_code == 0
    assert Api(crm, "acme", key).get("/leads").status_code == 200
    crm.tenants.forget_idle()


def test_a_user_that_may_not_make_roles_is_told(server, name, tmp_path):
    server.execute("CREATE ROLE plain LOGIN")
    server.execute(f"ALTER DATABASE {name} OWNER TO plain")
    url = f"postgresql://plain@127.0.0.1:{server.port}/{name}"
    line = error_line(run_command(tmp_path, url, "tenant", "create", "acme",
                                  CRM_DATABASE_ROLES="on"))  # fmt: skip
    assert "permission denied to create role" in line
    assert run_command(tmp_path, url, "tenant", "create", "acme").exit_code == 0
