"""Files on records: upload, ranges, deletion and restoring, pictures of products, search."""

import hashlib
import io

import pytest

from crm.resources.files import record as files

PLURALS = list(files.NOUNS.values())
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x20\0\0\0\x20\x08\x02\0\0\0" + b"\0" * 20
FIRST = {
    "leads": {"name": "Олена", "phone": "+380671234567"},
    "clients": {"name": "Ромашка"},
    "deals": {"title": "Стіл"},
    "products": {"name": "Стіл", "price": 100},
    "tasks": {"title": "Виміряти"},
}


def upload(api, path, data=b"sketch", name="Ескіз.pdf", type="application/pdf", **options):
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {type}'
    body = f"--limit\r\n{head}\r\n\r\n".encode() + data + b"\r\n--limit--\r\n"
    content_type = "multipart/form-data; boundary=limit"
    return api.post(f"{path}/files", data=body, content_type=content_type, **options)


def add(api, path, *arguments):
    answer = upload(api, path, *arguments)
    assert answer.status_code == 201, answer.text
    return answer.json["file_id"]


@pytest.fixture
def lead(api):
    return f"/leads/{api.create('/leads', **FIRST['leads'])}"


@pytest.mark.parametrize("plural", PLURALS)
def test_a_file_is_added_listed_read_and_deleted(api, plural):
    record = f"/{plural}/{api.create(f'/{plural}', **FIRST[plural])}"
    id = add(api, record)
    (file,) = api.read(f"{record}/files")
    assert file | {"id": id} == file
    assert (file["name"], file["content_type"], file["size"]) == ("Ескіз.pdf", "application/pdf", 6)
    assert file["sha256"] == hashlib.sha256(b"sketch").hexdigest()
    answer = api.get(f"/files/{id}")
    assert (answer.data, answer.content_type) == (b"sketch", "application/pdf")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["Content-Disposition"] == (
        "attachment; filename=eskiz.pdf; filename*=UTF-8''%D0%95%D1%81%D0%BA%D1%96%D0%B7.pdf"
    )
    assert api.delete(f"{record}/files/{id}").status_code == 204
    assert api.read(f"{record}/files") == []
    assert api.get(f"/files/{id}").status_code == 404
    assert api.delete(f"{record}/files/{id}").status_code == 404
    assert api.post(f"{record}/files/{id}/restore").json["id"] == id
    assert api.get(f"/files/{id}").data == b"sketch"


def test_ranges_and_conditions(api, lead):
    file = add(api, lead, b"0123456789")
    whole = api.get(f"/files/{file}")
    etag = whole.headers["ETag"]
    for asked, status, data, content_range in (
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=0-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=10-", 416, None, "bytes */10"),
    ):
        answer = api.get(f"/files/{file}", headers={"Range": asked})
        assert (answer.status_code, answer.headers.get("Content-Range")) == (status, content_range)
        assert data is None or answer.data == data
        assert data is None or int(answer.headers["Content-Length"]) == len(data)
    unchanged = api.get(f"/files/{file}", headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    asked = {"Range": "bytes=2-4"}
    for proof in ('"other"', f"W/{etag}", "Wed, 21 Oct 2015 07:28:00 GMT", ""):
        changed = api.get(f"/files/{file}", headers=asked | {"If-Range": proof})
        assert (changed.status_code, changed.data) == (200, b"0123456789"), proof
    assert api.get(f"/files/{file}", headers=asked | {"If-Range": etag}).data == b"234"
    for headers in ({}, asked):
        head = api.call("HEAD", f"/files/{file}", headers=headers)
        assert (head.status_code, head.headers["Content-Length"], head.data) == (200, "10", b"")


def test_a_file_follows_its_record(api, lead):
    file = add(api, lead)
    assert api.delete(lead).status_code == 204
    assert api.get(f"/files/{file}").status_code == 404
    assert api.get(f"{lead}/files").status_code == 404
    assert api.post(f"{lead}/restore").status_code == 200
    assert api.get(f"/files/{file}").data == b"sketch"


def test_a_file_of_another_record_is_not_found(api, lead):
    file = add(api, lead)
    other = f"/leads/{api.create('/leads', **FIRST['leads'])}"
    assert api.delete(f"{other}/files/{file}").status_code == 404
    client = f"/clients/{api.create('/clients', name='Ромашка')}"
    assert api.delete(f"{client}/files/{file}").status_code == 404


def test_the_first_picture_of_a_product_is_shown(api):
    product = f"/products/{api.create('/products', **FIRST['products'])}"
    add(api, product, b"no picture", "a.png", "image/png")
    assert api.read(product)["picture_id"] is None
    picture = add(api, product, PNG, "a.txt", "text/plain")
    assert api.read(product)["picture_id"] == picture
    second = add(api, product, PNG + b"2", "b.png", "image/png")
    assert api.read(product)["picture_id"] == picture
    assert api.patch(product, {"picture_id": second}).json["picture_id"] == second
    assert api.delete(f"{product}/files/{second}").status_code == 204
    assert api.read(product)["picture_id"] is None
    for wrong in (second, "99"):
        answer = api.patch(product, {"picture_id": wrong})
        assert answer.json["errors"][0]["code"] == "unknown_id"


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../etc/passwd", "passwd"),
        ("", "file"),
        ("a" * 300 + ".pdf", "a" * 251 + ".pdf"),
        ("<script>.html", "<script>.html"),
    ],
)
def test_names_are_data(api, lead, name, stored):
    add(api, lead, b"x", name)
    assert api.read(f"{lead}/files")[0]["name"] == stored


def test_a_repeated_upload_adds_one_file(api, lead):
    first, second = (upload(api, lead, headers={"Idempotency-Key": "one"}) for _ in range(2))
    assert (first.status_code, first.json) == (201, second.json)
    assert len(api.read(f"{lead}/files")) == 1
    other = upload(api, lead, b"other", headers={"Idempotency-Key": "one"})
    assert (other.status_code, other.json["code"]) == (422, "idempotency_key_reused")


def test_bad_uploads(api, lead):
    for data, status, code in (
        ({"file": (io.BytesIO(b""), "a.pdf")}, 422, "empty_file"),
        ({}, 422, "required"),
        ({"other": (io.BytesIO(b"x"), "a.pdf")}, 422, "unknown_field"),
    ):
        answer = api.post(f"{lead}/files", data=data, content_type="multipart/form-data")
        assert (answer.status_code, answer.json["errors"][0]["code"]) == (status, code)
    assert upload(api, lead, b"x" * (files.MAX_BYTES + 1)).status_code == 413
    assert upload(api, "/leads/99").status_code == 404
    assert api.post(f"{lead}/files", {"file": "x"}).status_code == 415
    assert api.read(f"{lead}/files") == []


def test_the_search_finds_files_by_their_names(crm, api, lead):
    file = add(api, lead)
    add(api, lead, b"x", "100%.txt")
    with crm.tenants.session("acme"):
        found = [(one["id"], one["noun"]) for one in files.search("ЕСКІЗ pdf", 5)]
        assert found == [(int(file), "lead")]
        assert [one["name"] for one in files.search("100%", 5)] == ["100%.txt"]
        assert files.search("0%.pdf", 5) == files.search(" ", 5) == []
    api.delete(lead)
    with crm.tenants.session("acme"):
        assert files.search("ескіз", 5) == []


def test_files_stand_in_the_timeline(api, lead):
    file = add(api, lead)
    (entry,) = api.read(f"{lead}/timeline?kind=file")
    assert (entry["id"], entry["title"]) == (file, "Ескіз.pdf")
