"""What tests of papers share: a company's requisites, and PDFs without a process of Typst."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from crm.papers import pdf

REQUISITES = {
    "legal_name": "ТОВ «Затишок»",
    "edrpou": "14360570",
    "iban": "UA213223130000026007233566001",
}


@contextmanager
def pdf_without_typst() -> Iterator[None]:
    """Give each paper the same PDF in a `with` block, for tests that are not about it."""
    with patch.object(pdf, "compile", lambda *_: b"%PDF-1.7"):
        yield
