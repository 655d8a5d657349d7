"""Our files after a change in a spreadsheet program: that comes in, or an error says why not.

outcomes.toml has all else: what rows are refused for, and what is changed without an error. Files
for people lose nothing that way but, in Gnumeric, texts that begin with an apostrophe and the order
of day and month; files for programs lose what these programs take for numbers.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Api
from tests.spreadsheet_programs import DATA, KINDS, PROGRAMS, new_tenant, outcome, save_by

OUTCOMES = tomllib.loads((DATA / "outcomes.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    result = new_tenant(tmp_path_factory.mktemp("programs"))
    yield result
    result.crm.tenants.forget_idle()


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.timeout(400)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_change_comes_in_as_the_only_one(api: Api, program: str, tmp_path: Path) -> None:
    outcomes = {path.name: outcome(api, path) for path in save_by(program, api, tmp_path)}
    assert outcomes
    assert {name: text for name, text in outcomes.items() if text} == OUTCOMES[program]


@pytest.mark.parametrize(
    "suffix",
    [end if end == ".csv" else pytest.param(end, marks=pytest.mark.process) for end in KINDS],
)
def test_saved_files_come_in(api: Api, suffix: str) -> None:
    paths = [path for program in PROGRAMS for path in sorted((DATA / program).glob(f"*{suffix}"))]
    assert len(paths) >= 4
    for path in paths:
        expected = OUTCOMES[path.parent.name].get(path.name, "")
        assert outcome(api, path) == expected, path
