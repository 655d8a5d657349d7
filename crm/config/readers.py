"""Readers: functions that turn the text of a setting into its value, and what makes them.

They raise ValueError with the end of a sentence that begins with the setting's name and "it".
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.headerregistry import Address
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from crm.config.file import ConfigError

PLANS = {"start": 60, "base": 300, "pro": 1000, "business": 5000}  # requests a minute; spec: Limits
DEFAULT_CONTACTS = 200  # of a client, unless a plan says otherwise
MAX_CONTACTS = 1000  # of a client, in any plan
STORAGE = {"start": 200, "base": 1000, "pro": 5000, "business": 0}  # megabytes, 0 for no limit
# SMS in 24 hours, or in one hour where the name says so; see access/limits.py.
SMS_LIMITS = {
    "day": 1000,
    "signup": 200,
    "tenant": 100,
    "reserve": 200,
    "reserve_tenant": 20,
    "phone_hour": 5,
    "phone_day": 10,
    "network_hour": 20,
    "network48_hour": 60,
}
RESERVE_PART = 5  # the reserve is this part (one fifth) of `day` unless it is set
COUNT = re.compile(r"[0-9]{1,9}\Z")
LABEL = re.compile(r"(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
WORD = re.compile(r"[!-~]*\Z")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"), re.compile(r"[ -~]*\Z")
_SERVER = r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
GATEWAY = re.compile(rf"https?://{_SERVER}(?:[/?][!-~]*)?\Z")
MAIL_SERVER = re.compile(
    rf"(?P<scheme>smtps?)://(?:(?P<user>[^\s:@/]+):(?P<password>[^\s:@/]+)@)?{_SERVER}/?\Z"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
MAIL_FROM = re.compile(
    r"(?:(?P<name>[^<>@\"\x00-\x1f\x7f-\x9f\u2028\u2029]*)<)?"
    rf"(?P<user>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_LABEL}(?:\.{_LABEL})*)(?(name)>)\Z"
)
SMTP_URL = "looks like console, or smtp://user:password@mail.example.ua:587, all of it in ASCII"
PLACEHOLDER = re.compile(r"\{(phone|digits|text)\}")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
XML = ("application/xml", "text/xml")
POSTGRES = re.compile(r"postgres(?:ql)?://[!-~]*/[!-~]+\Z")
HOST_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"  # of a host's name
HOST = re.compile(rf"(?=.{{1,253}}\Z){HOST_LABEL}(?:\.{HOST_LABEL})*\Z")
HOST_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]+)\Z")
NUMERIC_END = re.compile(r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")  # of a host that is an address


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server to send by. `tls`: from the first byte on."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Fill in {phone}, {digits} and {text} of an SMS gateway's template."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], template)


def body_type(headers: Mapping[str, str], body: str) -> str:
    """Return the content type of a gateway's body by its headers, else by its first character."""
    for name, value in headers.items():
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return {"{": JSON, "[": JSON, "<": XML[0]}.get(PLACEHOLDER.sub("", body).lstrip()[:1], FORM)


class Allow(NamedTuple):
    """Hosts and networks that webhooks may call though they are not public, plain http too (D15).

    A host is what normalize_host() returns, with a port, or None for every port.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    hosts: frozenset[tuple[str, int | None]] = frozenset()

    def __or__(self, other: "Allow") -> "Allow":
        return Allow(self.networks + other.networks, self.hosts | other.hosts)

    def has_host(self, host: str, port: int) -> bool:
        return (host, port) in self.hosts or (host, None) in self.hosts

    def has_address(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        listed = any(address in network for network in self.networks)
        return listed or self.has_host(str(address), port)


LOOPBACK = Allow(
    (ip_network("127.0.0.0/8"), ip_network("::1/128")), frozenset({("localhost", None)})
)


def normalize_host(text: str) -> str:
    """Return the host of a URL in one spelling: a name in ASCII and lower case, or an address.

    Raises ValueError for anything else, such as 127.1 and 0x7f000001, which resolvers understand
    as addresses.
    """
    if text.startswith("[") and text.endswith("]") and "%" not in text:
        return str(IPv6Address(text[1:-1]))
    # This codec turns look-alikes into ASCII digits and dots, so it comes before the checks.
    name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    if NUMERIC_END.search(name):
        return str(IPv4Address(name))
    if not HOST.match(name):
        raise ValueError("is a host name")
    return name


def folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("is the path of a folder")
    return Path(text).expanduser().absolute()


def domain(text: str) -> str:
    domain = text.strip().strip(".").lower()
    if not domain or not all(LABEL.match(part) for part in domain.split(".")):
        raise ValueError("is a domain such as crm.example.ua")
    return domain


def label(text: str) -> str | None:
    if text and not LABEL.match(text):
        raise ValueError("is a tenant's label: Latin letters, digits and hyphen")
    return text or None


def choice(*options: str) -> Callable[[str], str]:
    """Make the reader of one of several words."""

    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"is {', '.join(options[:-1])} or {options[-1]}")
        return text

    return read


def switch(on: str, off: str) -> Callable[[str], bool]:
    """Make the reader of a choice of two words: whether it is the first one."""
    read = choice(on, off)
    return lambda text: read(text) == on


def number(first: int, last: int = 999_999_999) -> Callable[[str], int]:
    """Make the reader of a whole number."""

    def read(text: str) -> int:
        if not COUNT.match(text.strip()) or not first <= int(text) <= last:
            raise ValueError(f"is a whole number from {first} to {last}")
        return int(text)

    return read


def numbers(defaults: Mapping[str, int], example: str) -> Callable[[str], dict[str, int]]:
    """Make the reader of a text like a=1,b=2: each name has its default unless it is there."""

    def read(text: str) -> dict[str, int]:
        values = dict(defaults)
        for part in _parts(text):
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in defaults or not COUNT.match(value):
                raise ValueError(f"looks like {example}, with {', '.join(defaults)}")
            values[name] = int(value)
        return values

    return read


port = number(1, 65535)
plans = numbers(PLANS, "business=0,base=600")
storage = numbers(STORAGE, "start=100,base=0")
_contacts = numbers(dict.fromkeys(PLANS, DEFAULT_CONTACTS), "200 or start=50,business=1000")
_sms_limits = numbers(SMS_LIMITS | {"reserve": -1}, "day=1000,signup=200")  # -1: not set


def contacts(text: str) -> dict[str, int]:
    is_number = COUNT.match(text.strip())
    values = dict.fromkeys(PLANS, int(text)) if is_number else _contacts(text)
    if not all(1 <= value <= MAX_CONTACTS for value in values.values()):
        raise ValueError(f"is a number from 1 to {MAX_CONTACTS}, for all plans or for some")
    return values


def sms_limits(text: str) -> dict[str, int]:
    limits = _sms_limits(text)
    if limits["reserve"] < 0:
        limits["reserve"] = limits["day"] // RESERVE_PART
    counts = [limit for name, limit in limits.items() if name != "reserve"]
    if min(counts) < 1 or limits["reserve"] >= limits["day"]:
        raise ValueError("has limits from 1, and a reserve from 0 that is less than day")
    return limits


def allow(text: str) -> Allow:
    networks: list[IPv4Network | IPv6Network] = []
    hosts: list[tuple[str, int | None]] = []
    try:
        if "%" in text:
            raise ValueError("zones are of one machine, not of a network")
        for part in _parts(text):
            if match := HOST_PORT.match(part):
                hosts.append((normalize_host(match[1]), port(match[2])))
            elif ":" in part or "/" in part or NUMERIC_END.search(part):
                networks.append(ip_network(normalize_host(part) if part[0] == "[" else part))
            else:
                hosts.append((normalize_host(part), None))
    except ValueError:
        raise ValueError("looks like 10.0.0.0/8,erp.local:8080,[::1]:9000") from None
    return Allow(tuple(networks), frozenset(hosts))


def template(text: str) -> str:
    if text and not re.match(r"https?://(?!/|\Z)[^\s{}]*(\{label\})?[^\s{}]*\Z", text):
        raise ValueError("looks like https://{label}.crm.example.ua")
    return text.rstrip("/")


def database(text: str) -> str:
    address = text.strip()
    if re.search(r"\s", address):
        raise ValueError(
            "is one address: several databases are gone, use an installation for each of them"
        )
    # Not by urlsplit(), whose errors have parts of the address, such as its password.
    if address and not POSTGRES.match(address):
        raise ValueError("looks like postgresql://user:password@host:5432/name")
    return address


def word(text: str) -> str:
    if not WORD.match(text.strip()):
        raise ValueError("is one word of ASCII characters")
    return text.strip()


def line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("is one line of text")
    return text.strip()


def gateway(text: str) -> str:
    match = GATEWAY.match(text)
    if text and (
        not match or not _is_port(match["port"]) or set("{}#") & set(PLACEHOLDER.sub("", text))
    ):
        raise ValueError("looks like https://gateway.example.ua/send?to={phone}&text={text}")
    return text


def check_gateway(url: str, headers: Mapping[str, str], body: str) -> None:
    """Check that the parts of an SMS gateway's request go together. Raises ConfigError."""
    if not url:
        raise ConfigError("CRM_SMS=http: it needs CRM_SMS_URL")
    placeholders = set(PLACEHOLDER.findall("".join((url, *headers.values(), body))))
    if "text" not in placeholders or not placeholders & {"phone", "digits"}:
        raise ConfigError(
            "CRM_SMS=http: it needs {phone} and {text} in CRM_SMS_URL or CRM_SMS_BODY"
        )
    content_type = body_type(headers, body)
    if content_type not in (JSON, FORM, *XML):
        raise ConfigError("CRM_SMS_HEADERS: its Content-Type is neither JSON, a form nor XML")


def headers(text: str) -> dict[str, str]:
    try:
        values = json.loads(text or "{}")
        if not isinstance(values, dict):
            raise ValueError
        for header in values.items():
            if not all(shape.match(part) for shape, part in zip(HEADER, header, strict=True)):
                raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise ValueError('looks like {"Authorization": "Bearer …"}, in ASCII') from None
    return values


def mail(text: str) -> MailServer | None:
    if text == "console":
        return None
    match = MAIL_SERVER.match(text)
    if not match or not _is_port(match["port"]) or not WORD.match(text):
        raise ValueError(SMTP_URL)
    user, password = unquote(match["user"] or ""), unquote(match["password"] or "")
    if not WORD.match(user + password):
        raise ValueError(SMTP_URL)
    tls = match["scheme"] == "smtps"
    port = int(match["port"] or (465 if tls else 587))
    return MailServer(match["host"].strip("[]"), port, tls, user, password)


def mail_from(text: str) -> Address | None:
    match = MAIL_FROM.match(text.strip())
    if text and not match:
        raise ValueError("looks like CRM <crm@example.ua>")
    if not match:
        return None
    return Address((match["name"] or "").strip(), match["user"], match["domain"])


def _is_port(port: str | None) -> bool:
    return port is None or 1 <= int(port) <= 65535


def _parts(text: str) -> list[str]:
    """Return what stands between the commas of a text."""
    return [part.strip() for part in text.split(",") if part.strip()]
