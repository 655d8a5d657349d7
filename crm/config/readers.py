"""Readers: one function for each kind of setting, which turns its text into the value.

They raise ValueError with the end of a sentence that begins with the setting's name and "it".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.headerregistry import Address
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

PLANS = {"start": 60, "base": 300, "pro": 1000, "business": 5000}  # requests a minute; spec: Limits
DEFAULT_CONTACTS, MAX_CONTACTS = (
    200,
    1000,
)  # of a client, unless a plan says otherwise, and in any plan
STORAGE = {"start": 200, "base": 1000, "pro": 5000, "business": 0}  # megabytes, 0 for no limit
# SMS in 24 hours, or in one hour where the name says so; see access/sms_limits.py.
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
REDIS_SERVER = re.compile(
    r"(?:(?P<scheme>rediss?)|unix)://(?:(?P<user>[^\s:@/]*):(?P<password>[^\s:@/]+)@)?"
    rf"(?(scheme){_SERVER}(?:/(?P<db>[0-9]{{1,5}})?)?|(?P<path>/[^\s?#]+)(?:\?db=(?P<path_db>[0-9]{{1,5}}))?)\Z"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
MAIL_FROM = re.compile(
    r"(?:(?P<name>[^<>@\"\x00-\x1f\x7f-\x9f\u2028\u2029]*)<)?"
    rf"(?P<user>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_LABEL}(?:\.{_LABEL})*)(?(name)>)\Z"
)
REDIS_URL = (
    "looks like redis://user:password@10.0.0.5:6379/0, rediss://… or unix:///run/redis.sock?db=0"
)
SMTP_URL = "looks like console, or smtp://user:password@mail.example.ua:587, all of it in ASCII"
PLACEHOLDER = re.compile(r"\{(phone|digits|text)\}")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
XML = ("application/xml", "text/xml")
POSTGRES = re.compile(r"postgres(?:ql)?://[!-~]*/[!-~]+\Z")
HOST_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"  # of a host's name
HOST = re.compile(rf"(?=.{{1,253}}\Z){HOST_LABEL}(?:\.{HOST_LABEL})*\Z")
HOST_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]+)\Z")
NUMERIC_END = re.compile(
    r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z"
)  # the end of a host that is an address


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server to send by. `tls`: from the first byte on."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The Redis that counts limits. `path`: of its socket, then there is no host."""

    host: str = ""
    port: int = 6379
    db: int = 0
    tls: bool = False
    path: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        """The address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"


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


def signup(text: str) -> bool:
    if text not in ("open", "closed"):
        raise ValueError("is open or closed")
    return text == "open"


def plans(text: str) -> dict[str, int]:
    return _by_plan(text, PLANS, "business=0,base=600")


def storage(text: str) -> dict[str, int]:
    return _by_plan(text, STORAGE, "start=100,base=0")


def contacts(text: str) -> dict[str, int]:
    if COUNT.match(text.strip()):
        numbers = dict.fromkeys(PLANS, int(text))
    else:
        defaults = dict.fromkeys(PLANS, DEFAULT_CONTACTS)
        numbers = _by_plan(text, defaults, "200 or start=50,business=1000")
    if not all(1 <= number <= MAX_CONTACTS for number in numbers.values()):
        raise ValueError(f"is a number from 1 to {MAX_CONTACTS}, for all plans or for some")
    return numbers


def sms_limits(text: str) -> dict[str, int]:
    numbers = _numbers(text, SMS_LIMITS)
    if numbers is None or not all(number or name == "reserve" for name, number in numbers.items()):
        names = ", ".join(SMS_LIMITS)
        raise ValueError(f"looks like day=1000,signup=200, from 1 (reserve from 0), with {names}")
    limits = SMS_LIMITS | numbers
    if "reserve" not in numbers:
        limits["reserve"] = limits["day"] // RESERVE_PART
    if limits["reserve"] >= limits["day"]:
        raise ValueError("has a reserve that is a part of day, so it is less than that")
    return limits


def _by_plan(text: str, defaults: Mapping[str, int], example: str) -> dict[str, int]:
    """Return a number for each plan: the default, unless the text names another."""
    numbers = _numbers(text, defaults)
    if numbers is None:
        raise ValueError(f"looks like {example}, with plans {', '.join(defaults)}")
    return {**defaults, **numbers}


def _numbers(text: str, known: Mapping[str, int]) -> dict[str, int] | None:
    """Return the numbers of a text like a=1,b=2 by name; None for another text or name."""
    numbers = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        if name.strip() not in known or not COUNT.match(number.strip()):
            return None
        numbers[name.strip()] = int(number)
    return numbers


def allow(text: str) -> Allow:
    networks: list[IPv4Network | IPv6Network] = []
    hosts: list[tuple[str, int | None]] = []
    try:
        if "%" in text:
            raise ValueError("zones are of one machine, not of a network")
        for part in filter(None, (part.strip() for part in text.split(","))):
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


def databases(text: str) -> tuple[str, ...]:
    addresses = tuple(text.split())
    # Not by urlsplit(), whose errors have parts of the address, such as its password.
    names = [address.partition("?")[0].rpartition("/")[2] for address in addresses]
    if not all(map(POSTGRES.match, addresses)) or len(set(names)) < len(names):
        raise ValueError(
            "looks like postgresql://user:password@host:5432/name, several with spaces between"
            " them and different names"
        )
    return addresses


def positive(text: str) -> int:
    if not count(text):
        raise ValueError("is a whole number from 1")
    return count(text)


def switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("is on or off")
    return text == "on"


def count(text: str) -> int:
    if not COUNT.match(text.strip()):
        raise ValueError("is a whole number, 0 or more")
    return int(text)


def port(text: str) -> int:
    if not COUNT.match(text.strip()) or not 1 <= int(text) <= 65535:
        raise ValueError("is a whole number from 1 to 65535")
    return int(text)


def sms_provider(text: str) -> str:
    if text not in ("console", "turbosms", "http"):
        raise ValueError("is console, turbosms or http")
    return text


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


def redis(text: str) -> RedisAddress | None:
    if not text.strip():
        return None
    match = REDIS_SERVER.match(text.strip())
    if not match or not _is_port(match["port"]) or not WORD.match(text.strip()):
        raise ValueError(REDIS_URL)
    user, password = (unquote(match[part] or "") for part in ("user", "password"))
    db, path = int(match["db"] or match["path_db"] or 0), unquote(match["path"] or "")
    host, port = (match["host"] or "").strip("[]"), int(match["port"] or 6379)
    return RedisAddress(host, port, db, match["scheme"] == "rediss", path, user, password)


def mail(text: str) -> MailServer | None:
    if text == "console":
        return None
    match = MAIL_SERVER.match(text)
    if not match or not _is_port(match["port"]):
        raise ValueError(SMTP_URL)
    user, password = (unquote(match[part] or "") for part in ("user", "password"))
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


def log(text: str) -> str:
    if text not in ("requests", "warnings"):
        raise ValueError("is requests or warnings")
    return text


def _is_port(port: str | None) -> bool:
    return port is None or 1 <= int(port) <= 65535
