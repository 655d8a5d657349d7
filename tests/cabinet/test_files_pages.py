"""Files on the pages of records: adding without the script, the list, undo, pictures, search."""

import os
import re
import tempfile

import pytest

from crm.resources import users
from crm.resources.files import record as files
from tests.memory import peak_bytes
from tests.page_client import Person
from tests.pictures import png
from tests.resources.test_files import FIRST, PLURALS, add, upload

PDF = b"%PDF-1.7 sketch"


@pytest.fixture
def lead(api) -> str:
    return f"/leads/{api.create('/leads', **FIRST['leads'])}"


@pytest.fixture
def product(api) -> str:
    return f"/products/{api.create('/products', **FIRST['products'])}"


def send(person: Person, record: str, *parts: tuple[bytes, str], token: str = ""):
    """What a browser without the script sends; made here, as sent_whole() says."""
    if person._token is None:
        person.sees("/")
    head = '--x\r\nContent-Disposition: form-data; name="{}"'
    body = f"{head.format('csrf_token')}\r\n\r\n{token or person._token}\r\n".encode()
    for data, name in parts:
        body += f'{head.format("file")}; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
    kind = "multipart/form-data; boundary=x"
    return person.open("POST", f"{record}/files", data=body + b"--x--\r\n", content_type=kind)


@pytest.mark.parametrize("plural", PLURALS)
def test_files_are_added_shown_deleted_and_put_back(olena, api, plural):
    record = f"/{plural}/{api.create(f'/{plural}', **FIRST[plural])}"
    page = send(olena, record, (PDF, "Ескіз.pdf"), (b"x" * 2048, "Замір.txt"))
    assert (page.status_code, page.location) == (303, f"{record}#files")
    page = olena.sees(record)
    assert "Додано 2 файли" in page and "2 кБ · Olena" in page
    id, other = re.findall(r'href="/files/(\d+)" download>(?:Ескіз|Замір)', page)
    assert int(id) > int(other), "the newest first"
    answer = olena.get(f"/files/{other}")
    assert answer.data == PDF
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"].startswith(
        "private" if plural == "products" else "no-store"
    )
    assert olena.get(f"/files/{other}", headers={"Range": "bytes=0-3"}).data == b"%PDF"
    assert olena.sends(f"{record}/files/{other}/delete") == f"{record}#files"
    page = olena.sees(record)
    assert "«Ескіз.pdf» видалено" in page and f"/files/{other}" not in page.split("file-list")[1]
    assert olena.get(f"/files/{other}").status_code == 404
    (undo,) = re.findall(r'action="([^"]+/restore)"', page)
    assert olena.sends(undo) == f"{record}#files"
    assert olena.get(f"/files/{other}").data == PDF


@pytest.mark.parametrize(
    ("parts", "status", "text"),
    [
        ([(PDF, "a.pdf"), (b"", "empty.pdf")], 422, "Файл порожній."),
        ([(b"", "")], 422, "Виберіть файл."),
        ([(b"x" * (files.MAX_BYTES + 1), "big.mov")], 413, "до 20 МБ"),
        ([(b"x", "a")] * 40, 413, "до 20 МБ"),
    ],
)
def test_what_is_not_taken_says_why_and_leaves_nothing(olena, api, lead, parts, status, text):
    page = send(olena, lead, *parts)
    assert page.status_code == status
    assert text in re.search(r'class="error-about">\s*<p>(.*?)</p>', page.text)[1]
    assert api.read(f"{lead}/files") == []


def test_an_upload_is_never_in_memory_as_a_whole(olena, api, lead):
    olena.sees(lead)
    send(olena, lead, (PDF, "first.pdf"))  # what is done once
    head = '--x\r\nContent-Disposition: form-data; name="{}"'
    token = f"{head.format('csrf_token')}\r\n\r\n{olena._token}\r\n"
    with tempfile.TemporaryFile() as body:
        body.write(f'{token}{head.format("file")}; filename="a.mov"\r\n\r\n'.encode())
        body.seek(files.MAX_BYTES - 1, os.SEEK_CUR)
        body.write(b"x\r\n--x--\r\n")
        sent = {"input_stream": body, "content_length": body.tell()}
        sent["content_type"] = "multipart/form-data; boundary=x"
        body.seek(0)
        assert peak_bytes(lambda: olena.open("POST", f"{lead}/files", **sent)) < 6 << 20
    assert olena.page.status_code == 303
    assert api.read(f"{lead}/files")[0]["size"] == files.MAX_BYTES


def test_an_upload_without_the_token_is_refused(olena, api, lead):
    assert send(olena, lead, (PDF, "a.pdf"), token="x").status_code == 400
    assert api.read(f"{lead}/files") == []


def test_a_viewer_reads_files_and_is_offered_no_upload(olena, viewer, api, lead):
    file = add(api, lead)
    page = viewer.sees(lead)
    assert f'href="/files/{file}"' in page
    assert 'type="file"' not in page and "/delete" not in page
    assert viewer.get(f"/files/{file}").data == b"sketch"
    assert send(viewer, lead, (PDF, "a.pdf")).status_code == 403
    assert viewer.post(f"{lead}/files/{file}/delete").status_code == 403


def test_files_of_others_are_not_found(crm, api, ivan, lead):
    """Ivan at globex has a file of the same id; a seller at acme does not see Olena's lead."""
    file = add(api, lead)
    of_ivan = f"/leads/{ivan.create('/leads', **FIRST['leads'])}"
    for name in ("a.txt", "b.txt"):
        last = add(ivan, of_ivan, b"IVAN", name)
    with crm.tenants.session("acme"):
        id = users.create({"name": "Solomiya", "role": "seller", "phone": "+380501110009"}).id
    api.patch(lead, {"assigned_to": "1"})
    seller, olena = Person(crm, user_id=id), Person(crm, user_id=1)
    assert olena.get(f"/files/{last}").status_code == 404
    assert b"IVAN" not in olena.get(f"/files/{file}").data
    for path in (f"/files/{file}", lead):
        assert seller.get(path).status_code == 404
    assert send(seller, lead, (PDF, "a.pdf")).status_code == 404
    assert seller.post(f"{lead}/files/{file}/delete").status_code == 404
    assert "Ескіз" not in seller.sees("/search?q=ескіз").split("<main")[1].split("</form>")[1]
    api.patch(lead, {"assigned_to": str(id)})
    assert seller.get(f"/files/{file}").data == b"sketch"
    assert f'href="{lead}#files"' in seller.sees("/search?q=ескіз")
    assert send(seller, lead, (PDF, "a.pdf")).status_code == 303


def test_names_are_texts_and_html_is_never_a_page(olena, api, lead):
    file = add(api, lead, b"<script>alert(1)</script>", "<b>x.html", "text/html")
    for path in (lead, "/search?q=x.html", f"{lead}/timeline?kind=file"):
        assert "&lt;b&gt;" in olena.sees(path) and "<b>x.html" not in olena.page.text
    answer = olena.get(f"/files/{file}")
    assert answer.headers["Content-Disposition"].startswith("attachment; ")


def test_a_file_stands_in_the_history_of_the_lead_and_of_its_client(olena, api, lead):
    file = add(api, lead)
    client = api.post(f"{lead}/convert", {}).json["client_id"]
    for path in (lead, f"/clients/{client}", f"/clients/{client}/timeline?kind=file"):
        timeline = olena.sees(path).split('id="timeline"')[1]
        assert f'href="/files/{file}">Ескіз.pdf</a>' in timeline
    assert "/timeline?kind=file" in olena.page.text


def test_many_files_are_shown_when_asked_for(olena, api, lead):
    for number in range(21):
        add(api, lead, b"x", f"{number}.txt")
    page = olena.sees(lead).split('id="file-list"')[1].split("</ul>")[0]
    assert page.count("<li>") == 20 + 1 and "0.txt" not in re.findall(r">(\d+\.txt)<", page)
    page = olena.sees(f"{lead}?files=all").split('id="file-list"')[1].split("</ul>")[0]
    assert page.count("<li>") == 21 and "?files=all" not in page


def test_the_picture_of_a_product_is_shown_and_chosen(olena, api, product):
    for name in ("a.png", "b.png"):
        assert send(olena, product, (png(40), name)).status_code == 303
    assert send(olena, product, (b"no picture", "c.png")).status_code == 303
    first, second = (one["id"] for one in reversed(api.read(f"{product}/files")[1:]))
    small = '<img class="thumb" src="/files/{}" loading="lazy" width="40" height="40" alt="">'
    for path in ("/products", "/choices/products?q=стіл"):
        assert small.format(first) in olena.sees(path)
    answer = olena.get(f"/files/{first}")
    assert (answer.content_type, answer.data) == ("image/png", png(40))
    assert answer.headers["Content-Disposition"].startswith("inline; ")
    page = olena.sees(product)
    assert f'<img class="picture" src="/files/{first}"' in page
    assert re.findall(r'name="picture_id" value="(\d+)"', page) == [second]
    assert olena.sends(f"{product}/picture", {"picture_id": second}) == f"{product}#files"
    assert small.format(second) in olena.sees("/products")
    olena.sends(f"{product}/files/{first}/delete")
    olena.sends(f"{product}/files/{second}/delete")
    assert "thumb" not in olena.sees("/products")
    olena.sends(f"{product}/files/{second}/restore")
    assert small.format(second) in olena.sees("/products"), "its undo shows it again"


def test_files_are_counted_before_a_merge_and_an_erasure(olena, api):
    one, other = (f"/clients/{api.create('/clients', name=name)}" for name in ("Анна", "Ганна"))
    for client in (one, other):
        add(api, client)
    page = olena.sees(f"{one}/merge/{other.rpartition('/')[2]}")
    assert "файли: 1" in page
    page = olena.post(f"{one}/erase").text
    assert "файли: 1" in page and "як вимагає закон" not in page


def test_a_broken_range_says_so(olena, api, lead):
    file = add(api, lead)
    answer = olena.get(f"/files/{file}", headers={"Range": "bytes=99-"})
    assert answer.status_code == 416 and answer.headers["Content-Range"] == "bytes */6"
    assert upload(api, lead).status_code == 201
