"""The programs of crm/docs/examples, run with the real service, and as the guides show them."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from crm import create_app
from crm.access import api_keys
from crm.outbox import signature
from crm.storage.session import row
from tests import external_programs
from tests.chromium import open_page, serving
from tests.concurrency import serve_in_thread
from tests.conftest import OLENA
from tests.installations import config_for, copy_installation
from tests.readme import GUIDES, blocks, read
from tests.server_process import (
    TIMEOUT_SECONDS,
    find_free_port,
    wait_until_listening,
)

EXAMPLES = GUIDES / "examples"
RECEIVERS = {
    "receiver.py": lambda path, port: [sys.executable, path, port],
    "receiver.mjs": lambda path, port: [external_programs.found("nodejs", "node"), path, port],
    "receiver.php": lambda path, port: [
        external_programs.found("php-cli", "php"), "-S", f"127.0.0.1:{port}", path
    ],
}  # fmt: skip


@contextmanager
def run_receiver(name: str, folder: Path, secret: str, port: int) -> Iterator[None]:
    """Run an example in a folder of its own."""
    command = RECEIVERS[name](str(EXAMPLES / name), str(port))
    (folder / "received").mkdir(parents=True)
    receiver = subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "WEBHOOK_SECRET": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_listening(port, receiver)
        yield
    finally:
        receiver.terminate()
        receiver.wait(TIMEOUT_SECONDS)


def post(port: int, body: bytes, headers: dict[str, str]) -> int:
    """Send a delivery; return the status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/hook", body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.process
@pytest.mark.parametrize("name", RECEIVERS)
def test_a_receiver_accepts_what_is_signed_and_stores_it_once(tmp_path, name):
    secret, now, port = signature.new_secret(), int(time.time()), find_free_port()
    body = '{"id":"evt_1","data":{"lead":{"name":"Олена"}}}'.encode()
    signed = partial(signature.make_headers, (signature.new_secret(), secret))
    stored = tmp_path / name / "received"
    with run_receiver(name, tmp_path / name, secret, port):
        good = signed("evt_1", now, body)
        assert post(port, body + b" ", good) == 400
        assert post(port, body, signed("evt_1", now - 400, body)) == 400
        other = signature.make_headers((signature.new_secret(),), "evt_1", now, body)
        assert post(port, body, other) == 400
        assert post(port, body, {}) == 400
        assert post(port, body, good | {"webhook-timestamp": "soon"}) == 400
        assert [*stored.iterdir()] == []
        assert post(port, body, good) == 204
        assert post(port, body, signed("evt_1", now, body)) == 204  # the same event again
        assert post(port, body, signed("../evt_2", now, body)) == 204  # stored under no such name
        assert [(path.name, path.read_bytes()) for path in stored.iterdir()] == [
            ("evt_1.json", body)
        ]
    assert [path.name for path in tmp_path.rglob("evt_*")] == ["evt_1.json"]


def test_the_form_says_what_is_wrong_and_creates_a_lead(tmp_path, furnished, browser):
    """What was refused and then changed is another lead, with an Idempotency-Key of its own."""
    app = create_app(config_for(copy_installation(furnished[0], tmp_path / "data")), sends=False)
    with ExitStack() as stack:
        home = stack.enter_context(serving(app))
        folder = tmp_path / "site"
        folder.mkdir()
        site = stack.enter_context(serve_files(folder))
        with app.tenants.session("acme"):
            _, key = api_keys.create("form", "leads:create", OLENA, origins=site)
        page_text = (EXAMPLES / "form.html").read_text("utf-8")
        for shown, real in (("https://acme.crm.example.ua", home), ("crm_…", key)):
            assert page_text.count(shown) == 1
            page_text = page_text.replace(shown, real)
        (folder / "form.html").write_text(page_text, "utf-8")
        page = stack.enter_context(open_page(browser))
        page.goto(f"{site}/form.html")
        keys = []
        page.on("request", lambda sent: keys.append(sent.headers.get("idempotency-key")))
        page.get_by_label("Your name").fill("Марія Коваль")
        page.get_by_label("Phone").fill("12")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("status")).to_have_text("Please check the fields.")
        page.get_by_label("Phone").fill("067 123 45 67")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("status")).to_have_text("Thank you! We will be in touch soon.")
    sent = [key for key in keys if key]
    assert len(sent) == 2 and sent[0] != sent[1]
    with app.tenants.session("acme"):
        assert row("SELECT phone, source FROM lead ORDER BY id DESC LIMIT 1") == (
            *("+380671234567", "site-form"),
        )
    app.tenants.forget_idle()


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """Serve a folder on 127.0.0.1 and yield the address."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Write no line for each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    with serve_in_thread(server):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    ("guide", "language", "example"),
    [
        ("embedding", "python", "shop.py"),
        ("embedding", "python", "site_django.py"),
        ("events-and-webhooks", "python", "receiver.py"),
        ("events-and-webhooks", "js", "receiver.mjs"),
        ("events-and-webhooks", "php", "receiver.php"),
    ],
)
def test_what_a_guide_shows_is_in_the_example(guide, language, example):
    text = (EXAMPLES / example).read_text("utf-8")
    assert f"](examples/{example})" in read(guide)
    shown = [re.sub(r"\A(import .*\n)+", "", block) for block in blocks(read(guide), language)]
    assert any(block.strip() in text for block in shown)


FLOWS = {  # what each program gives the code, and whether the delivery was accepted
    "n8n": """
        const helpers = { getBinaryDataBuffer: async () => body };
        const $input = { first: () => ({ json: { headers } }) };
        const run = async function () { CODE };
        run.call({ helpers }).then(([item]) => print(item.json), () => print(null));
    """,
    "node-red": """
        const crypto = require("crypto"), env = { get: () => secret };
        const run = (msg) => { CODE };
        const msg = run({ req: { headers }, payload: body });
        print(msg.statusCode === 204 ? msg.event : null);
    """,
}


@pytest.mark.process
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_accepts_what_is_signed(name):
    flow = json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))
    nodes = {
        node["type"].rpartition(".")[2]: node for node in (flow["nodes"] if name == "n8n" else flow)
    }
    if name == "n8n":
        assert nodes["webhook"]["parameters"]["options"] == {"rawBody": True}
        code = nodes["code"]["parameters"]["jsCode"]
    else:
        assert nodes["http in"]["skipBodyParsing"] is True
        code = nodes["function"]["func"]
    assert blocks(read(name), "js") == [code]

    secret, now = signature.new_secret(), int(time.time())
    event = {"id": "evt_1", "data": {"lead": {"name": "Олена"}}}
    body = json.dumps(event, ensure_ascii=False)
    good = signature.make_headers((signature.new_secret(), secret), "evt_1", now, body.encode())
    other = signature.make_headers((signature.new_secret(),), "evt_1", now, body.encode())
    old = signature.make_headers((secret,), "evt_1", now - 400, body.encode())
    program = FLOWS[name].replace("CODE", code.replace("whsec_…", secret))
    start = "const [secret, headers, text] = JSON.parse(process.argv[1]);"
    start += (
        " const body = Buffer.from(text), print = (value) => console.log(JSON.stringify(value));"
    )
    node = external_programs.found("nodejs", "node")

    def receive(headers: dict[str, str], text: str = body) -> object:
        sent = json.dumps([secret, headers, text])
        done = subprocess.run(
            [node, "-e", start + program, sent], capture_output=True, timeout=TIMEOUT_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert receive(good) == event
    assert receive(good, body + " ") is receive(other) is receive(old) is receive({}) is None
