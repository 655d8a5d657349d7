"""The directory has the labels of all nodes, those of files too: a label is taken once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.access import api_keys
from crm.config import Config
from crm.copies import stores
from crm.errors import Conflict, TenantElsewhere
from crm.installation.tenants import Tenants
from crm.resources import tenant as tenants_rules
from crm.resources import users
from tests.database_cases import run_command
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process


@pytest.fixture
def nodes(server: Postgres, tmp_path: Path) -> Iterator[tuple[Config, Config]]:
    """Two nodes of one database: acme and globex had files on the first one before."""
    name = f"nodes_{tmp_path.name}"
    url = server.create_database(name)
    configs = tuple(Config(data=tmp_path / node, database=url) for node in "ab")
    files = Tenants(Config(data=configs[0].data))
    for label in ("acme", "globex"):
        tenants_rules.open_tenant(files, label, owner={"name": "Olena"})
    files.forget_idle()
    yield configs
    server.drop_database(name)


@pytest.fixture
def apps(nodes: tuple[Config, Config]) -> Iterator[tuple[CRMApp, CRMApp]]:
    """The first node has been started once: it is not asked for anything else."""
    first, second = (create_app(config, sends=False) for config in nodes)
    first.tenants.labels()
    yield first, second
    for app in (first, second):
        app.tenants.forget_idle()


def key_of(app: CRMApp, label: str) -> str:
    with app.tenants.session(label):
        return api_keys.create("tests", "*", users.owner_id())[1]


def get(app: CRMApp, key: str, label: str = "acme") -> Any:
    headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}
    return app.test_client().get("/api/v1/leads", headers=headers)


def run(config: Config, *words: object, code: int) -> str:
    ran = run_command(config.data, config.database, *words)
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran.stderr


def test_the_label_of_a_file_is_taken_on_all_nodes(nodes, apps):
    first, second = apps
    key = key_of(first, "acme")
    result = run(nodes[1], "tenant", "create", "acme", code=1)
    assert "the label acme is taken" in result
    with pytest.raises(Conflict) as refused:
        tenants_rules.open_tenant(second.tenants, "acme", owner={"name": "Ivan"})
    assert refused.value.code == "label_taken"
    with pytest.raises(Conflict):
        tenants_rules.clone(first.tenants, "globex", "acme", "")
    # The file is served as before, after a restart too.
    assert get(first, key).status_code == 200
    restarted = create_app(nodes[0], sends=False)
    assert get(restarted, key).status_code == 200
    restarted.tenants.forget_idle()


def test_a_node_without_the_file_says_that_another_machine_has_it(nodes, apps):
    first, second = apps
    answer = get(second, key_of(first, "acme"))
    assert (answer.status_code, answer.json["code"]) == (503, "tenant_elsewhere")
    assert int(answer.headers["Retry-After"]) > 0
    assert second.tenants.labels() == [] and first.tenants.labels() == ["acme", "globex"]
    with pytest.raises(TenantElsewhere):
        stores.delete(second.tenants, "acme")
    assert "its file is on the node" in run(nodes[1], "key", "list", "acme", code=1)
    assert get(second, "none", "hooli").status_code == 404


def test_a_label_stays_taken_while_its_tenant_moves_into_a_file(nodes, apps, tmp_path):
    first, second = apps
    tenants_rules.open_tenant(second.tenants, "hooli", owner={"name": "Ivan"})
    key = key_of(first, "hooli")
    assert get(first, key, "hooli").status_code == 200
    run(nodes[1], "tenant", "suspend", "hooli", code=0)
    run(nodes[1], "backup", "create", "hooli", "--to", tmp_path / "copies", code=0)
    (copy,) = (tmp_path / "copies").glob("hooli-*.db")
    run(nodes[1], "restore", "hooli", copy, "--to", "files", "--yes", code=0)
    assert get(first, key, "hooli").json["code"] == "tenant_elsewhere"
    with pytest.raises(Conflict):
        first.tenants.require_free("hooli")
    run(nodes[1], "tenant", "delete", "hooli", "--yes", code=0)
    first.tenants.require_free("hooli")


def test_a_file_that_comes_later_is_entered_when_it_is_first_used(nodes, apps):
    first, second = apps
    files = Tenants(Config(data=nodes[0].data))  # a command without CRM_DATABASE
    tenants_rules.open_tenant(files, "hooli", owner={"name": "Olena"})
    files.forget_idle()
    key = key_of(first, "hooli")
    assert get(first, key, "hooli").status_code == 200
    with pytest.raises(Conflict):
        second.tenants.require_free("hooli")


def test_a_file_whose_label_another_has_is_not_served_and_the_doctor_says_so(nodes, apps):
    first, second = apps
    key = key_of(first, "acme")
    files = Tenants(Config(data=nodes[1].data))
    tenants_rules.open_tenant(files, "acme", owner={"name": "Ivan"})
    files.forget_idle()
    assert get(first, key).status_code == 200
    assert get(second, key).json["code"] == "tenant_elsewhere"
    texts = [text for _, check in second.tenants.postgres.checks() for _, text in check()]
    assert any("files that are not used" in text and "acme" in text for text in texts), texts


def test_a_deletion_that_was_killed_leaves_no_label_behind(nodes, apps):
    first, second = apps
    first.tenants.path("acme").unlink()  # as it is when the process died after that
    with pytest.raises(Conflict):  # the other node cannot know
        second.tenants.require_free("acme")
    assert not first.tenants.exists("acme")
    tenants_rules.open_tenant(first.tenants, "acme", owner={"name": "Olena"})
    assert get(second, key_of(first, "acme")).status_code == 200
    first.tenants.path("globex").unlink()
    run(nodes[0], "tenant", "delete", "globex", "--yes", code=1)
    second.tenants.require_free("globex")
