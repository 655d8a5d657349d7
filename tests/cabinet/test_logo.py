"""The logo of the company: what is taken, who sees it, and where."""

import io
import re

import pytest

from tests.page_client import Person
from tests.pictures import png

JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x40\x00\x40" + bytes(40)
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + (63).to_bytes(3, "little") * 2
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def send(person: Person, data: bytes):
    file = {"logo": (io.BytesIO(data), "logo.png")}
    return person.post("/settings/company/logo", file, content_type="multipart/form-data")


@pytest.mark.parametrize(
    "data, content_type",
    [(png(64, 32), "image/png"), (JPEG, "image/jpeg"), (WEBP, "image/webp")],
    ids=["png", "jpeg", "webp"],
)
def test_a_logo_is_shown_in_the_menu_and_at_the_login(crm, olena, data, content_type):
    assert send(olena, data).status_code == 303
    (src,) = re.findall(r'src="(/logo\?v=\w+)"', olena.sees("/"))
    stranger = Person(crm)
    assert f'src="{src}"' in stranger.sees("/login")
    answer = stranger.get(src)
    assert (answer.data, answer.content_type) == (data, content_type)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    olena.sends("/settings/company/logo", {"remove": "1"})
    assert "/logo?" not in olena.sees("/")
    assert stranger.get(src).status_code == 404


@pytest.mark.parametrize(
    "data",
    [b"", SVG, b"GIF89a" + bytes(40), png(64, 16), png(16), png(2049), JPEG[:14],
     png(64) + bytes(200_000), WEBP[:29]],
)  # fmt: skip
def test_another_file_is_refused(olena, data):
    page = send(olena, data)
    assert page.status_code == 422 and "invalid-feedback" in page.text
    assert "/logo?" not in olena.sees("/")


def test_each_tenant_has_its_own(crm, olena):
    send(olena, png(64))
    assert Person(crm, "globex", 1).get("/logo").status_code == 404
