"""Samples of events: files, changes in tenants made for trying out, and a demo that repeats."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner, Result
from standardwebhooks.webhooks import Webhook

from crm import cli, demo
from crm.installation.tenants import Tenants
from crm.outbox import events, signature
from crm.resources import webhooks
from crm.storage.session import row
from tests.conftest import Clock
from tests.installations import config_for, environ_for
from tests.server_process import ROOT, find_free_port, run_listening_process

CLOCK = "2026-03-02T09:00Z"
NOW = "2026-03-02T09:00:00Z"  # what Clock() shows


def run(folder: Path, *words: str, code: int = 0) -> Result:
    options = [*words, "--data", str(folder)]
    result = CliRunner().invoke(cli.group, options, env=environ_for(folder))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_samples_are_signed_deliveries_of_all_kinds_and_the_same_each_time(tmp_path):
    first, second, now = (tmp_path / name for name in ("first", "second", "now"))
    for folder in (first, second):
        run(tmp_path / "none", "samples", str(folder), "--clock", CLOCK)
    files = {path.name: path.read_bytes() for path in first.iterdir()}
    assert files == {path.name: path.read_bytes() for path in second.iterdir()}
    assert set(files) == {f"{kind}.{end}" for kind in events.KINDS for end in ("json", "headers")}
    assert {json.loads(files[f"{kind}.json"])["timestamp"] for kind in events.KINDS} == {NOW}

    secret = signature.new_secret()
    run(tmp_path / "none", "samples", str(now), "--secret", secret)
    for kind in events.KINDS:
        body = (now / f"{kind}.json").read_bytes()
        lines = (now / f"{kind}.headers").read_text("utf-8").splitlines()
        headers = dict(line.split(": ") for line in lines)
        event = Webhook(secret).verify(body, headers)
        assert event["type"] == kind
        assert set(event["data"]) == set(events.scopes_of_data(kind))
    assert not (tmp_path / "none").exists()


def test_a_kind_is_triggered_by_a_change_in_a_clone_and_nowhere_else(crm, api):
    """The event is that of the feed, and is delivered to the webhooks of the clone."""
    data = crm.tenants.config.data
    refusal = run(data, "trigger", "deal.won", "--tenant", "acme", code=1).stderr.splitlines()[-1]
    assert refusal == (
        "Error: acme is neither the demo's nor a clone, so its records are real:"
        " make a copy by `tenant clone acme NEW` and use that"
    )
    assert api.events() == []
    run(data, "tenant", "clone", "acme", "tryout")
    with crm.tenants.session("tryout"):
        webhooks.create({"url": "https://erp.example.com/crm"})
    for kind in ("lead.converted", "product.imported"):  # all: samples
        event = json.loads(run(data, "trigger", kind, "--tenant", "tryout").stdout)
        assert (event["type"], event["tenant"]) == (kind, "tryout")
        with crm.tenants.session("tryout"):
            bodies, _ = events.list_bodies_after(event["sequence"] - 1, [*events.KINDS], 2)
            assert [json.loads(body) for body in bodies] == [event]
            assert row("SELECT 1 FROM delivery WHERE sequence = ?", (event["sequence"],))
    assert api.events() == []
    assert "events" not in run(data, "trigger", "deal.own", "--tenant", "tryout", code=2).stdout


def feed(folder: Path, label: str) -> list[bytes]:
    """All bodies of a tenant's events."""
    with Tenants(config_for(folder), Clock()).session(label):
        return events.list_bodies_after(0, [*events.KINDS], 1000)[0]


@pytest.mark.deep  # that the clock decides is tried by the samples
@pytest.mark.process
@pytest.mark.slow
def test_a_demo_with_a_clock_has_the_same_bodies_each_time(tmp_path):
    """Made by a process of its own, and here at another moment: the feeds are equal to the byte."""
    port = find_free_port()
    words = ["demo", "--data", str(tmp_path / "first"), "--port", str(port), "--clock", CLOCK]
    environ = os.environ | environ_for(tmp_path / "first")
    with run_listening_process(
        [sys.executable, "app.py", *words], port, cwd=ROOT, stdout=subprocess.PIPE, env=environ
    ) as server:
        key = next(re.findall(r"crm_\w+", line)[0] for line in server.stdout if "crm_" in line)
        site = {"Host": f"acme.localhost:{port}", "Authorization": f"Bearer {key}"}
        address = f"http://127.0.0.1:{port}/api/v1"
        with urlopen(Request(f"{address}/events?limit=200", headers=site)) as answer:
            served = json.load(answer)["data"]
        body, sent = b'{"name": "X", "phone": "0671234567"}', {"Content-Type": "application/json"}
        prefer = {"Prefer": "return=representation"}
        with urlopen(Request(f"{address}/leads", body, site | sent | prefer)) as answer:
            created_at = datetime.fromisoformat(json.load(answer)["data"]["created_at"])
        server.stdout.close()
    assert 0 <= (created_at - datetime.fromisoformat(NOW)).total_seconds() < 120
    later = Clock()
    later.tick(3.7)
    demo.prepare(Tenants(config_for(tmp_path / "second"), later), moment=Clock()())
    for label in demo.LABELS:
        bodies = feed(tmp_path / "second", label)
        assert len(bodies) > 20
        assert feed(tmp_path / "first", label)[: len(bodies)] == bodies
    assert served == [json.loads(body) for body in feed(tmp_path / "second", "acme")[:200]]
