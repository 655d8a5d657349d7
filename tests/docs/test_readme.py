"""README.md and the guides of crm/docs: their commands work, their tables agree with the code."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import fields

import pytest

from crm import errors, log
from crm.config import PLANS, Config
from crm.config.readers import SMS_LIMITS, STORAGE
from crm.outbox import deliveries, events
from crm.spreadsheets import all_resources
from tests.installations import environ_for, on_postgres
from tests.readme import APP, ROOT, blocks, read, run, section
from tests.server_process import find_free_port, run_listening_process

BEGIN = f"""{APP} tenant create tour --owner-name Олена
KEY=$({APP} key create tour --name tour)
{APP} serve &"""


def test_the_readme_has_at_most_250_lines():
    assert len(read("README").splitlines()) <= 250


def test_the_first_screen_has_exactly_two_commands():
    first_screen = read("README").split("\n## ")[0]
    demo, tests = (block.strip() for block in blocks(first_screen))
    assert len(first_screen.splitlines()) <= 30
    assert demo.endswith(".venv/bin/python app.py demo")
    assert "pytest" in tests
    for command in (demo, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install")


@pytest.mark.process
def test_ci_runs_the_second_command_as_it_stands():
    result = subprocess.run(
        ["bash", "-c", "eval() { echo \"$1\"; exit 0; }; . .ci/run"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert blocks(read("README"))[1].strip() in result.stdout.splitlines()


@pytest.mark.process
@pytest.mark.parametrize(
    "demo",
    ["never ran", *(pytest.param(when, marks=pytest.mark.deep) for when in ("has run", "runs"))],
)
def test_the_tour_by_curl_works_as_it_stands(tmp_path, demo):
    assert shutil.which("curl")
    lines, port = "\n".join(blocks(section("README", "A tour by curl"))), find_free_port()
    data, begin = tmp_path / "data", lines
    with ExitStack() as stack:
        if demo != "never ran":
            command = [sys.executable, "app.py", "demo", "--data", str(data), "--port", str(port)]
            quiet = {
                "cwd": ROOT,
                "stdout": subprocess.DEVNULL,
                "env": os.environ | environ_for(data),
            }
            stack.enter_context(run_listening_process(command, port, **quiet))
        if demo == "has run":
            stack.close()
        if demo == "runs":
            begin = lines.replace("app.py serve &", f"app.py serve --port {port}")
            assert begin != lines
        said = run(begin, tmp_path, port)
    check_tour(said)


def check_tour(said: str) -> None:
    assert '{"status":"ok","lead_id":"1"}' in said
    assert '{"status":"ok","lead_id":"1","deal_id":"1","client_id":"1"}' in said
    feed = json.loads(said[said.rindex('{"data":[{"id":"evt_') :])
    assert [event["type"] for event in feed["data"]] == [
        *("lead.created", "client.created", "deal.created", "lead.converted"),
        *("deal.items_changed", "deal.stage_changed", "deal.won"),
    ]


@pytest.mark.deep
@pytest.mark.process
def test_the_lines_for_client_generators_work_without_any_host(tmp_path):
    """The one for TypeScript is run by .ci/clients: npx would fetch it from the network."""
    lines = re.search(r"<!-- generators -->\n```sh\n(.*?)```", read("api"), re.S)[1]
    assert "localhost" not in lines
    assert "npx -y openapi-typescript openapi.json -o crm.d.ts" in lines
    here = "\n".join(line for line in lines.splitlines() if not line.startswith("npx "))
    generator = "openapi-python-client generate"
    assert generator in here
    run(here.replace(generator, f"{sys.executable} -m openapi_python_client generate"), tmp_path)
    assert json.loads((tmp_path / "openapi.json").read_text("utf-8"))["openapi"].startswith("3.1")
    assert list(tmp_path.glob("*/*/api/leads/create_lead.py"))


@pytest.mark.deep
@pytest.mark.process
def test_the_lines_about_keys_forms_events_and_hooks_work_as_they_stand(tmp_path):
    create_key, create_lead = blocks(read("website-forms"))
    feed, webhook, *_ = blocks(read("events-and-webhooks"))  # then one listens until it is stopped
    # The first is of client generators.
    _, field, document, search, report, keys, link = blocks(read("api"))
    (hook,) = blocks(read("inbound-hooks"), "sh")
    lines = [BEGIN, keys, create_key, create_lead, search, report, link, feed, webhook, hook]
    lines += [field, document]
    said = run("\n".join(lines), tmp_path, find_free_port())
    assert re.search(r"^crm_\w{46}$", said, re.M)
    assert re.search(r"^2 .*price list", said, re.M)
    assert '"name":"Марія Коваль"' in said
    assert '{"status":"ok","lead_id":"1"}' in said
    assert '"total":{' in said and '"export_link_id":"' in said
    assert '"type":"lead.created"' in said and '"size":"XL"' in said
    assert '{"status":"ok","webhook_id":"1","secret":"whsec_' in said
    assert '{"status":"ok","inbound_hook_id":"1"}{"status":"success"}' in said
    assert '{"status":"ok","field_id":"1"}' in said
    assert '"LeadCustom"' in (tmp_path / "openapi.json").read_text()


@pytest.mark.deep
@pytest.mark.process
def test_the_link_for_a_locked_out_user_works_as_it_stands(tmp_path):
    (line,) = blocks(section("workspace", "Login"))
    said = run(f"{APP} tenant create acme --owner-name Олена\n{line}", tmp_path)
    assert "http://acme.localhost:8000/enter/" in said


def test_ci_checks_generated_clients():
    assert "\n.ci/clients\n" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.deep
@pytest.mark.process
def test_what_an_operator_is_told_works_as_it_stands(tmp_path):
    (settings,) = blocks(section("settings", "Where settings are read from"))
    lines = "\n".join([settings, *blocks(section("command-line", "Doctor"))])
    assert lines.count("app.py doctor") == 3
    said = run(f"{APP} tenant create acme\n{lines}", tmp_path)
    assert f"; source: {tmp_path / 'crm.env'}\n" in said
    assert "SMS to +380501234567: " in said
    kind = "tenants" if on_postgres() else "files"
    assert said.count(f"tenants      1 of 1 {kind} are whole") == 3


def test_the_line_of_the_log_has_the_fields_of_the_log():
    body = json.loads(blocks(section("first-day", "Log"), "json")[0])
    about = log.describe_request({"REQUEST_METHOD": "GET"})
    line = log.JSONFormatter().format_request(200, 0.0014, about)
    assert list(body) == list(json.loads(line))


@pytest.mark.deep
@pytest.mark.process
def test_an_import_works_as_it_stands(tmp_path):
    said = run("\n".join([BEGIN, *blocks(read("importing"))]), tmp_path, find_free_port())
    assert '{"status":"ok","created":2,"updated":0,"skipped":0}' in said
    assert "T-2,Стілець,1250" in said
    counts = "created 1, updated 0, skipped 0 (0 unchanged, 0 rejected)"
    assert said.splitlines().count(counts) == 3
    assert '{"status":"ok","created":0,"updated":0,"skipped":1}' in said
    assert '"field":"phone"' in said  # a guess of the preview
    assert '{"status":"ok","created":1,"updated":0,"skipped":0,"left_out_columns":["ТТН"]}' in said
    assert '"status":"running"' in said
    # A dry run of before may have used the first id.
    assert re.search(r"D-1,Меблі для офісу,\d,C-1,ТОВ Ромашка", said)
    exported = (tmp_path / "for-a-spreadsheet.csv").read_text("utf-8-sig")
    assert "Стіл дубовий;;2;12500,00" in exported


def test_each_column_of_a_file_is_named():
    rows = re.findall(r"^\| ([\w ]+) \| (`.*) \|$", section("importing", "Columns"), re.M)
    named = {name: set(re.findall(r"`([\w.]+)`", columns)) for name, columns in rows}
    for resource in all_resources()[1:]:  # without products, whose file is the price list
        own = {column.name for column in resource.columns}
        assert named[resource.plural] | named["all"] == own, resource.plural
        if resource.part:
            parts = {column.name for column in resource.part_columns}
            assert named[f"their {resource.part}s"] == parts


def test_each_event_and_plan_is_named():
    text = section("events-and-webhooks", "Events")
    assert set(re.findall(r"`(\w+\.\w+)`", text)) >= set(events.KINDS)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (.*) \|$", section("api", "Limits"), re.M)
    assert rows == [
        (plan, str(number), f"{STORAGE[plan]:,} MB" if STORAGE[plan] else "no limit")
        for plan, number in PLANS.items()
    ]


def test_the_schedule_is_told_as_it_is():
    text = section("events-and-webhooks", "Retries")
    schedule = re.search(r"at\s+once\s+and\s+after\s+(.*?),\s+later if", text, re.S)[1]
    seconds = {"s": 1, "min": 60, "h": 3600}
    delays = [int(n) * seconds[unit] for n, unit in re.findall(r"(\d+)\s+(s|min|h)\b", schedule)]
    assert tuple(delays) == deliveries.RETRY_DELAYS_SECONDS


def test_each_setting_is_named_with_its_default():
    table = section("settings", "All settings")
    named = dict(re.findall(r"^\| `(CRM_\w+)` \| `?([^|`]*?)`? *\|", table, re.M))
    for setting in fields(Config):
        env, default = f"CRM_{setting.name.upper()}", setting.metadata["default"]
        assert named[env] == default or not default, env


def test_each_number_of_sms_is_named_with_its_default():
    text = section("settings", "SMS and login limits")
    table = re.findall(r"^\| (`.*?) \| (.*?) \|", text, re.M)
    results = {}
    for names, defaults in table:
        results |= zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=False)
    named = {name: str(number) for name, number in SMS_LIMITS.items()}
    assert results == named | {"reserve": "a fifth of `day`"}
    assert SMS_LIMITS["reserve"] * 5 == SMS_LIMITS["day"]


def test_each_status_is_in_the_table_of_errors():
    from crm.api.problems import STATUS

    named = {int(number) for number in re.findall(r"\b(\d{3})\b", section("api", "Errors"))}
    assert {STATUS[kind] for kind in (errors.NotFound, *STATUS)} <= named


def test_each_decision_is_cited():
    titles = re.findall(r"^## (D\d+) \w", read("decisions"), re.M)
    assert titles == [f"D{number}" for number in range(1, 19)]
