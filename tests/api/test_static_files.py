"""Files of the pages and of Swagger UI: addresses that change with the content, codings, ranges."""

import gzip
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from crm.api import docs
from crm.cabinet import assets
from tests.page_client import Person
from tests.raw_wsgi import WsgiResponse, send_request

each = pytest.mark.parametrize
FOREVER = "public, max-age=31536000, immutable"
CABINET = ("bootstrap.min.css", "cabinet.css", "cabinet.js", "icon.svg", "icons.svg")
SWAGGER = ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png", "start.js")
PATHS = (*(f"/cabinet/{name}" for name in CABINET), *(f"/api/v1/docs/{name}" for name in SWAGGER))
TOO_SMALL = ("/cabinet/icon.svg", "/api/v1/docs/start.js", "/api/v1/docs/favicon-32x32.png")
COMPRESSED = tuple(path for path in PATHS if path not in TOO_SMALL)
GZIP = {"Accept-Encoding": "gzip, deflate, br, zstd"}


def fingerprinted(path: str) -> str:
    """The query that a page asks for this file with."""
    files = docs.FILES if path.startswith("/api") else assets.FILES
    with Flask("other").test_request_context():
        url, _, query = files.url(path.rpartition("/")[2]).partition("?")
    assert url == path
    return query


@each("path", PATHS)
def test_the_address_with_the_fingerprint_is_for_ever(crm, path: str) -> None:
    answer = send_request(crm, path=path, query=fingerprinted(path))
    assert (answer.status, answer.headers["Cache-Control"]) == (200, FOREVER)
    fingerprint = hashlib.blake2b(answer.body, digest_size=8).hexdigest()
    assert fingerprinted(path) == f"v={fingerprint}"
    for other in ("", "v=", "v=0123456789abcdef", f"x={fingerprint}"):
        again = send_request(crm, path=path, query=other)
        assert (again.status, again.body) == (200, answer.body)
        assert again.headers["Cache-Control"] == "no-cache"


@each("path", COMPRESSED)
def test_a_text_is_compressed_for_who_takes_that(crm, path: str) -> None:
    plain, packed = send_request(crm, path=path), send_request(crm, path=path, headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) == int(packed.headers["Content-Length"]) < len(plain.body) / 2
    for name in ("Content-Type", "Cache-Control"):
        assert packed.headers[name] == plain.headers[name]
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["ETag"] != plain.headers["ETag"]
    assert not packed.headers["ETag"].startswith("W/")
    for refusing in ("br", "gzip;q=0", "identity", "*;q=0", ""):
        answer = send_request(crm, path=path, headers={"Accept-Encoding": refusing})
        assert "Content-Encoding" not in answer.headers and answer.body == plain.body


@each("path", TOO_SMALL)
def test_what_is_small_or_packed_already_stays_as_it_is(crm, path: str) -> None:
    answer = send_request(crm, path=path, headers=GZIP)
    assert "Content-Encoding" not in answer.headers and "Vary" not in answer.headers


@each("sent", [{}, GZIP], ids=["plain", "gzip"])
@each("path", ["/cabinet/cabinet.css", "/api/v1/docs/swagger-ui.css"])
def test_head_conditions_and_ranges(crm, path: str, sent: dict[str, str]) -> None:
    def ask(method: str = "GET", **headers: str) -> WsgiResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return send_request(crm, method, path, sent | named)

    whole = ask()
    head = ask("HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(whole.body))
    etag = whole.headers["ETag"]
    for condition in (etag, f"W/{etag}"):
        same = ask(If_None_Match=condition)
        assert (same.status, same.body) == (304, b"")
        assert (same.headers["ETag"], same.headers["Cache-Control"]) == (etag, "no-cache")
        assert same.headers["Vary"] == "Accept-Encoding"
    assert ask(If_None_Match='"other"').status == 200
    part = ask(Range="bytes=10-29", If_Range=etag)
    assert (part.status, part.body) == (206, whole.body[10:30])
    assert part.headers["Content-Range"] == f"bytes 10-29/{len(whole.body)}"
    assert ask(Range="bytes=-5").body == whole.body[-5:]
    assert ask(Range="bytes=10-29", If_Range='"other"').body == whole.body
    assert ask(Range="bytes=99999999-").status == 416


def test_an_etag_is_of_one_coding(crm) -> None:
    path = "/cabinet/cabinet.css"
    plain = send_request(crm, path=path).headers["ETag"]
    assert send_request(crm, path=path, headers=GZIP | {"If-None-Match": plain}).status == 200
    resumed = {"Range": "bytes=10-29", "If-Range": plain}
    assert send_request(crm, path=path, headers=GZIP | resumed).status == 200


@each("path", [
    "/cabinet/bootstrap.min.css.map", "/cabinet/../assets.py", "/cabinet/", "/cabinet",
    "/bootstrap/static/css/bootstrap.min.css", "/api/v1/docs/swagger-ui.js",
])  # fmt: skip
def test_nothing_else_of_a_folder_is_served(crm, path: str) -> None:
    assert send_request(crm, path=path).status == 404


def test_the_document_of_the_api_is_compressed_and_checked_by_its_etag(crm) -> None:
    path = "/api/v1/openapi.json"
    plain, packed = send_request(crm, path=path), send_request(crm, path=path, headers=GZIP)
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 8
    etag = packed.headers["ETag"]
    assert send_request(crm, path=path, headers=GZIP | {"If-None-Match": etag}).status == 304
    elsewhere = send_request(crm, path=path, headers=GZIP, SCRIPT_NAME="/crm")
    assert elsewhere.headers["ETag"] != etag


# Icons


def test_the_sprite_has_the_icons_that_pages_use_and_no_others(crm) -> None:
    sprite = send_request(crm, path="/cabinet/icons.svg").body.decode()
    assert set(re.findall(r'<symbol [^>]*id="([^"]+)"', sprite)) == assets.ICONS
    folder = Path(assets.__file__).parent
    sources = [file for kind in ("html", "py", "toml") for file in folder.rglob(f"*.{kind}")]
    text = "".join(file.read_text("utf-8") for file in sources if file.name != "assets.py")
    needless = {name for name in assets.ICONS if f'"{name}"' not in text}
    assert not needless
    named = set(re.findall(r'(?:svg_icon\(|icon=)"([^"]+)"', text))
    assert len(named) > 10 and named <= assets.ICONS


# Pages


def packed(person: Person, path: str) -> Any:
    """A page as a browser gets it; the person's own reading is of texts."""
    return person.client.get(path, base_url=person.home, headers=GZIP)


def test_a_page_without_typed_input_is_compressed(olena) -> None:
    plain = olena.get("/leads")
    assert "Content-Encoding" not in plain.headers
    page = packed(olena, "/leads")
    assert page.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in page.vary and "Accept-Encoding" in plain.vary
    assert page.headers["Cache-Control"] == "no-store"
    text = gzip.decompress(page.data).decode()
    assert (
        text.rpartition("<!--")[0].rstrip().endswith("</html>") and len(page.data) < len(text) / 2
    )
    head = olena.client.head("/leads", base_url=olena.home, headers=GZIP)
    assert (head.headers["Content-Encoding"], head.data) == ("gzip", b"")


def test_a_page_with_typed_input_or_a_shown_secret_is_not(olena) -> None:
    shown = [
        olena.get("/leads?q=guess", headers=GZIP),
        olena.get("/search?q=guess", headers=GZIP),
        olena.get("/nothing", headers=GZIP),
        olena.post("/leads", {"name": "guess", "phone": "guess"}, headers=GZIP),
        olena.post("/settings/api-keys", {"name": "guess", "scopes": "*"}, headers=GZIP),
        olena.post(
            "/settings/webhooks",
            {"url": "https://a.example/", "events": ["lead.created"]},
            headers=GZIP,
        ),
    ]
    assert [page.status_code for page in shown] == [200, 200, 404, 422, 200, 200]
    assert ["Content-Encoding" in page.headers for page in shown] == [False] * len(shown)
    assert "crm_" in shown[4].text and "whsec_" in shown[5].text


def test_the_length_of_a_compressed_page_tells_little(olena) -> None:
    lengths = {len(packed(olena, "/settings/profile").data) for _ in range(40)}
    assert len(lengths) > 10 and max(lengths) - min(lengths) > 40
