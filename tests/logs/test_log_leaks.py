"""The reader of the suite's own log finds what is planted: a check that cannot fail is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from crm.access import codes, links, tokens
from crm.access.api_keys import generate_key
from crm.outbox import signature
from tests import log_leaks
from tests.server_process import ROOT

NODE = "tests/logs/test_log_leaks.py"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (generate_key, "a key"),
        (signature.new_secret, "a webhook's secret"),
        (lambda: tokens.generate_token(), "a token"),
        (lambda: "+380501110001", "a phone"),
        (lambda: "380501110001", "a phone"),
        (lambda: "olena@acme.example", "an e-mail"),
        (lambda: "s3cret", "a password"),
    ],
)
def test_each_kind_of_secret_is_found_and_not_repeated(make, kind: str) -> None:
    secret = make()
    for line in (secret, f'"{secret}"', f"/enter/{secret}?a", f"KeyError: '{secret}'"):
        result = log_leaks.secret_in(line)
        assert result and result.startswith(kind)
        assert secret not in result or secret == "s3cret"[:4]


def test_codes_and_links_are_noted_where_they_are_made(crm) -> None:
    with crm.tenants.session("acme"):
        code = codes.create(codes.LOGIN, "+380501110001", "browser").code
        link = links.create(links.LOGIN, 1)
    assert log_leaks.secret_in(f"the code {code}!", NODE) == "a code of an SMS"
    assert log_leaks.secret_in(f"the code {code}!", "tests/another.py") is None
    assert log_leaks.secret_in(f"/enter/{link}", NODE)


@pytest.mark.parametrize(
    "line",
    [
        "delivery 12 of acme could not be recorded: it will be sent again",
        '{"time": "2026-11-21T07:56:00.123Z", "route": "/api/v1/leads/<id>", "ms": 12.3}',
        "request 0123456789abcdef01234567, pid 4194304, port 65535",
        "a secret looks like whsec_…, a key like crm_…",
    ],
)
def test_what_is_no_secret_may_be_told(line: str) -> None:
    assert log_leaks.secret_in(line, NODE) is None


LEAK = """
import logging
from crm.access import tokens
def test_leaks():
    logging.getLogger("crm.deep").debug("a cookie %s", tokens.generate_token())
def test_is_fine():
    logging.getLogger("crm").error("nothing private")
"""


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "by workers"])
def test_a_leak_fails_the_run_and_names_logger_and_test(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_leak.py").write_text(LEAK)
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.log_leaks",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        *options,
    ]
    ran = subprocess.run(
        [sys.executable, *words, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout + ran.stderr
    lines = [line for line in ran.stdout.splitlines() if "SECRET IN THE LOG" in line]
    assert lines == [
        "SECRET IN THE LOG test_leak.py::test_leaks: the logger crm.deep told"
        " a token of a cookie or a link"
    ]
    assert "2 passed" in ran.stdout
