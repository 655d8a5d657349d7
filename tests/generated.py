"""Write every file of `crm/` that is generated: `python -m tests.generated`.

The list of the migrations' steps comes first: nothing starts without a step in it.
"""

import runpy

MODULES = (
    "crm.storage.sqlite.migrations",
    "tests.tenancy.engines.translate_migrations",
    "tests.embedding.stub",
)
FILES = {
    "crm/storage/sqlite/migrations/steps.txt",
    "crm/storage/postgres/tables.sql",
    "crm/embedding/attributes.pyi",
}

if __name__ == "__main__":
    for module in MODULES:
        runpy.run_module(module, run_name="__main__")
