"""Write every file of `crm/` that is generated: `python -m tests.generated`."""

import runpy

MODULES = (
    "tests.tenancy.engines.translate_migrations",
    "tests.embedding.stub",
)
FILES = {
    "crm/storage/postgres/tables.sql",
    "crm/embedding/attributes.pyi",
}

if __name__ == "__main__":
    for module in MODULES:
        runpy.run_module(module, run_name="__main__")
