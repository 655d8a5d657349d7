"""Compression of pages that have no user input beside a secret.

The length of a compressed page reveals whether a text that an attacker put into it occurs there
once more (BREACH). Therefore:

- Only pages that were asked for by GET without a query are compressed. Searches, filters and forms
  that were refused show what was typed; new keys and webhook secrets are shown by answers to POST.
- The form token, which is on every page, is signed anew each second by Flask-WTF. Its constant
  part is of no use without the signature, which would have to be guessed within one second.
- Cookies are SameSite=Lax: another site can open a page only in a window of its own.
- Names of leads may come from strangers, by a website form. So the length is random by up to
  100 bytes, as in Django's GZipMiddleware: a guess takes many pages more.

Level 1 takes 1 % of a page's time and leaves a fifth to a tenth of it. JSON is left to the proxy:
it would take 12 % of a list, most clients are servers nearby, and ETags stay as they are.
"""

import gzip
import secrets

from flask import request
from werkzeug.wrappers import Response

from crm.api.static_files import MIN_COMPRESSED_BYTES, accepts_gzip

LEVEL = 1
MAX_PADDING_BYTES = 100


def compress(response: Response) -> None:
    """Compress a page (200), if its client takes that and it may be."""
    if (
        request.method not in ("GET", "HEAD")
        or request.query_string
        or response.mimetype != "text/html"
    ):
        return
    page = response.get_data()
    if len(page) <= MIN_COMPRESSED_BYTES:
        return
    response.vary.add("Accept-Encoding")
    if accepts_gzip():
        padding = secrets.token_hex(secrets.randbelow(MAX_PADDING_BYTES + 1))
        response.set_data(gzip.compress(page + f"<!--{padding}-->".encode(), LEVEL, mtime=0))
        response.content_encoding = "gzip"
