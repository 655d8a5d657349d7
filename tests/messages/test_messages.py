"""SMS and e-mail, against real HTTP and SMTP servers on loopback; the post that sends them."""

import json
import logging
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes, policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from crm.config import Config, MailServer
from crm.messages import Attachment, Undelivered, deadline_connection, mail, queue, sms
from crm.messages.queue import MessageQueue
from tests.cases import loop_over
from tests.server_process import find_free_port
from tests.waiting import wait_for

parametrize = pytest.mark.parametrize
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

PHONE = "+380501110001"
TEXT = 'Код "Затишок" & ко: 048213\nнікому {phone} не кажіть \\ <b>'
TOKEN = "t0ken-of-acme"
OLENA = "olena@acme.example"
FROM = Address("Зручна CRM, Inc.", "crm", "crm.example")
PATIENCE = 30  # seconds for what has to come
SECRETS = (PHONE, PHONE[1:], TEXT, "048213", TOKEN, OLENA, "s3cret", "olena")


def undelivered(send: Callable[[], None]) -> Undelivered:
    """The refusal, which tells nothing that is not for the log."""
    with pytest.raises(Undelivered) as refused:
        send()
    reason = refused.value.reason
    assert reason and str(refused.value) == reason and "\n" not in reason
    assert not [secret for secret in SECRETS if secret in reason]
    return refused.value


# Servers


class Gateway:
    """What came, and what is answered: `answer(handler)` writes it."""

    def __init__(self) -> None:
        self.came: list[SimpleNamespace] = []
        self.answer: Callable[[Any], None] = replying(200)
        self.over = threading.Event()
        self.url = ""

    @property
    def last(self) -> SimpleNamespace:
        assert len(self.came) == 1
        return self.came[0]


def replying(status: int, body: Any = b"", **headers: str) -> Callable[[Any], None]:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        response = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(response)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(response)

    return reply


def saying(data: bytes) -> Callable[[Any], None]:
    """These bytes and no more."""
    return lambda handler: handler.wfile.write(data)


@contextmanager
def listening(context: ssl.SSLContext | None = None) -> Iterator[Gateway]:
    gateway = Gateway()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            gateway.came.append(
                SimpleNamespace(method=self.command, path=self.path, headers=headers, body=body)
            )
            self.close_connection = True
            with suppress(OSError):
                gateway.answer(self)

        do_GET = do_POST = take

        def log_message(self, *_: Any) -> None:
            """Not on the screen."""

    class Server(ThreadingHTTPServer):
        daemon_threads = False

        def handle_error(self, *_: Any) -> None:
            """A caller that went away."""

        def get_request(self) -> Any:
            came, address = super().get_request()
            return (context.wrap_socket(came, server_side=True) if context else came), address

    server = Server(("127.0.0.1", 0), Handler)
    gateway.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield gateway
    finally:
        gateway.over.set()
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with listening() as results:
        yield results


class MailBox:
    """A handler of aiosmtpd that keeps what comes; `refuse` names a step and what it answers."""

    def __init__(self, **refuse: str):
        self.came: list[Any] = []
        self.names: list[str] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.encrypted: list[bool] = []
        self.refuse = refuse

    async def handle_EHLO(
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        self.names.append(hostname)
        session.host_name = hostname
        return responses

    async def handle_MAIL(
        self, server: Any, session: Any, envelope: Any, address: str, options: list
    ) -> str:
        envelope.mail_from = address
        return self.refuse.get("sender", "250 OK")

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self.refuse.get("recipient", "250 OK")

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if "data" in self.refuse:
            return self.refuse["data"]
        self.came.append(envelope)
        self.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 taken"

    def authenticate(
        self, server: Any, session: Any, envelope: Any, mechanism: str, given: Any
    ) -> AuthResult:
        self.logins.append((given.login, given.password))
        right = given.password == b"s3cret:@/%"
        return AuthResult(success=right, handled=False)

    def read(self) -> EmailMessage:
        (envelope,) = self.came
        return message_from_bytes(envelope.original_content, policy=policy.default)


@pytest.fixture
def box() -> MailBox:
    return MailBox()


@contextmanager
def mailing(box: MailBox, **options: Any) -> Iterator[int]:
    port = find_free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def login(box: MailBox, **more: Any) -> dict[str, Any]:
    return {"authenticator": box.authenticate, "auth_required": True, **more}


def smtp(port: int, **more: Any) -> mail.SMTPMailSender:
    return mail.SMTPMailSender(
        MailServer(**{"host": "127.0.0.1", "port": port, "tls": False, **more}), FROM
    )


def mail_refusal(port: int, **more: Any) -> Undelivered:
    return undelivered(lambda: smtp(port, **more).send(OLENA, "x", "x"))


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that treats one connection as it likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            server.settimeout(PATIENCE)
            with suppress(OSError), server.accept()[0] as came:
                came.settimeout(PATIENCE)
                talk(came)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certified(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "mail.crm.example").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> trustme.CA:
    """The authority is one of the system's."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return authority


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """A host name that is not this machine's, which leads here all the same."""
    real = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        assert host in ("mail.crm.example", "127.0.0.1"), host
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return "mail.crm.example"


# SMS on the console


def test_the_console_writes_exactly_one_line(capsys):
    sms.create_sms_sender(Config()).send(PHONE, "Код: 048213\r\nнікому")
    assert capsys.readouterr().out == f"SMS to {PHONE}: Код: 048213 нікому\n"


# TurboSMS


def result(code: Any, status: Any = "OK", **more: Any) -> dict[str, Any]:
    return {"phone": PHONE[1:], "response_code": code, "response_status": status, **more}


def turbo(code: Any, status: Any = "OK", results: Any = None) -> dict[str, Any]:
    return {"response_code": code, "response_status": status, "response_result": results}


def test_turbosms_gets_the_key_the_sender_the_phone_and_the_text(gateway):
    gateway.answer = replying(200, turbo(800, "SUCCESS_MESSAGE_ACCEPTED", [result(0)]))
    port = sms.create_sms_sender(
        Config(sms="turbosms", sms_token=TOKEN, sms_sender="Acme", sms_url=gateway.url + "/a.json")
    )
    port.send(PHONE, TEXT)
    came = gateway.last
    assert (came.method, came.path) == ("POST", "/a.json")
    assert came.headers["authorization"] == f"Bearer {TOKEN}"
    assert came.headers["content-type"] == "application/json"
    assert came.headers["host"] == urlsplit(gateway.url).netloc
    assert json.loads(came.body) == {
        "recipients": ["380501110001"],
        "sms": {"sender": "Acme", "text": TEXT},
    }


@parametrize(
    "answer",
    [
        turbo(0, results=[result(0, message_id="f83f")]),
        turbo(0),
        turbo(427, "NOT_ALLOWED_MESSAGE_DUPLICATE"),  # the first try had arrived
        turbo(0, results=[result(427, "NOT_ALLOWED_MESSAGE_DUPLICATE")]),
    ],
)
def test_turbosms_took_it(gateway, answer):
    gateway.answer = replying(200, answer)
    sms.TurboSMSSender(TOKEN, "Acme", gateway.url).send(PHONE, TEXT)
    assert gateway.last.path == "/"


@loop_over(
    ("answer", "reason", "final"),
    [
        (turbo(105, "REQUIRED_AUTH"), "TurboSMS answered 105", True),
        (turbo(999, "FATAL_ERROR"), "TurboSMS answered 999", False),
        (
            turbo(0, results=[result(404, "NOT_ALLOWED_NUMBER_STOPLIST")]),
            "TurboSMS answered 404",
            True,
        ),
        (
            turbo(802, "SUCCESS_MESSAGE_PARTIAL_ACCEPTED", [result(305, "INVALID_PHONE")]),
            "TurboSMS answered 305",
            True,
        ),
        (turbo(200, PHONE), "TurboSMS answered 200", True),
        (turbo(380501110001), "TurboSMS answered without a code of its own", False),
        (turbo(True), "TurboSMS answered without a code of its own", False),
        ({}, "TurboSMS answered without a code of its own", False),
        *[
            (answer, "TurboSMS answered something else than its JSON", False)
            for answer in ([], "OK", None, b"", b'{"response_code": 0', b"\xff", b"[" * 5000)
        ],
        (turbo(0, results=["OK"]), "TurboSMS answered something else than its JSON", False),
    ],
)
def test_turbosms_answers_200_to_what_it_did_not_take(gateway, answer, reason, final):
    gateway.answer = replying(200, answer)
    refused = undelivered(lambda: sms.TurboSMSSender(TOKEN, "Acme", gateway.url).send(PHONE, TEXT))
    assert (refused.reason, refused.final) == (reason, final)


# Any gateway


def http(url: str, body: str = "", **headers: str) -> sms.SMSSender:
    return sms.create_sms_sender(
        Config(sms="http", sms_url=url, sms_headers=headers, sms_body=body)
    )


def test_a_gateway_gets_json(gateway):
    body = '{"to": ["{digits}"], "phone": "{phone}", "msg": {"text": "{text}"}, "n": {digits}}'
    http(gateway.url, body, Authorization="Bearer x").send(PHONE, TEXT)
    came = gateway.last
    assert came.method == "POST"
    assert came.headers["content-type"] == "application/json"
    assert came.headers["authorization"] == "Bearer x"
    assert json.loads(came.body) == {
        **{"to": [PHONE[1:]], "phone": PHONE},
        **{"msg": {"text": TEXT}, "n": 380501110001},
    }


def test_a_gateway_gets_a_form(gateway):
    http(gateway.url + "/send", "login=a&to={phone}&text={text}").send(PHONE, TEXT)
    came = gateway.last
    assert came.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(came.body.decode(), strict_parsing=True) == {
        **{"login": ["a"], "to": [PHONE], "text": [TEXT]}
    }


@parametrize("kind", ["text/xml; charset=utf-8", "application/xml"])
def test_a_gateway_gets_xml(gateway, kind):
    http(gateway.url, '<sms to="{phone}">{text}</sms>', **{"content-type": kind}).send(PHONE, TEXT)
    came = gateway.last
    assert came.headers["content-type"] == kind
    results = ElementTree.fromstring(came.body)
    assert (results.get("to"), results.text) == (PHONE, TEXT)


def test_a_gateway_without_a_body_is_called_by_get(gateway):
    http(gateway.url + "/send/{digits}?psw=s3cret&to={phone}&mes={text}").send(PHONE, TEXT)
    came = gateway.last
    assert (came.method, came.body) == ("GET", b"")
    assert "content-type" not in came.headers
    assert came.path.startswith("/send/380501110001?psw=s3cret&to=%2B380501110001&mes=%D0%9A")
    assert parse_qs(urlsplit(came.path).query)["mes"] == [TEXT]


def test_what_is_sent_stays_one_value_of_a_header(gateway):
    port = http(gateway.url, "{text}", **{"X-To": "{phone}", "X-Text": "{text}"})
    port.send(PHONE, "a\r\nX-Evil: b")
    assert gateway.last.headers["x-to"] == "%2B380501110001"
    assert gateway.last.headers["x-text"] == "a%0D%0AX-Evil%3A%20b"
    assert "x-evil" not in gateway.last.headers


@parametrize(
    ("status", "final"),
    [(301, True), (401, True), (408, False), (429, False), (503, False)],
)
def test_anything_else_is_told_by_its_status(gateway, status, final):
    gateway.answer = replying(status, TEXT.encode(), Location=f"{gateway.url}/{PHONE}")
    refused = undelivered(lambda: http(gateway.url, "{phone}{text}").send(PHONE, TEXT))
    assert (refused.reason, refused.final) == (f"the gateway answered {status}", final)
    assert len(gateway.came) == 1, "a redirect is not followed"


@parametrize(
    "data",
    [b"", b"HTTP/1.1 20", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000],
)
def test_a_head_that_is_cut_or_no_http(gateway, data):
    gateway.answer = saying(data)
    refused = undelivered(lambda: http(gateway.url, "{phone}{text}").send(PHONE, TEXT))
    assert refused.reason.startswith("the connection failed: ") and "SSH" not in refused.reason
    assert not refused.final


@parametrize("body", [b"", b"OK", b"x\r\n"], ids=["none", "cut", "bad"])
def test_after_2xx_no_body_matters(gateway, body):
    framing = b"Transfer-Encoding: chunked" if body.endswith(b"\n") else b"Content-Length: 9"
    gateway.answer = saying(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + body)
    http(gateway.url, "{phone}{text}").send(PHONE, TEXT)
    assert len(gateway.came) == 1


def test_a_gateway_whose_name_is_unknown(monkeypatch):
    def unknown(*_: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    refused = undelivered(lambda: http("http://sms.example", "{phone}{text}").send(PHONE, TEXT))
    assert refused.reason == "the connection failed: unknown"


def test_a_slow_gateway_is_left_in_time(gateway, monkeypatch):
    monkeypatch.setattr(deadline_connection, "STEP_TIMEOUT_SECONDS", 0.3)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        while not gateway.over.wait(0.02):
            handler.wfile.write(b"X")

    gateway.answer = drip
    began = time.monotonic()
    refused = undelivered(lambda: http(gateway.url, "{phone}{text}").send(PHONE, TEXT))
    assert 0.2 < time.monotonic() - began < 20
    assert (refused.reason, refused.final) == ("there was no answer in time", False)


def test_a_gateway_by_tls(certified, trusted):
    with listening(certified) as gateway:
        http(gateway.url, "{phone}{text}").send(PHONE, TEXT)
        assert gateway.last.headers["host"] == urlsplit(gateway.url).netloc


def test_nothing_is_logged_of_a_call(gateway, caplog):
    caplog.set_level(logging.DEBUG)
    gateway.answer = saying(b"HTTP/1.1 200 OK\r\nbad header\r\nContent-Length: 0\r\n\r\n")
    http(gateway.url + "/?to={phone}&text={text}").send(PHONE, TEXT)
    assert not caplog.records


# E-mail


def test_the_console_shows_an_email(capsys):
    mail.create_mail_sender(Config()).send(
        OLENA, "Новий\nпароль", "https://acme.crm.example/x\n30 хвилин"
    )
    assert capsys.readouterr().out == (
        f"MAIL to {OLENA}: Новий пароль\nhttps://acme.crm.example/x\n30 хвилин\n"
    )


def test_an_email_arrives_whole(box):
    text = f"Посилання: https://acme.crm.example/{'a' * 200}?b=1\n.\nFrom я\n"
    with mailing(box) as port:
        config = Config(mail=MailServer("127.0.0.1", port, False), mail_from=FROM)
        mail.create_mail_sender(config).send(OLENA, "Новий пароль " + "дуже " * 40, text)
    (envelope,) = box.came
    assert (envelope.mail_from, envelope.rcpt_tos) == ("crm@crm.example", [OLENA])
    assert max(map(len, envelope.original_content.splitlines())) <= 998
    assert envelope.original_content.isascii(), "any server can carry it"
    message = box.read()
    assert message["from"] == '"Зручна CRM, Inc." <crm@crm.example>'
    assert message["to"] == OLENA
    assert message["subject"] == "Новий пароль " + " ".join(["дуже"] * 40)
    assert re.fullmatch(r"<[^@<>\s]+@crm\.example>", message["message-id"])
    assert abs(parsedate_to_datetime(message["date"]).timestamp() - time.time()) < 60
    assert message["auto-submitted"] == "auto-generated"
    assert message.get_content_type() == "text/plain"
    assert message.get_content_charset() == "utf-8"
    assert message.get_content().replace("\r\n", "\n") == text
    assert box.names == ["crm.example"], "this machine's name is not asked for"


PDF = Attachment("рахунок-1-2026.pdf", "application/pdf", bytes(range(256)) * 200)


def test_an_email_carries_a_file(box, capsys):
    with mailing(box) as port:
        smtp(port).send(OLENA, "Рахунок", "Добрий день", PDF)
    assert box.came[0].original_content.isascii()
    text, file = box.read().iter_parts()
    assert text.get_content() == "Добрий день\r\n"
    assert (file.get_filename(), file.get_content_type()) == PDF[:2]
    assert file.get_content() == PDF.content
    mail.ConsoleMailSender().send(OLENA, "Рахунок", "x", PDF)
    assert capsys.readouterr().out == f"MAIL to {OLENA}: Рахунок\nx\n[{PDF.name}]\n"


@parametrize("subject", ["a\r\nBcc: eve@evil.example", "a\0\u2028Bcc: b"])
def test_no_subject_makes_a_header(box, subject):
    with mailing(box) as port:
        smtp(port).send(OLENA, subject, "x")
    assert box.came[0].rcpt_tos == [OLENA]
    assert box.read()["bcc"] is None
    assert box.read()["subject"].startswith("a")
    assert box.read().get_content() == "x\r\n"


@loop_over(
    "to",
    ["", "olena", f"{OLENA}, eve@evil.example", f"{OLENA}\r\nBcc: eve@evil.example", f"<{OLENA}>"],
)
def test_an_email_goes_to_one_address_or_nowhere(to):
    refused = undelivered(lambda: smtp(1).send(to, "x", "x"))
    assert (refused.reason, refused.final) == ("the address is no e-mail address", True)


def test_names_of_other_scripts_need_a_server_that_takes_them_and_domains_do_not(box):
    with mailing(box, enable_SMTPUTF8=True) as port:
        smtp(port).send("олена@acme.example", "x", "x")
    with mailing(box, enable_SMTPUTF8=False) as port:
        smtp(port).send("olena@пошта.укр", "x", "x")
        refused = undelivered(lambda: smtp(port).send("олена@acme.example", "x", "x"))
    recipients = [envelope.rcpt_tos for envelope in box.came]
    assert recipients == [["олена@acme.example"], ["olena@xn--80a1acn3a.xn--j1amh"]]
    assert refused.final and "lacks" in refused.reason


def test_a_password_goes_by_starttls(box, certified, trusted):
    options = login(box, tls_context=certified, require_starttls=True)
    with mailing(box, **options) as port:
        config = Config.load({
            "CRM_MAIL": f"smtp://crm%40acme:s3cret%3A%40%2F%25@127.0.0.1:{port}",
            "CRM_MAIL_FROM": "CRM <crm@crm.example>",
        })  # fmt: skip
        mail.create_mail_sender(config).send(OLENA, "x", "x")
    assert set(box.logins) == {(b"crm@acme", b"s3cret:@/%")}
    assert box.encrypted == [True]


def test_a_password_goes_by_tls(box, certified, trusted):
    with mailing(box, ssl_context=certified, **login(box, auth_require_tls=False)) as port:
        smtp(port, tls=True, user="crm", password="s3cret:@/%").send(OLENA, "x", "x")
    assert (box.logins, box.encrypted) == ([(b"crm", b"s3cret:@/%")], [True])


def test_without_a_password_tls_is_used_where_it_is_offered(box, certified, trusted, elsewhere):
    with mailing(box, tls_context=certified) as port:
        smtp(port, host=elsewhere).send(OLENA, "x", "x")
    with mailing(box) as port:
        smtp(port, host=elsewhere).send(OLENA, "x", "x")
    assert box.encrypted == [True, False]


def test_no_password_goes_to_another_machine_in_the_clear(box, elsewhere):
    with mailing(box, **login(box, auth_require_tls=False)) as port:
        refused = mail_refusal(port, host=elsewhere, user="crm", password="s3cret:@/%")
    assert refused.final and "no TLS" in refused.reason
    assert not box.logins and not box.came


def test_on_this_machine_a_password_needs_no_tls_and_tls_without_one_no_certificate(box, certified):
    with mailing(box, **login(box, auth_require_tls=False)) as port:
        smtp(port, user="crm", password="s3cret:@/%").send(OLENA, "x", "x")
    with mailing(box, tls_context=certified) as port:
        smtp(port).send(OLENA, "x", "x")
    assert (box.logins, box.encrypted) == ([(b"crm", b"s3cret:@/%")], [False, False])


@parametrize("tls", [False, True], ids=["starttls", "smtps"])
def test_a_mail_server_that_is_not_trusted_gets_no_password(certified, tls):
    def talk(came: socket.socket) -> None:
        if not tls:
            came.sendall(b"220 hello\r\n")
            came.recv(999)
            came.sendall(b"250-hello\r\n250 STARTTLS\r\n")
            came.recv(999)
            came.sendall(b"220 go\r\n")
        certified.wrap_socket(came, server_side=True).close()

    with talking(talk) as port:
        refused = mail_refusal(port, tls=tls, user="crm", password="s3cret")
    assert "certificate verify failed" in refused.reason


def test_a_wrong_password_is_told_and_not_tried_again(box):
    with mailing(box, **login(box, auth_require_tls=False)) as port:
        refused = mail_refusal(port, user="crm", password="s3cret-wrong")
    assert (refused.reason, refused.final) == ("the mail server refused the login (535)", True)


@parametrize(
    ("step", "answer", "reason", "final"),
    [
        ("recipient", f"550 5.1.1 {OLENA} unknown", "refused the recipient (550)", True),
        ("recipient", "451 greylisted", "refused the recipient (451)", False),
        ("sender", "550 not you", "refused the message (550)", True),
        ("data", f"554 spam for {OLENA}", "refused the message (554)", True),
        ("data", "452 full", "refused the message (452)", False),
    ],
)
def test_what_a_mail_server_refuses_is_told_by_its_code(step, answer, reason, final):
    box = MailBox(**{step: answer})
    with mailing(box) as port:
        refused = mail_refusal(port)
    assert (refused.reason, refused.final) == (f"the mail server {reason}", final)


@parametrize(
    ("greeting", "reason"),
    [(b"554 go away\r\n", "the mail server refused the message (554)"),
     (b"", "the connection failed"), (b"220", "the connection failed"),
     (b"HTTP/1.1 400\r\n", "the mail server refused the message (-1)")],
)  # fmt: skip
def test_a_mail_server_that_is_none(greeting, reason):
    with talking(lambda came: came.sendall(greeting)) as port:
        refused = mail_refusal(port)
    assert refused.reason.startswith(reason) and refused.final == reason.endswith("(554)")


def obey(came: socket.socket, until: bytes = b"never") -> None:
    """Says yes to everything."""
    came.sendall(b"220 hello\r\n")
    while (line := came.recv(9999)) and until not in line:
        came.sendall(b"354 go\r\n" if line.startswith(b"data") else b"250 yes\r\n")


def test_what_was_taken_is_sent_however_the_talk_ends():
    with talking(lambda came: obey(came, until=b"quit")) as port:
        smtp(port).send(OLENA, "x", "x")


@parametrize("silent", [True, False], ids=["silent", "a byte now and then"])
def test_a_slow_mail_server_is_left_in_time(monkeypatch, silent):
    monkeypatch.setattr(deadline_connection, "STEP_TIMEOUT_SECONDS", 0.3 if silent else 60)
    monkeypatch.setattr(mail, "SESSION_TIMEOUT_SECONDS", 60 if silent else 0.3)

    def drip(came: socket.socket) -> None:
        while True:
            came.sendall(b"" if silent else b"2")
            time.sleep(0.02)
            if silent and came.recv(9) == b"":
                return

    began = time.monotonic()
    with talking(drip) as port:
        refused = mail_refusal(port)
    assert 0.2 < time.monotonic() - began < 20
    assert (refused.reason, refused.final) == ("there was no answer in time", False)


# The post


class Sent:
    """A port that notes what it is given; `fails` are raised first, one at each call."""

    def __init__(self, *fails: Exception):
        self.came: Queue[tuple[str, ...]] = Queue()
        self.fails = list(fails)
        self.times: list[float] = []

    def send(self, *message: str) -> None:
        self.times.append(time.monotonic())
        if self.fails:
            raise self.fails.pop(0)
        self.came.put(message)

    def take(self) -> tuple[str, ...]:
        return self.came.get(timeout=PATIENCE)


class Stuck(Sent):
    """Begins and doesn't end until it is let go."""

    def __init__(self, *fails: Exception) -> None:
        super().__init__(*fails)
        self.begun, self.go = threading.Event(), threading.Event()

    def send(self, *message: str) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        super().send(*message)


@pytest.fixture
def posting() -> Iterator[Callable[..., MessageQueue]]:
    made: list[MessageQueue] = []

    def make(sms: Any = None, mail: Any = None, **more: Any) -> MessageQueue:
        made.append(MessageQueue(sms or Sent(), mail or Sent(), **{"retry_seconds": 0.05, **more}))
        return made[-1]

    yield make
    for results in made:
        results.close(PATIENCE)
    assert not [thread for thread in threading.enumerate() if thread.name == "messages"]


def warnings(caplog: Any) -> list[str]:
    results = [(record.levelname, record.name, record.exc_info) for record in caplog.records]
    assert set(results) <= {("WARNING", "crm", None)}
    assert not [secret for secret in SECRETS if secret in caplog.text]
    return [record.getMessage() for record in caplog.records]


def test_a_mail_server_that_hangs_keeps_no_code_waiting(posting):
    stuck, sent = Stuck(), Sent()
    made = posting(sent, stuck)
    made.enqueue_mail(OLENA, "x", "y")
    assert stuck.begun.wait(PATIENCE)
    made.enqueue_sms(PHONE, TEXT)
    assert sent.take() == (PHONE, TEXT)
    stuck.go.set()
    assert stuck.take() == (OLENA, "x", "y")


def test_what_failed_is_tried_once_more_after_a_pause(posting, caplog):
    sent = Stuck(Undelivered("the connection was refused"))
    made = posting(sent, retry_seconds=0.5)
    made.enqueue_sms(PHONE, "first")
    made.enqueue_sms(PHONE, "second")
    sent.go.set()
    assert sent.take() == (PHONE, "second"), "others go on meanwhile"
    assert sent.take() == (PHONE, "first")
    assert sent.times[2] - sent.times[0] >= 0.5
    assert warnings(caplog) == []


def test_what_failed_twice_or_was_refused_for_good_is_one_line_of_the_log(posting, caplog):
    sent = Sent(*[Undelivered("the connection was refused")] * 2, ValueError(f"{TEXT} {PHONE}"),
                ValueError(TEXT))  # fmt: skip
    refused = Sent(Undelivered("the mail server refused the login (535)", final=True))
    made = posting(sent, refused)
    made.enqueue_sms(PHONE, TEXT)
    wait_for(lambda: len(sent.fails) <= 2)
    made.enqueue_sms(PHONE, TEXT)
    made.enqueue_mail(OLENA, "x", "y")
    made.close(PATIENCE)
    assert sent.came.empty() and (len(sent.times), len(refused.times)) == (4, 1)
    assert sorted(warnings(caplog)) == [
        "an SMS could not be sent: the connection was refused",
        "an SMS could not be sent: unexpected ValueError",
        "an e-mail could not be sent: the mail server refused the login (535)",
    ]


def test_the_queue_has_an_end(posting, caplog, monkeypatch):
    monkeypatch.setattr(queue, "MAX_WAITING", 3)
    stuck = Stuck()
    made = posting(stuck)
    made.enqueue_sms(PHONE, "0")
    assert stuck.begun.wait(PATIENCE)
    for number in range(1, 6):
        made.enqueue_sms(PHONE, str(number))
    assert warnings(caplog) == ["an SMS could not be sent: 3 are waiting already"] * 2
    stuck.go.set()
    assert [stuck.take()[1] for _ in range(4)] == ["0", "1", "2", "3"]


def test_few_emails_that_wait_have_files(posting, monkeypatch):
    monkeypatch.setattr(queue, "MAX_WAITING_WITH_FILES", 1)
    stuck = Stuck()
    made = posting(mail=stuck)
    made.enqueue_mail(OLENA, "0", "x", PDF)
    assert stuck.begun.wait(PATIENCE)
    for number in "12":
        made.enqueue_mail(OLENA, number, "x", PDF)
    stuck.go.set()
    assert [stuck.take()[1:] for _ in range(3)] == [("0", "x", PDF), ("1", "x", PDF), ("2", "x")]


def test_closing_sends_what_waits_without_pauses_and_takes_no_more(posting, caplog):
    sent = Sent(Undelivered("the connection was refused"))
    made = posting(sent, retry_seconds=60)
    made.enqueue_sms(PHONE, "first")
    made.enqueue_sms(PHONE, "second")
    began = time.monotonic()
    made.close(PATIENCE)
    assert time.monotonic() - began < 20
    assert {sent.take()[1], sent.take()[1]} == {"first", "second"}
    made.enqueue_sms(PHONE, "late")
    made.close(PATIENCE)
    assert sent.came.empty()
    assert warnings(caplog) == ["an SMS could not be sent: the service stops"]


def test_what_cannot_be_sent_in_time_is_told_at_the_end(posting, caplog):
    stuck = Stuck()
    made = posting(stuck)
    for _ in range(3):
        made.enqueue_sms(PHONE, TEXT)
    assert stuck.begun.wait(PATIENCE)
    made.close(0.05)
    assert warnings(caplog) == ["an SMS could not be sent: the service stops while 3 of them wait"]
    stuck.go.set()
    assert stuck.take() == (PHONE, TEXT)


def test_only_a_demo_keeps_what_was_sent_and_for_five_minutes(posting, clock):
    made = posting(keeps_texts=True, clock=clock)
    assert made.get_last_sms(PHONE) is None
    made.enqueue_sms(PHONE, "first")
    made.enqueue_sms(PHONE, "second")
    made.enqueue_mail(OLENA, "x", "y")
    clock.tick(299)
    made.enqueue_sms("+380501110002", "other")
    assert made.get_last_sms(PHONE) == "second"
    clock.tick(1)
    assert made.get_last_sms(PHONE) is None
    assert made.get_last_sms("+380501110002") == "other"

    plain = posting(clock=clock)
    plain.enqueue_sms(PHONE, "first")
    assert plain.get_last_sms(PHONE) is None


SCRIPT = """
import os, sys, time
from crm.config import Config
from crm.messages import mail, sms
from crm.messages.queue import MessageQueue

class Slow(sms.ConsoleSMSSender):
    def send(self, phone, text):
        time.sleep(0.1)
        super().send(phone, text)

queue = MessageQueue(Slow(), mail.create_mail_sender(Config()))
queue.enqueue_sms("+380501110001", "before the fork")
child = os.fork()
queue.enqueue_sms("+380501110001", "of the child" if child == 0 else "of the parent")
queue.enqueue_mail("olena@acme.example", "x", "of the child" if child == 0 else "of the parent")
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.process
def test_each_process_sends_its_own_and_sends_it_before_it_ends():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=Path(queue.__file__).parents[2], capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("SMS")) == [
        f"SMS to {PHONE}: {which}" for which in ("before the fork", "of the child", "of the parent")
    ]
    assert lines.count("of the child") == lines.count("of the parent") == 1
