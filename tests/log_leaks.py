"""Planted secrets: whatever the suite logs is read at its end, and a secret in it fails the run.

Every record of every logger, the request lines, and what server processes wrote on stderr go into
one file, each line with its test. Secrets are known by how they look, or noted where they are made.
Also a plugin of its own: `pytest -p tests.log_leaks`.
"""

import json
import logging
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

LOOKS = {
    "a key": re.compile(r"\bcrm_[0-9A-Za-z]{20,}"),
    "a webhook's secret": re.compile(r"\bwhsec_[0-9A-Za-z+/]{8,}"),
    "a phone": re.compile(r"(?<![\w.])\+[1-9][0-9]{8,14}(?!\w)|(?<![\w.])380[0-9]{9}(?!\w)"),
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}"),
    "a password or token of a setting": re.compile(r"s3cret|top-secret|t0ken-of-acme"),
}
TOKEN = re.compile(r"(?<![\w-])(?:[\w-]{43}|[\w-]{22})(?![\w-])")
CODE = re.compile(r"(?<![\w.])[0-9]{6}(?![\w.])")

tokens: set[str] = set()
codes: dict[str, set[str]] = defaultdict(set)  # by the module of the tests that made them
_file: Any = None


def secret_in(text: str, module: str = "") -> str | None:
    """What kind of secret a line holds, with its beginning, or None."""
    for kind, look in LOOKS.items():
        if match := look.search(text):
            return f"{kind}, {match[0][:4]}…"
    if any(match in tokens for match in TOKEN.findall(text)):
        return "a token of a cookie or a link"
    if codes[module].intersection(CODE.findall(text)):
        return "a code of an SMS"
    return None


def leaks(path: Path) -> Iterator[str]:
    """A line for each logged secret: which test, which logger, what kind."""
    for line in path.read_text("utf-8").splitlines():
        body = json.loads(line)
        if kind := secret_in(body["text"], body["test"].partition("::")[0]):
            yield f"{body['test']}: the logger {body['logger']} told {kind}"


def note_code(code: str) -> str:
    """The test has seen this code of an SMS: it must stand in no log of its module."""
    codes[_test().partition("::")[0]].add(code)
    return code


def heard(logger: str, text: str) -> None:
    """Something was logged."""
    if _file is not None:
        for line in text.splitlines():
            results = {"test": _test(), "logger": logger, "text": line}
            _file.write(json.dumps(results, ensure_ascii=True) + "\n")


def _test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "?").rpartition(" (")[0]


class _Ear(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        heard(record.name, self.format(record))


def _noted(make: Callable[..., str]) -> Callable[..., str]:
    @wraps(make)
    def made(*options: int) -> str:
        result = make(*options)
        tokens.add(result)
        return result

    return made


def _asked(ask: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(ask)
    def asked(*words: Any, **more: Any) -> Any:
        response = ask(*words, **more)
        note_code(response.code)
        return response

    return asked


def pytest_configure(config: pytest.Config) -> None:
    global _file
    from crm.access import codes as sms_codes
    from crm.access import tokens as random_tokens

    random_tokens.generate_token = _noted(random_tokens.generate_token)
    sms_codes.create = _asked(sms_codes.create)
    kept = tempfile.NamedTemporaryFile("w+", prefix="planted-", encoding="utf-8")  # noqa: SIM115
    _file = kept  # until the process ends
    ear = _Ear(logging.DEBUG)
    logging.getLogger().addHandler(ear)
    logging.getLogger("crm").setLevel(logging.DEBUG)
    requests = logging.getLogger("crm.requests")
    requests.setLevel(logging.INFO)
    requests.addHandler(ear)
    requests.propagate = False  # tests that read the log mean the others


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _file is not None:
        _file.flush()
        result = session.config.stash.setdefault(FOUND, [])
        result += leaks(Path(_file.name))
        if hasattr(session.config, "workeroutput"):  # one of pytest-xdist's processes
            session.config.workeroutput["leaks"] = result
        if result:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is none
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: tell what it found."""
    result = node.config.stash.setdefault(FOUND, [])
    result += getattr(node, "workeroutput", {}).get("leaks", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(FOUND, []):
        terminalreporter.write_line(f"SECRET IN THE LOG {line}", red=True)


FOUND = pytest.StashKey[list[str]]()
