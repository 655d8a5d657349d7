"""Write the list of steps: `python -m crm.storage.sqlite.migrations`.

A test tells when it is old.
"""

from pathlib import Path

from crm.storage.sqlite import migrations

if __name__ == "__main__":
    path = Path(__file__).parent / migrations.LIST_NAME
    path.write_text("".join(f"{name}\n" for name in migrations.NAMES), "utf-8")
