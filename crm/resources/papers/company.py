"""What papers say of the company, and how they are made: verbs of the settings (crm/papers/)."""

from typing import Any

from crm.papers.requisites import PaperSettings, Requisites
from crm.records.custom.values import merged
from crm.records.schemas import Body
from crm.storage.session import execute, one_row, transaction


class CompanyPapers(Body):
    requisites = Requisites().variant(incoming=True, required=False)
    paper_settings = PaperSettings().variant(incoming=True, required=False)


COMPANY = CompanyPapers()


def about() -> dict[str, Any]:
    """The requisites and the paper settings of the tenant, as objects."""
    names = [*COMPANY.fields]
    stored = one_row(f"SELECT {', '.join(names)} FROM tenant")
    return {name: COMPANY.fields[name].show(text) for name, text in zip(names, stored, strict=True)}


def update(**sent: Any) -> None:
    """Change the sent keys of `requisites` and of `paper_settings`; null clears one.

    Raises Invalid, which names the key, such as `/requisites/iban`.
    """
    data = COMPANY.parse(sent)
    with transaction():
        for name, patch in data.items():
            (stored,) = one_row(f"SELECT {name} FROM tenant")
            value = None if patch is None else merged(stored, patch)
            execute(f"UPDATE tenant SET {name} = ?", (value,))
