"""The house stands as crm/README.md says: rooms, floors, sizes, and who may know what."""

import ast
import re
from pathlib import Path

from tests.cases import loop_over

ROOT = Path(__file__).parent.parent
CRM = ROOT / "crm"
MODULES = sorted(path for path in CRM.rglob("*.py"))
# Each floor may import those before it, and itself.
FLOORS = (
    (
        "crm.config",
        "crm.deadlines",
        "crm.errors",
        "crm.json",
        "crm.log",
        "crm.networks",
        "crm.open_files",
        "crm.timed_checks",
        "crm.values",
    ),
    ("crm.tenancy",),
    ("crm.records",),
    ("crm.access", "crm.outbox", "crm.messages"),
    ("crm.api",),
    ("crm.spreadsheets",),
    ("crm.resources",),
    ("crm.server", "crm.demo", "crm.cabinet"),
    ("crm.wsgi",),
    ("crm.cli", "crm.embedding", "crm.__main__", "crm"),
)
TOP_LEVEL = {
    *("app.py", "crm", "data", "tests", "requirements.txt", "README.md"),
    *("pyproject.toml", "CHANGELOG.md", "LICENSE"),
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: 1 - node.level or None], base]).rstrip(".")
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return {name for name in found if name == "crm" or name.startswith("crm.")}


def floor_of(module: str) -> int:
    for number, rooms in enumerate(FLOORS):
        for room in rooms:
            if module == room or (room != "crm" and module.startswith(room + ".")):
                return number
    raise AssertionError(f"{module} has no floor in this picture")


@loop_over("path", MODULES)
def test_imports_go_one_way(path):
    modules = {name_of(other) for other in MODULES}
    own = floor_of(name_of(path))
    above = {name for name in imports_of(path) & modules - {"crm"} if floor_of(name) > own}
    assert not above


def test_no_import_goes_in_a_circle():
    modules = {name_of(path): path for path in MODULES}
    towards = {
        name: {other for other in imports_of(path) & modules.keys() if other not in (name, "crm")}
        for name, path in modules.items()
    }
    for name in towards:  # a package's face imports its rooms; they may name the package
        towards[name] -= {parent for parent in towards[name] if name.startswith(parent + ".")}
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name))
        if name not in done:
            for other in sorted(towards[name]):
                walk(other, (*way, name))
            done.add(name)

    for name in towards:
        walk(name, ())


@loop_over("path", MODULES)
def test_a_room_is_not_longer_than_400_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_the_top_level_is_the_card():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"build", "dist", "crm.egg-info", "__pycache__"} == TOP_LEVEL


@loop_over("path", MODULES)
def test_every_room_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_only_config_reads_the_environment():
    reads = re.compile(r"os\.environ|getenv")
    assert {name_of(path) for path in MODULES if reads.search(path.read_text())} <= {"crm.config"}


def test_only_tenancy_speaks_sqlite():
    dialect = re.compile(r"PRAGMA|json_(each|group)|sqlite_|import sqlite3|MATCH \?|\browid", re.I)
    speakers = {
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith("crm.tenancy") and dialect.search(path.read_text("utf-8"))
    }
    assert not speakers


def test_nothing_of_this_machine_is_written_down():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.py"), *CRM.rglob("*.py"), *CRM.rglob("*.md")]:
        assert str(ROOT.parent) + "/" not in path.read_text("utf-8"), path


def test_the_tour_names_every_room():
    tour = (CRM / "README.md").read_text("utf-8")
    missing = [
        name_of(path)
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py")
        and path.parent != CRM / "resources"  # each is named after its resource
        and path.name not in tour
    ]
    assert not missing
