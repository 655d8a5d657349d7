"""What the README says is so: its two commands, its tour by curl, its tables."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields

import click
import pytest

from crm import cli, create_app, errors, log
from crm.config import PLANS, SMS_LIMITS, STORAGE, Config
from crm.json import pretty
from crm.outbox import deliveries, events, signature
from crm.resources import moving
from tests.readme import APP, README, ROOT, blocks, run, section
from tests.server_process import find_free_port, run_listening_process


def test_the_first_screen_has_exactly_two_commands():
    first_screen = README.split("\n## ")[0]
    demo, tests = (block.strip() for block in blocks(first_screen))
    assert len(first_screen.splitlines()) <= 30
    assert demo.endswith(".venv/bin/python app.py demo")
    assert "pytest" in tests
    for command in (demo, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install")


def test_ci_runs_the_second_command_as_it_stands():
    told = subprocess.run(
        ["bash", "-c", "eval() { echo \"$1\"; exit 0; }; . .ci/run"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert blocks(README)[1].strip() in told.stdout.splitlines()


@pytest.mark.parametrize("demo", ["never ran", "has run", "runs"])
def test_the_tour_by_curl_works_as_it_stands(tmp_path, demo):
    assert shutil.which("curl")
    lines, port = "\n".join(blocks(section("A tour by curl"))), find_free_port()
    data, begin = tmp_path / "data", lines
    with ExitStack() as stack:
        if demo != "never ran":
            command = [sys.executable, "app.py", "demo", "--data", str(data), "--port", str(port)]
            quiet = {"cwd": ROOT, "stdout": subprocess.DEVNULL}
            stack.enter_context(run_listening_process(command, port, **quiet))
        if demo == "has run":
            stack.close()
        if demo == "runs":
            begin = lines.replace("app.py serve &", f"app.py serve --port {port} && exit 1")
            assert begin != lines
        said = run(begin, tmp_path, port)
    check_tour(said)


def check_tour(said: str) -> None:
    assert '{"status":"ok","lead_id":"1"}' in said
    assert '{"status":"ok","lead_id":"1","deal_id":"1","client_id":"1"}' in said
    feed = json.loads(said[said.rindex('{"data":[{"id":"evt_') :])
    assert [event["type"] for event in feed["data"]] == [
        *("lead.created", "client.created", "deal.created", "lead.converted"),
        *("deal.items_changed", "deal.won"),
    ]


def test_the_lines_for_client_generators_work_without_any_host(tmp_path):
    """The one for TypeScript is run by .ci/clients: npx would fetch it from the network."""
    lines = re.search(r"<!-- generators -->\n```sh\n(.*?)```", README, re.S)[1]
    assert "localhost" not in lines
    assert "npx -y openapi-typescript openapi.json -o crm.d.ts" in lines
    here = "\n".join(line for line in lines.splitlines() if not line.startswith("npx "))
    generator = "openapi-python-client generate"
    assert generator in here
    run(here.replace(generator, f"{sys.executable} -m openapi_python_client generate"), tmp_path)
    assert json.loads((tmp_path / "openapi.json").read_text("utf-8"))["openapi"].startswith("3.1")
    assert list(tmp_path.glob("*/*/api/leads/create_lead.py"))


def test_ci_checks_generated_clients():
    assert "\n.ci/clients .venv/bin/python\n" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_what_an_operator_is_told_works_as_it_stands(tmp_path):
    lines = "\n".join(blocks(section("On one server"))[2:])
    assert lines.count("app.py doctor") == 3
    said = run(f"{APP} tenant create acme\n{lines}", tmp_path)
    assert f"# source: {tmp_path / 'crm.env'}  " in said
    assert "SMS to +380501234567: " in said
    assert said.count("tenants      1 of 1 files are whole") == 3


def test_the_line_of_the_log_has_the_fields_of_the_log():
    told = json.loads(blocks(section("On one server"), "json")[0])
    about = log.describe_request({"REQUEST_METHOD": "GET"})
    line = log.RequestLine(moment=0.0, status=200, seconds=0.0014, **about).format()
    assert list(told) == list(json.loads(line))


def test_moving_in_works_as_it_stands(tmp_path):
    begin = f"{APP} tenant create tour --owner-name Олена\nKEY=$({APP} key create tour --name tour)"
    lines = [begin, f"{APP} serve &", *blocks(section("Moving in"))]
    said = run("\n".join(lines), tmp_path, find_free_port())
    counts = "created 1, updated 0, skipped 0 (0 unchanged, 0 rejected)"
    assert said.splitlines().count(counts) == 3
    assert '{"status":"ok","created":0,"updated":0,"skipped":1}' in said
    assert "D-1,Меблі для офісу,1,C-1,ТОВ Ромашка" in said
    exported = (tmp_path / "for-a-spreadsheet.csv").read_text("utf-8-sig")
    assert "Стіл дубовий;;2;12500,00" in exported


def test_each_column_of_a_file_is_named():
    told = {
        name: set(re.findall(r"`(\w+)`", columns))
        for name, columns in re.findall(r"^\| ([\w ]+) \| (`.*) \|$", section("Moving in"), re.M)
    }
    for noun, moves in moving.MOVING.items():
        own = {column.name for column in moves.columns}
        assert told[noun] | told["all"] == own, noun
        if moves.part:
            assert told[f"their {moves.part}s"] == {column.name for column in moves.part_columns}


def test_each_event_and_plan_is_named():
    assert set(re.findall(r"`(\w+\.\w+)`", section("Events"))) >= set(events.KINDS)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (.*) \|$", section("Limits"), re.M)
    assert rows == [
        (plan, str(number), f"{STORAGE[plan]:,} MB" if STORAGE[plan] else "no limit")
        for plan, number in PLANS.items()
    ]


def test_the_lines_that_verify_a_delivery_do_so():
    (lines,) = re.findall(r"<!-- verify -->\n```python\n(.*?)```", README, re.S)
    told: dict = {}
    exec(lines, told)
    body = '{"id":"evt_1","data":{"lead":{"name":"Олена"}}}'.encode()
    old, new = signature.new_secret(), signature.new_secret()
    headers = signature.make_headers((new, old), "evt_1", int(time.time()), body)
    assert told["verify"](new, headers, body)
    assert told["verify"](old, headers, body)
    assert not told["verify"](new, headers, body + b" ")
    assert not told["verify"](signature.new_secret(), headers, body)
    stale = signature.make_headers((new,), "evt_1", int(time.time()) - 301, body)
    assert not told["verify"](new, stale, body)


def test_the_schedule_is_told_as_it_is():
    found = re.search(r"at\s+once and after (.*?),\s+later if", section("Events"), re.S)[1]
    seconds = {"s": 1, "min": 60, "h": 3600}
    told = [int(n) * seconds[unit] for n, unit in re.findall(r"(\d+)\s+(s|min|h)\b", found)]
    assert tuple(told) == deliveries.RETRY_DELAYS_SECONDS


def test_each_setting_is_named_with_its_default():
    named = dict(
        re.findall(r"^\| `(CRM_\w+)` \| `?([^|`]*?)`? *\|", section("On one server"), re.M)
    )
    for setting in fields(Config):
        env, default = setting.metadata["env"], setting.metadata["default"]
        assert named[env] == default or not default, env


def test_each_number_of_sms_is_named_with_its_default():
    text = section("On one server").split("### SMS and logins")[1].split("\n### ")[0]
    table = re.findall(r"^\| (`.*?) \| (.*?) \|", text, re.M)
    told = {}
    for names, defaults in table:
        told |= zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=False)
    named = {name: str(number) for name, number in SMS_LIMITS.items()}
    assert told == named | {"reserve": "a fifth of `day`"}
    assert SMS_LIMITS["reserve"] * 5 == SMS_LIMITS["day"]


def test_each_status_is_in_the_table_of_errors():
    from crm.api.problems import STATUS

    named = {int(number) for number in re.findall(r"\b(\d{3})\b", section("Errors"))}
    assert {STATUS[kind] for kind in (errors.NotFound, *STATUS)} <= named


def test_each_decision_is_cited():
    assert re.findall(r"^\| (D\d+) \|", README, re.M) == [f"D{number}" for number in range(1, 19)]


def test_no_decision_is_cited_where_users_read():
    """The numbers are for who reads the code: help, settings, the document, pages, this README."""
    number = re.compile(r"\bD(?:[1-9]|1[0-8])\b")
    told = [README.split("\n## Decisions\n")[0], README.split("\n## Development\n")[1]]
    told += [path.read_text("utf-8") for path in (ROOT / "crm" / "docs").glob("*.md")]
    told += helps(cli.group)
    told += [setting.metadata["meaning"] for setting in fields(Config)]
    told.append(pretty(create_app(Config(data=ROOT / "none"), sends=False).api.document("")))
    pages = ROOT / "crm" / "cabinet"
    told += [path.read_text("utf-8") for path in pages.rglob("*.html")]
    told += [path.read_text("utf-8") for path in pages.rglob("*.po")]
    for path in (ROOT / "crm").rglob("*.py"):
        told += texts(ast.parse(path.read_text("utf-8")))
    assert [number.findall(text) for text in told if number.search(text)] == []


def helps(command: click.Command) -> Iterator[str]:
    yield command.get_help(click.Context(command))
    for each in getattr(command, "commands", {}).values():
        yield from helps(each)


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module but its docstrings, which may cite decisions."""
    docs = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            docs |= {id(each.value) for each in body if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_words_are_completed_in_bash(tmp_path):
    (line,) = re.findall(r"<!-- completion -->\n```sh\n(.*?)```", README, re.S)
    installed = tmp_path / "bin" / "crm"
    installed.parent.mkdir()
    start = "import sys; from crm.cli import main; sys.argv[0] = 'crm'; main()"
    installed.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{start}" "$@"\n')
    installed.chmod(0o755)
    script = f"""{line}
    complete_words() {{
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        $(complete -p crm | sed 's/.* -F \\([^ ]*\\) .*/\\1/') crm; echo "${{COMPREPLY[*]}}"
    }}
    complete_words crm ten
    complete_words crm tenant cr
    complete_words crm tenant create --lang
    complete_words crm tenant create --language u
    """
    said = run(script, tmp_path, PATH=f"{installed.parent}:/usr/bin:/bin")
    assert said.splitlines() == ["tenant", "create", "--language", "uk"]
