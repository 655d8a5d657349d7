"""The structure of the code is that of crm/README.md: layers, sizes, and who may know what."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

from tests.cases import loop_over

ROOT = Path(__file__).parent.parent
CRM = ROOT / "crm"
EXAMPLES = CRM / "docs" / "examples"  # programs of users, shipped with the guides
MODULES = sorted(path for path in CRM.rglob("*.py") if EXAMPLES not in path.parents)
LAST = ("crm.wsgi", "crm.testing", "crm.start", "crm.__main__", "crm")
LOWEST = {f"crm.{path.stem}" for path in CRM.glob("*.py")} - {*LAST, "crm.__init__"}
# Each layer may import from those before it, and from itself.
LAYERS = (
    ("crm.config", "crm.values", *LOWEST),
    ("crm.limits",),
    ("crm.storage",),
    ("crm.installation",),
    ("crm.copies",),
    ("crm.records",),
    ("crm.papers",),
    ("crm.access", "crm.alerts", "crm.outbox", "crm.messages"),
    ("crm.api",),
    ("crm.spreadsheets",),
    ("crm.resources",),
    ("crm.server", "crm.cabinet"),
    ("crm.wsgi",),
    ("crm.cli", "crm.demo", "crm.embedding", "crm.testing", "crm.start"),
    ("crm.__main__", "crm"),
)
MAX_MODULES = 25  # in a folder
TOP_LEVEL = {
    *("app.py", "crm", "data", "tests", "requirements.txt", "README.md"),
    *("pyproject.toml", "CHANGELOG.md", "LICENSE", "findings"),
}


@functools.cache
def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_of(path: Path) -> set[str]:
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    results = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            results.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: 1 - node.level or None], base]).rstrip(".")
            results.add(base)
            results.update(f"{base}.{alias.name}" for alias in node.names)
    return {name for name in results if name == "crm" or name.startswith("crm.")}


def layer_of(module: str) -> int:
    for number, packages in enumerate(LAYERS):
        for package in packages:
            if module == package or (package != "crm" and module.startswith(package + ".")):
                return number
    raise AssertionError(f"{module} belongs to no layer")


@loop_over("path", MODULES)
def test_imports_go_one_way(path):
    modules = {name_of(other) for other in MODULES}
    own = layer_of(name_of(path))
    above = {name for name in imports_of(path) & modules - {"crm"} if layer_of(name) > own}
    assert not above


def test_there_is_no_import_cycle():
    modules = {name_of(path): path for path in MODULES}
    towards = {
        name: {other for other in imports_of(path) & modules.keys() if other not in (name, "crm")}
        for name, path in modules.items()
    }
    for name in towards:  # a package may import its modules, and they the package
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
def test_a_module_has_at_most_400_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_no_folder_has_more_than_25_modules():
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert not {folder for folder, count in folders.items() if count > MAX_MODULES}


@loop_over("driver, package", [("sqlite3", "sqlite"), ("psycopg", "postgres")])
def test_only_the_package_of_an_engine_imports_its_driver(driver, package):
    imports = re.compile(rf"^\s*(import|from) {driver}", re.M)
    users = {path.parent for path in MODULES if imports.search(path.read_text("utf-8"))}
    assert {folder.relative_to(CRM / "storage" / package).parts[:1] for folder in users} <= {
        (),
        ("migrations",),
    }


def test_the_top_level_is_fixed():
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert names - {"build", "dist", "crm.egg-info", "__pycache__"} == TOP_LEVEL


@loop_over("path", MODULES)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_only_config_reads_the_environment():
    reads = re.compile(r"os\.environ|getenv")
    assert {name_of(path) for path in MODULES if reads.search(path.read_text())} <= {"crm.config"}


def test_records_and_above_use_no_sql_of_sqlite_alone():
    dialect = re.compile(
        r"PRAGMA|json_(each|group)|sqlite_|import sqlite3|MATCH \?|\browid|lastrowid|INSERT OR "
        r"|(?-i:\bINDEXED\b|FROM|JOIN|INTO|UPDATE) user\b|strftime\('|group_concat|ifnull"
        r"|\b(?-i:LIKE|GLOB|REGEXP|COLLATE|CURRENT_\w+)\b",  # of other results elsewhere
        re.I,
    )
    modules_with_dialect = {
        name_of(path)
        for path in MODULES
        if layer_of(name_of(path)) > layer_of("crm.copies")
        and dialect.search(path.read_text("utf-8"))
    }
    assert not modules_with_dialect


def test_no_statement_has_a_numbered_parameter():
    """Python 3.12.0 to 3.12.3 takes `?1` for a named one, which no sequence may give."""
    numbered = re.compile(r"[\s(,=<>]\?(\d+(?=[\s),\"']|$)|\{)", re.M)
    assert numbered.search("WHERE id = ?1") and numbered.search('f"VALUES (?{number})"')
    assert not numbered.search("VALUES (?, ?)")
    for path in [*MODULES, *CRM.rglob("*.sql")]:
        assert not numbered.search(path.read_text("utf-8")), path


def test_no_path_of_a_developers_machine_is_written_down():
    """Wherever the tests run: the machine of who wrote it is another."""
    own = re.compile(r"(?<![\w.:/}>])/(home|root|Users|work|workspace)/\w")
    assert own.search("see /home/olena/crm") and not own.search("https://crm.example/home/olena")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.py"), *CRM.rglob("*.py"), *CRM.rglob("*.md")]:
        text = path.read_text("utf-8")
        assert not own.search(text) and str(ROOT) not in text, path


def test_the_picture_names_every_module():
    tour = (CRM / "README.md").read_text("utf-8")
    missing = [
        name_of(path)
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py")
        and path.parent != CRM / "resources"  # each is named after its resource
        and path.name not in tour
    ]
    assert not missing
    named = {*re.findall(r"\b\w+\.py\b", tour.split("```")[1])}
    assert not named - {path.name for path in [*ROOT.glob("*.py"), *CRM.rglob("*.py")]}


def test_who_streams_rows_closes_them():
    # What is left open would read from a connection that another thread has by then.
    for path in MODULES:
        calls = re.findall(r"(\S+?)\s*\biterate_rows\(", path.read_text("utf-8"))
        assert {*calls} <= {"def", "with", "snapshot(),"}, path


def test_no_code_is_made_from_texts():
    calls = {
        (name_of(path), node.func.id)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("eval", "exec", "compile")
    }
    assert not calls


def test_endpoints_and_pages_open_no_transaction():
    # rendering.confirmed() asks for a confirmation inside the transaction that it may roll back;
    # identity.proven_change() checks the proof again in the transaction of the change.
    allowed = {"crm.cabinet.rendering", "crm.cabinet.settings.identity"}
    edges = [CRM / "cabinet", *(CRM / "resources").rglob("endpoints.py")]
    paths = [path for edge in edges for path in ([edge] if edge.is_file() else edge.rglob("*.py"))]
    users = {name_of(path) for path in paths if "transaction()" in path.read_text("utf-8")}
    assert users <= allowed


INSTALLATIONS_OF_THEIR_OWN = {
    *("tests/installations.py", "tests/test_house.py", "tests/config/test_config.py"),
    *("tests/cli/test_deployment.py", "tests/docs/test_package.py"),  # settings, other folders
    *("tests/storage.py", "tests/faults/traced_runs.py"),  # only files
    *("tests/tenancy/test_archive.py", "tests/tenancy/test_move.py"),  # both engines
    # On a PostgreSQL of their own in any run.
    *("tests/database_cases.py", "tests/cli/test_doctor_databases.py"),
    *("tests/cli/test_migrate_schemas.py", "tests/tenancy/engines/test_database_errors.py"),
    *("tests/nodes.py", "tests/tenancy/engines/test_directory.py"),
    *("tests/tenancy/engines/test_stalled_writer.py",),
}


@loop_over("path", sorted((ROOT / "tests").rglob("*.py")))
def test_tests_take_the_settings_of_installations_from_one_module(path):
    """What passes it by would use files in a run on PostgreSQL too."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    if name in INSTALLATIONS_OF_THEIR_OWN or "/benchmarks/" in name or "/screenshots/" in name:
        return
    assert not re.search(r'\bConfig\(\s*data=(?!Path\("unused"\))', text), "config_for(folder)"
    assert not re.search(r"copytree\((?!ROOT)", text), "copy_installation(source, target)"
    if '"--data"' in text and "pytestmark = pytest.mark.files" not in text:
        files_alone = "pytestmark = [pytest.mark.files" in text
        assert files_alone or re.search(r"environ_(for|on)\(", text), "environ_for(folder)"
