"""SMS: one small port with three ways out, chosen by `CRM_SMS`.

`console` writes a line to the standard output. `turbosms` speaks the HTTP API of TurboSMS, which
answers 200 to everything: what counts is in the body, for the request and for the recipient.
`http` fills the phone and the text into the settings of any other gateway, whose 2xx is success.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, Protocol
from urllib.parse import quote, quote_plus, urlsplit
from xml.sax.saxutils import escape

from crm.config import FORM, JSON, XML, Config, body_type, fill_template
from crm.json import dumps, loads
from crm.messages import Undelivered, write_to_stdout
from crm.messages.deadline_connection import open_connection

TURBOSMS_URL = "https://api.turbosms.ua/message/send.json"
ACCEPTED_CODES = {
    0,
    800,
    801,
    802,
    803,
}  # OK, accepted, sent; the last two: with recipients left out
DUPLICATE_CODE = 427  # the same text to the same phone within 90 seconds: the first try had arrived
TEMPORARY_CODES = (*range(500, 600), 999)
TEMPORARY_STATUSES = {408, 425, 429}  # statuses below 500 that another try may cure
MAX_ANSWER_BYTES = 65_536
STATUS_NAME = re.compile(r"[A-Z]+(?:_[A-Z]+)*\Z")

ESCAPES: dict[str, Callable[[str], str]] = {
    JSON: lambda text: json.dumps(text)[1:-1],
    FORM: quote_plus,
    **dict.fromkeys(XML, lambda text: escape(text, {'"': "&quot;", "'": "&apos;"})),
}


class SMSSender(Protocol):
    """Sends one text to one phone, given as E.164. Raises Undelivered."""

    def send(self, phone: str, text: str) -> None: ...


def create_sms_sender(config: Config) -> SMSSender:
    """The port that the settings choose."""
    if config.sms == "turbosms":
        return TurboSMSSender(config.sms_token, config.sms_sender, config.sms_url or TURBOSMS_URL)
    if config.sms == "http":
        return HTTPSMSSender(config.sms_url, config.sms_headers, config.sms_body)
    return ConsoleSMSSender()


class ConsoleSMSSender:
    """One line of the standard output for each SMS."""

    def send(self, phone: str, text: str) -> None:
        write_to_stdout(f"SMS to {phone}: {' '.join(text.splitlines())}")


class TurboSMSSender:
    """https://turbosms.ua/api.html"""

    def __init__(self, token: str, sender: str, url: str = TURBOSMS_URL):
        self._token, self._sender, self._url = token, sender, url

    def send(self, phone: str, text: str) -> None:
        sent = {
            "recipients": [phone.lstrip("+")],
            "sms": {"sender": self._sender, "text": text},
        }
        headers = {"Content-Type": JSON, "Authorization": f"Bearer {self._token}"}
        status, body = _send_request("POST", self._url, headers, dumps(sent), MAX_ANSWER_BYTES)
        _expect_2xx("TurboSMS", status)
        try:
            answer = loads(body)
            results = [answer, *(answer.get("response_result") or ())]
            told = [(result.get("response_code"), result) for result in results]
        except (ValueError, TypeError, AttributeError):
            raise Undelivered("TurboSMS answered something else than its JSON") from None
        for code, result in told:
            if code == DUPLICATE_CODE:
                return
            if type(code) is not int or code not in ACCEPTED_CODES:
                raise _refused(code, result.get("response_status"))


class HTTPSMSSender:
    """Any gateway: {phone} is +380…, {digits} the same without the plus, {text} what is sent.

    They are escaped as the content type of the body demands, and percent-encoded in the URL and in
    headers. Without a body it is a GET.
    """

    def __init__(self, url: str, headers: Mapping[str, str], body: str):
        self._url, self._headers, self._body = url, dict(headers), body
        self._type = body_type(headers, body)

    def send(self, phone: str, text: str) -> None:
        values = {"phone": phone, "digits": phone.lstrip("+"), "text": text}
        quoted = {name: quote(value, safe="") for name, value in values.items()}
        escaped = {name: ESCAPES[self._type](value) for name, value in values.items()}
        headers = {name: fill_template(value, quoted) for name, value in self._headers.items()}
        url, body = fill_template(self._url, quoted), fill_template(self._body, escaped).encode()
        if not body:
            status, _ = _send_request("GET", url, headers)
        else:
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = self._type
            status, _ = _send_request("POST", url, headers, body)
        _expect_2xx("the gateway", status)


def _send_request(
    method: str, url: str, headers: dict[str, str], body: bytes | None = None, room: int = 0
) -> tuple[int, bytes]:
    """One request: the status, and as much of the answer's body as there is room for.

    By the standard library, because urllib3 logs URLs, which may hold phone and text. Redirects
    are not followed.
    """
    to = urlsplit(url)
    tls = to.scheme == "https"
    host, port = to.hostname or "", to.port or (443 if tls else 80)
    target = (to.path or "/") + (f"?{to.query}" if to.query else "")
    sent = {"Host": to.netloc, "User-Agent": "crm", "Connection": "close", **headers}
    with (
        open_connection(host, port, tls) as socket,
        closing(HTTPConnection(host, port)) as connection,
    ):
        connection.sock = socket
        connection.request(method, target, body, sent)
        with connection.getresponse() as answer:
            return answer.status, answer.read(room) if room else b""


def _expect_2xx(who: str, status: int) -> None:
    if not 200 <= status < 300:
        final = status < 500 and status not in TEMPORARY_STATUSES
        raise Undelivered(f"{who} answered {status}", final=final)


def _refused(code: Any, name: Any) -> Undelivered:
    if type(code) is not int or not 0 <= code < 1000:
        return Undelivered("TurboSMS answered without a code of its own")
    named = f" {name}" if isinstance(name, str) and STATUS_NAME.match(name) else ""
    return Undelivered(f"TurboSMS answered {code}{named}", final=code not in TEMPORARY_CODES)
