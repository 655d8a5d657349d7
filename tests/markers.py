"""Markers: `process`, `slow` and `deep` are given by hand, `browser` comes with its fixture.

Every other test is `quick`. A test that starts a browser or a process without its marker fails.
`deep` decides who runs a test: those that have it run in `.ci/deep` only, with the full counts of
what the others prove once; pyproject.toml leaves them out, and `-m` with another choice takes them.
Workers of pytest-xdist get the files of slow tests first, so that they end at about the same time.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOT_QUICK = ("browser", "process", "slow", "deep")
# About what a test takes, by the first of its markers, to put files of tests in order.
EXPECTED_SECONDS = {"deep": 30.0, "slow": 15.0, "process": 3.0, "browser": 2.0, "quick": 0.05}
STARTING = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")
Fixture = tuple[str, str]  # where it can be used, and its name

current_test: pytest.Item | None = None
current_fixtures: list[Fixture] = []  # being set up, the innermost last
markers_of_fixtures: dict[Fixture, str] = {}  # of those that have started something


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "loadscopereorder"):
        # By itself pytest-xdist begins with the files that have the most tests.
        config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if not any(map(item.get_closest_marker, NOT_QUICK)):
            item.add_marker("quick")
    yield  # tests are deselected by their markers
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        seconds: Counter[Path] = Counter()
        for item in items:
            seconds[item.path] += expected_seconds(item)
        items.sort(key=lambda item: -seconds[item.path])


def expected_seconds(item: pytest.Item) -> float:
    """Return about how long a test takes, by its markers."""
    return next(
        EXPECTED_SECONDS[name] for name in EXPECTED_SECONDS if item.get_closest_marker(name)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global current_test
    current_test = item
    try:
        return (yield)
    finally:
        current_test = None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> Iterator[None]:
    current_fixtures.append((fixturedef.baseid, fixturedef.argname))
    try:
        return (yield)
    finally:
        current_fixtures.pop()


def pytest_runtest_call(item: pytest.Item) -> None:
    """Another test may have made a fixture that this one uses too."""
    for (place, name), marker in markers_of_fixtures.items():
        if name in getattr(item, "fixturenames", ()) and item.nodeid.startswith(place):
            _require(item, marker)


def _require(item: pytest.Item, marker: str) -> None:
    enough = (marker, "browser")  # a browser is a process too
    if not any(map(item.get_closest_marker, enough)):
        pytest.fail(f"{item.nodeid} needs pytest.mark.{marker}: it starts another program")


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if current_test is not None and event in STARTING:
        marker = "browser" if "playwright" in str(arguments[:1]) else "process"
        if current_fixtures:
            markers_of_fixtures[current_fixtures[-1]] = marker
        _require(current_test, marker)


sys.addaudithook(_hear)
