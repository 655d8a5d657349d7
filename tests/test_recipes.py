"""The recipes of crm/README.md, tried on a copy of the code: a new field and a new resource.

The files that a recipe adds lie in `tests/data/recipes`, the lines that it adds to others are
below. In the copy, a check of the recipe shows what follows by itself, and existing tests would
notice what is missing.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from crm.storage.sqlite import migrations
from tests import generated
from tests.concurrency import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

RECIPES = Path(__file__).parent / "data" / "recipes"
COPIED = ("app.py", "crm", "tests", "pyproject.toml", "requirements.txt", "README.md")
RUN_TIMEOUT_SECONDS = 300
LAST_STEP = len(migrations.STEPS)


@dataclass(frozen=True)
class Insertion:
    """Text that a recipe adds to a file after or before another text, or at the end of the file."""

    path: str
    text: str
    after: str = ""
    before: str = ""

    def apply(self, folder: Path) -> None:
        file = folder / self.path
        content = file.read_text("utf-8")
        beside = self.after or self.before
        place = content.find(beside) if beside else len(content)
        assert place >= 0, f"{self.path} has no {beside!r}"
        place += len(self.after)
        file.write_text(content[:place] + self.text + content[place:], "utf-8")


FIELD = (
    Insertion(
        "crm/resources/leads/record.py",
        '    budget = columns.Amount(label=N_("Budget"))\n',
        after='    amount = columns.Amount(sorted="coalesce(amount, -1)", label=N_("Amount"))\n',
    ),
    Insertion(
        "crm/cabinet/translations/uk/leads.po",
        '\nmsgid "Budget"\nmsgstr "Бюджет"\n',
    ),
    Insertion(
        "tests/resources/test_leads.py",
        """

def test_a_budget_is_an_amount(api):
    id = api.create("/leads", name="Марія", phone="+380671234567", budget=1500.5)
    assert api.read(f"/leads/{id}")["budget"] == 1500.5
    assert api.patch(f"/leads/{id}", {"budget": "much"}).status_code == 422
""",
    ),
)
CUSTOM_TYPE = (
    Insertion(
        "crm/records/custom/types.py",
        '''

class Percent(_Numeric, fields.Number):
    """From 0 to 100, with two decimals."""

    type_name, label, is_range = "percent", N_("Percentage"), True
    maximum = 100
    text_pattern = r"^[0-9]{1,3}(\\.[0-9]{1,2})?$"

    def read(self, value: Any) -> int:
        return values.money(value, 2, 100 * self.scale)
''',
    ),
    Insertion(
        "crm/cabinet/translations/uk/custom_fields.po",
        '\nmsgid "Percentage"\nmsgstr "Відсотки"\n',
    ),
)
RESOURCE = (
    Insertion(
        "crm/resources/__init__.py",
        "    suppliers.blueprint,\n",
        after="    pipeline_endpoints.blueprint,\n",
    ),
    Insertion("crm/resources/__init__.py", "    suppliers,\n", after="    saved_views,\n"),
    Insertion(
        "tests/full_tenant.py",
        "    _suppliers(caller)\n",
        after="    _clients(caller)\n",
    ),
    Insertion(
        "tests/full_tenant.py",
        """def _suppliers(caller: Caller) -> None:
    caller.add(
        "/suppliers",
        name="ТОВ Лісопилка",
        phone="+380441110002",
        email="office@sawmill.example",
        external_id="S-1",
        extra={"rating": 5},
    )
    caller.add("/suppliers", name="Видалений постачальник")
    caller.do("DELETE", "/suppliers/2")


""",
        after='    caller.do("DELETE", "/clients/3")\n\n\n',
    ),
)
BRAND = """\
    brand = columns.Text(
        64,
        searched=True,
        sorted=True,
        filtered=parameters.Equals(rare=True),
        label=N_("Brand"),
    )
"""
# The same field for each record, before one of its own.
SEARCHED_FIELDS = (
    Insertion("crm/resources/leads/record.py", BRAND, before="    comment = "),
    Insertion("crm/resources/clients/record.py", BRAND, before="    comment = "),
    Insertion("crm/resources/deals/record.py", BRAND, before="    comment = "),
    Insertion("crm/resources/products/record.py", BRAND, before="    price = "),
    Insertion("crm/resources/tasks.py", BRAND, before="    type = "),
    Insertion("crm/cabinet/translations/uk/common.po", '\nmsgid "Brand"\nmsgstr "Бренд"\n'),
)
# Tests that would notice what is missing of a field, and of a resource.
FIELD_TESTS = (
    "tests/cabinet/test_record_fields.py",
    "tests/cabinet/test_texts.py",
    "tests/embedding/test_signatures.py",
    "tests/records/test_views.py",
    "tests/resources/test_leads.py",
    "tests/tenancy/test_migrations.py",
    "tests/tenancy/test_releases.py",
)
RESOURCE_TESTS = (
    "tests/access/test_isolation.py",
    "tests/access/test_rights.py",
    "tests/api/test_write_only_keys.py",
    "tests/cabinet/test_integrations.py",
    "tests/cabinet/test_texts.py",
    "tests/embedding/test_signatures.py",
    "tests/records/test_list_plans.py::test_every_filter_in_every_order_reads_by_an_index",
    "tests/records/test_list_plans.py::test_the_index_of_an_order_has_the_columns_of_all_filters",
    "tests/records/test_views.py",
    "tests/resources/test_changes.py",
    "tests/resources/test_suppliers.py",
    "tests/tenancy/test_migrations.py",
    "tests/tenancy/test_releases.py",
    "tests/test_house.py::test_imports_go_one_way",
    "tests/test_house.py::test_the_picture_names_every_module",
)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by their paths."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if "__pycache__" not in path.parts
    }


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code. With its times, so that Python's caches hold for what stays as it is."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("benchmarks", "screenshots")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def follow(name: str, insertions: tuple[Insertion, ...], folder: Path) -> set[str]:
    """Follow a recipe in a folder and return the paths of the files that it adds or changes."""
    before = contents(folder)
    for path, content in contents(RECIPES / name).items():
        file = folder / path.replace("NNNN", f"{LAST_STEP + 1:04}")
        file.write_bytes(content)
    for insertion in insertions:
        insertion.apply(folder)
    run(folder, "-m", "tests.generated")
    after = contents(folder)
    changed = {path for path in after if after[path] != before.get(path)}
    modules = sorted(path for path in changed if path.endswith(".py"))
    run(folder, "-m", "ruff", "check", "--no-cache", *modules)
    run(folder, "-m", "ruff", "format", "--no-cache", "--check", *modules)
    return changed


def check(folder: Path, name: str, tests: tuple[str, ...], *options: str) -> None:
    """Run the check of a recipe and existing tests in a folder where it was followed.

    Those that start processes are left out: they are about upgrades and type checkers as such.
    """
    shutil.copyfile(RECIPES / f"{name}_check.py", folder / "tests/test_recipe.py")
    quiet = ("-q", "-p", "no:cacheprovider", "-m", "not browser and not process")
    run(folder, "-m", "pytest", *quiet, *options, "tests/test_recipe.py", *tests)


def run(folder: Path, *arguments: str) -> None:
    """Run Python in a folder; raises AssertionError with what it wrote."""
    command = [sys.executable, *arguments]
    options = {"capture_output": True, "text": True, "timeout": RUN_TIMEOUT_SECONDS}
    finished = subprocess.run(command, cwd=folder, **options)
    assert finished.returncode == 0, finished.stdout[-20_000:] + finished.stderr[-5_000:]


@pytest.mark.deep
def test_a_new_field_costs_four_files(copy: Path):
    changed = follow("field", FIELD, copy)
    assert sorted(changed - generated.FILES) == [
        "crm/cabinet/translations/uk/leads.po",
        "crm/resources/leads/record.py",
        f"crm/storage/sqlite/migrations/{LAST_STEP + 1:04}_lead_budget.sql",
        "tests/resources/test_leads.py",
    ]
    check(copy, "field", FIELD_TESTS)


@pytest.mark.deep
def test_a_new_type_of_custom_fields_costs_one_class(copy: Path):
    changed = follow("custom_type", CUSTOM_TYPE, copy)
    assert changed - generated.FILES == {insertion.path for insertion in CUSTOM_TYPE}
    check(
        copy, "custom_type", ("tests/cabinet/test_texts.py", "tests/embedding/test_signatures.py")
    )


@pytest.mark.deep
def test_a_field_of_any_record_is_searched_sorted_filtered_and_in_files(copy: Path):
    follow("searched_fields", SEARCHED_FIELDS, copy)
    check(copy, "searched_fields", ())


@pytest.mark.deep
def test_a_new_resource_costs_six_files(copy: Path):
    changed = follow("resource", RESOURCE, copy)
    assert sorted(changed - generated.FILES) == [
        "crm/cabinet/translations/uk/suppliers.po",
        "crm/resources/__init__.py",
        "crm/resources/suppliers.py",
        f"crm/storage/sqlite/migrations/{LAST_STEP + 1:04}_suppliers.sql",
        "tests/full_tenant.py",
        "tests/resources/test_suppliers.py",
    ]
    check(copy, "resource", RESOURCE_TESTS, "-k", "suppliers or not no_key_reaches")


def test_the_readme_names_the_files_of_the_recipes():
    readme = (ROOT / "crm" / "README.md").read_text("utf-8")
    recipes = ((FIELD, "field"), (CUSTOM_TYPE, "custom_type"), (RESOURCE, "resource"))
    for insertions, name in recipes:
        for path in {*contents(RECIPES / name), *(insertion.path for insertion in insertions)}:
            assert f"`{path}`" in readme, path
