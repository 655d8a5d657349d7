"""The payment QR of the National Bank of Ukraine on invoices.

Format 002 of the rules for QR codes of credit transfers (NBU resolution 97 of 19.08.2025, in force
since 1.11.2025, annex 3): the address https://bank.gov.ua/qr/ and behind it, in base64url without
padding, 13 lines, divided by LF:

    BCD          the mark of the service
    002          the version of the format
    1            the encoding: UTF-8 (2 is Windows-1251)
    UCT          the function, a Ukrainian credit transfer
                 reserved (in 001 the BIC, in 003 the payee's unique id)
    name         of the payee, at most 140 characters
    IBAN
    UAH1250.50   the amount, without the fraction if it is whole, at most 999999999.99
    code         ЄДРПОУ or РНОКПП of the payee
                 reserved (the purpose's category)
                 reserved (the reference)
    purpose      of the payment, at most 420 characters
                 reserved (what is displayed)

Characters are those of Windows-1251 without control characters; the base64url has at most 475.
The picture has level M or Q, version 10 to 20, and the sign of the hryvnia in a white circle in
the middle. Format 003 (annex 4) has four more lines, the functions ICT and XCT, and the host
qr.bank.gov.ua. 002 is what apps of banks read since 2021.

The text of the resolution (bank.gov.ua/admin_uploads/law/19082025_97.pdf) was not at hand: this
follows published programs that cite its annexes by page, and reports of it in the press.
"""

import re
from base64 import urlsafe_b64encode
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any

ADDRESS = "https://bank.gov.ua/qr/"
MAX_BYTES = 475 * 3 // 4  # of the lines in UTF-8
MAX_NAME, MAX_PURPOSE = 140, 420  # characters
MAX_AMOUNT = Decimal("999999999.99")
MIN_VERSION = 10
SIGN_SHARE = 0.2  # of the picture's side: the circle with the sign of the hryvnia
SIGN = (  # in a circle of the radius 12 around 0,0
    '<circle r="12" fill="#fff"/><path fill="none" stroke="#000" stroke-width="1.8" d="'
    "M-4.5-3.5C-4.5-6.5-2.5-8 0-8 3-8 5-6.5 5-4 5 0-5 0-5 4-5 6.5-3 8 0 8 3 8 4.8 6.5 4.8 3.5"
    'M-7.5-1.4H7.5M-7.5 1.6H7.5"/>'
)


def payment_url(seller: dict[str, Any], amount: str, currency: str, purpose: str) -> str | None:
    """The address that a bank's app opens as a payment, None if something for it is unknown.

    seller: of a snapshot. amount: a decimal text. A long purpose, then a long name, is cut.
    """
    iban, code = seller.get("iban") or "", seller.get("edrpou") or seller.get("rnokpp")
    value, name = Decimal(amount), _text(seller.get("legal_name") or seller.get("name"), MAX_NAME)
    is_payable = currency == "UAH" and 0 < value <= MAX_AMOUNT
    if not (is_payable and iban.startswith("UA") and code and name):
        return None
    total = f"UAH{value:.2f}".removesuffix(".00")
    lines = ["BCD", "002", "1", "UCT", "", name, iban, total, code, "", ""]
    lines += [_text(purpose, MAX_PURPOSE), ""]
    for part in (11, 5):
        while lines[part] and len("\n".join(lines).encode()) > MAX_BYTES:
            lines[part] = lines[part][:-1].rstrip()
    return ADDRESS + urlsafe_b64encode("\n".join(lines).encode()).decode().rstrip("=")


@lru_cache(maxsize=32)  # one takes 30 ms
def picture(url: str) -> str:
    """The QR of a payment_url() as SVG, for pages and PDF."""
    import segno  # here: most processes never need it

    code = segno.make(url, error="m", boost_error=False, micro=False)
    if int(code.version) < MIN_VERSION:
        code = segno.make(url, error="m", boost_error=False, version=MIN_VERSION)
    middle = code.symbol_size()[0] / 2
    svg = BytesIO()
    code.save(
        svg, kind="svg", xmldecl=False, svgclass=None, lineclass=None, omitsize=True, nl=False
    )
    scale = middle * SIGN_SHARE / 12
    sign = f'<g transform="translate({middle} {middle}) scale({scale:.4f})">{SIGN}</g></svg>'
    return svg.getvalue().decode().replace("</svg>", sign)


def _text(value: str | None, max_characters: int) -> str:
    """A text of one line, without characters that Windows-1251 has not."""
    known = (value or "").encode("cp1251", "ignore").decode("cp1251")
    one_line = " ".join(re.sub(r"[\x00-\x1f\x7f\xad]", " ", known).split())
    return one_line[:max_characters]
