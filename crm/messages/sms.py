"""Senders of SMS, chosen by `CRM_SMS`.

`console` writes a line to the standard output. `turbosms` uses the HTTP API of TurboSMS, which
answers 200 to everything: its body has the result for the request and for the recipient. `http`
fills the phone and the text into templates for any other gateway; its 2xx is success.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from crm.config import Config
from crm.config.readers import FORM, JSON, XML, body_type, fill_template
from crm.json import dumps, loads
from crm.messages import Undelivered
from crm.messages.deadline_connection import send_request

TURBOSMS_URL = "https://api.turbosms.ua/message/send.json"
# OK, accepted and sent; with the last two codes some recipients are left out.
ACCEPTED_CODES = {0, 800, 801, 802, 803}
# The same text to the same phone within 90 seconds: the first try was accepted.
DUPLICATE_CODE = 427
TEMPORARY_CODES = (*range(500, 600), 999)  # faults of TurboSMS itself
TEMPORARY_STATUSES = {408, 425, 429}  # below 500, but another try may succeed
MAX_ANSWER_BYTES = 65_536
# One part of an SMS has so many characters of GSM 03.38, or of UCS-2. A longer text is sent and
# paid as several SMS; one Ukrainian letter makes all of a text UCS-2.
GSM_CHARACTERS = 160
UCS2_CHARACTERS = 70  # of UTF-16: what is beyond the basic plane takes two
TWO_CHARACTER_SIGNS = frozenset("^{}\\[~]|")  # two characters each in GSM 03.38

ESCAPES: dict[str, Callable[[str], str]] = {
    JSON: lambda text: json.dumps(text)[1:-1],
    FORM: quote_plus,
    **dict.fromkeys(XML, lambda text: escape(text, {'"': "&quot;", "'": "&apos;"})),
}


class SMSSender(Protocol):
    """Sends SMS."""

    def send(self, phone: str, text: str) -> None:
        """Send one text to one phone in E.164. Raises Undelivered."""


def create_sms_sender(config: Config) -> SMSSender:
    """Return the sender that CRM_SMS chooses."""
    if config.sms == "turbosms":
        return TurboSMSSender(config.sms_token, config.sms_sender, config.sms_url or TURBOSMS_URL)
    if config.sms == "http":
        return HTTPSMSSender(config.sms_url, config.sms_headers, config.sms_body)
    return ConsoleSMSSender()


class ConsoleSMSSender:
    """Writes each SMS as one line to the standard output."""

    def send(self, phone: str, text: str) -> None:
        print(f"SMS to {phone}: {' '.join(text.splitlines())}\n", end="", flush=True)


class TurboSMSSender:
    """Sends SMS by TurboSMS: https://turbosms.ua/api.html"""

    def __init__(self, token: str, sender: str, url: str = TURBOSMS_URL):
        self._token, self._sender, self._url = token, sender, url

    def send(self, phone: str, text: str) -> None:
        message = {
            "recipients": [phone.lstrip("+")],
            "sms": {"sender": self._sender, "text": text},
        }
        headers = {"Content-Type": JSON, "Authorization": f"Bearer {self._token}"}
        request = self._url, headers, dumps(message), MAX_ANSWER_BYTES
        status, body, _ = send_request("POST", *request)
        _expect_2xx("TurboSMS", status)
        try:
            answer = loads(body)
            results = [answer, *(answer.get("response_result") or ())]
            codes = [result.get("response_code") for result in results]
        except (ValueError, TypeError, AttributeError):
            raise Undelivered("TurboSMS answered something else than its JSON") from None
        for code in codes:
            if code == DUPLICATE_CODE:
                return
            if type(code) is not int or code not in ACCEPTED_CODES:
                raise _describe_refusal(code)


class HTTPSMSSender:
    """Sends SMS by any gateway with an HTTP API, from templates of its URL, headers and body.

    {phone} is +380…, {digits} the same without the plus, {text} the text. They are escaped as the
    content type of the body demands, and percent-encoded in the URL and in headers. Without a body
    the request is a GET.
    """

    def __init__(self, url: str, headers: Mapping[str, str], body: str):
        self._url, self._headers, self._body = url, dict(headers), body
        self._content_type = body_type(headers, body)

    def send(self, phone: str, text: str) -> None:
        values = {"phone": phone, "digits": phone.lstrip("+"), "text": text}
        escape_value = ESCAPES[self._content_type]
        quoted = {name: quote(value, safe="") for name, value in values.items()}
        escaped = {name: escape_value(value) for name, value in values.items()}
        headers = {name: fill_template(value, quoted) for name, value in self._headers.items()}
        url, body = fill_template(self._url, quoted), fill_template(self._body, escaped).encode()
        if not body:
            status, *_ = send_request("GET", url, headers)
        else:
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = self._content_type
            status, *_ = send_request("POST", url, headers, body)
        _expect_2xx("the gateway", status)


def _expect_2xx(sender: str, status: int) -> None:
    if not 200 <= status < 300:
        final = status < 500 and status not in TEMPORARY_STATUSES
        raise Undelivered(f"{sender} answered {status}", final=final)


def _describe_refusal(code: Any) -> Undelivered:
    if type(code) is not int or not 0 <= code < 1000:
        return Undelivered("TurboSMS answered without a code of its own")
    return Undelivered(f"TurboSMS answered {code}", final=code not in TEMPORARY_CODES)


def is_one_part(text: str) -> bool:
    """Return whether the text fits into one SMS.

    Of GSM 03.38 only the characters of ASCII are counted on: gateways differ in the others.
    """
    if text.isascii() and "`" not in text:
        size = len(text) + sum(character in TWO_CHARACTER_SIGNS for character in text)
        return size <= GSM_CHARACTERS
    return len(text.encode("utf-16-le")) // 2 <= UCS2_CHARACTERS


def choose_one_part(*texts: str) -> str:
    """Return the first text that fits into one SMS; the last one if none does."""
    return next(filter(is_one_part, texts), texts[-1])
