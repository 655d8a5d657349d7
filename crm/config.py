"""Every setting of an installation: name, default, meaning. The only reader of the environment.

A bad value stops the start with one clear line (`ConfigError`).
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from email.headerregistry import Address
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

PLANS = {"start": 60, "base": 300, "pro": 1000, "business": 5000}  # spec: Limits, requests a minute
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
PLACE = re.compile(r"\{(phone|digits|text)\}")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
XML = ("application/xml", "text/xml")
PART = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"  # of a host's name
HOST = re.compile(rf"(?=.{{1,253}}\Z){PART}(?:\.{PART})*\Z")
HOST_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]+)\Z")
NUMBER = re.compile(r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")  # the end of a host that is an address


class ConfigError(Exception):
    """A setting has a value that cannot work. The text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Who takes e-mail for others. `tls`: from the first byte on."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template of an SMS gateway with {phone}, {digits} and {text} filled in."""
    return PLACE.sub(lambda place: values[place[1]], template)


def body_type(headers: Mapping[str, str], body: str) -> str:
    """The content type of a gateway's body: as its headers say, else as it begins."""
    for name, value in headers.items():
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return {"{": JSON, "[": JSON, "<": XML[0]}.get(PLACE.sub("", body).lstrip()[:1], FORM)


class Told(NamedTuple):
    """A setting as it stands, as text. `hidden`: a secret that is set, not for anybody's eyes."""

    env: str
    text: str
    source: str  # default, environment or command line
    meaning: str
    hidden: bool


class Allow(NamedTuple):
    """Hosts and networks that webhooks may call though they are not public, plain http too (D15).

    A host is its `host_of()` spelling and a port, None for every port.
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


def host_of(text: str) -> str:
    """The one spelling of a host in a URL: a name in ASCII and lower case, or a literal address.

    ValueError for anything else, such as 127.1 and 0x7f000001, which resolvers take for addresses.
    """
    if text.startswith("[") and text.endswith("]") and "%" not in text:
        return str(IPv6Address(text[1:-1]))
    # This codec makes ASCII digits and dots of their look-alikes, so it comes before the checks.
    name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    if NUMBER.search(name):
        return str(IPv4Address(name))
    if not HOST.match(name):
        raise ValueError("is a host name")
    return name


def _folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("is the path of a folder")
    return Path(text).expanduser().absolute()


def _domain(text: str) -> str:
    domain = text.strip().strip(".").lower()
    if not domain or not all(LABEL.match(part) for part in domain.split(".")):
        raise ValueError("is a domain such as crm.example.ua")
    return domain


def _label(text: str) -> str | None:
    if text and not LABEL.match(text):
        raise ValueError("is a tenant's label: Latin letters, digits and hyphen")
    return text or None


def _open(text: str) -> bool:
    if text not in ("open", "closed"):
        raise ValueError("is open or closed")
    return text == "open"


def _plans(text: str) -> dict[str, int]:
    plans = dict(PLANS)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        if name.strip() not in PLANS or not COUNT.match(number.strip()):
            raise ValueError(f"looks like business=0,base=600, with plans {', '.join(PLANS)}")
        plans[name.strip()] = int(number)
    return plans


def _allow(text: str) -> Allow:
    networks, hosts = [], []
    try:
        if "%" in text:
            raise ValueError("zones are of one machine, not of a network")
        for part in filter(None, (part.strip() for part in text.split(","))):
            if found := HOST_PORT.match(part):
                hosts.append((host_of(found[1]), _port(found[2])))
            elif ":" in part or "/" in part or NUMBER.search(part):
                networks.append(ip_network(host_of(part) if part[0] == "[" else part))
            else:
                hosts.append((host_of(part), None))
    except ValueError:
        raise ValueError("looks like 10.0.0.0/8,erp.local:8080,[::1]:9000") from None
    return Allow(tuple(networks), frozenset(hosts))


def _template(text: str) -> str:
    if text and not re.match(r"https?://(?!/|\Z)[^\s{}]*(\{label\})?[^\s{}]*\Z", text):
        raise ValueError("looks like https://{label}.crm.example.ua")
    return text.rstrip("/")


def _count(text: str) -> int:
    if not COUNT.match(text.strip()):
        raise ValueError("is a whole number, 0 or more")
    return int(text)


def _port(text: str) -> int:
    if not COUNT.match(text.strip()) or not 1 <= int(text) <= 65535:
        raise ValueError("is a whole number from 1 to 65535")
    return int(text)


def _way(text: str) -> str:
    if text not in ("console", "turbosms", "http"):
        raise ValueError("is console, turbosms or http")
    return text


def _word(text: str) -> str:
    if not WORD.match(text.strip()):
        raise ValueError("is one word of ASCII characters")
    return text.strip()


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("is one line of text")
    return text.strip()


def _gateway(text: str) -> str:
    found = GATEWAY.match(text)
    if text and (not found or not _fits(found["port"]) or set("{}#") & set(PLACE.sub("", text))):
        raise ValueError("looks like https://gateway.example.ua/send?to={phone}&text={text}")
    return text


def _headers(text: str) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
        if not isinstance(found, dict):
            raise ValueError
        for parts in found.items():
            if not all(shape.match(part) for shape, part in zip(HEADER, parts, strict=True)):
                raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise ValueError('looks like {"Authorization": "Bearer …"}, in ASCII') from None
    return found


def _mail(text: str) -> MailServer | None:
    if text == "console":
        return None
    found = MAIL_SERVER.match(text)
    if not found or not _fits(found["port"]):
        raise ValueError(SMTP_URL)
    user, password = (unquote(found[part] or "") for part in ("user", "password"))
    if not WORD.match(user + password):
        raise ValueError(SMTP_URL)
    tls = found["scheme"] == "smtps"
    port = int(found["port"] or (465 if tls else 587))
    return MailServer(found["host"].strip("[]"), port, tls, user, password)


def _mail_from(text: str) -> Address | None:
    found = MAIL_FROM.match(text.strip())
    if text and not found:
        raise ValueError("looks like CRM <crm@example.ua>")
    if not found:
        return None
    return Address((found["name"] or "").strip(), found["user"], found["domain"])


def _read(setting: Field, name: str, text: str) -> Any:
    try:
        return setting.metadata["read"](text)
    except ValueError as error:
        shown = "" if setting.metadata["secret"] else f"={text[:100]!r}"
        raise ConfigError(f"{name}{shown}: it {error}") from None


def _fits(port: str | None) -> bool:
    return port is None or 1 <= int(port) <= 65535


def _setting(
    env: str, default: str, read: Callable[[str], Any], meaning: str, *, secret: bool = False
) -> Any:
    about = {"env": env, "default": default, "read": read, "meaning": meaning, "secret": secret}
    return field(default_factory=lambda: read(default), repr=not secret, metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings. `Config.load()` reads the environment, `Config(data=…)` serves tests."""

    data: Path = _setting("CRM_DATA", "data", _folder, "folder of the tenants' files")
    base_domain: str = _setting(
        "CRM_BASE_DOMAIN", "localhost", _domain, "tenants live at <label>.<base domain>"
    )
    tenant: str | None = _setting(
        "CRM_TENANT", "", _label, "serve this one tenant on every host, for a bare address"
    )
    signup: bool = _setting(
        "CRM_SIGNUP", "open", _open, "may strangers open a tenant; closed with CRM_TENANT"
    )
    public_url: str = _setting(
        "CRM_PUBLIC_URL", "", _template, "template of links, with {label}; by default the base"
    )
    plans: dict[str, int] = _setting(
        "CRM_PLANS", "", _plans, "requests a minute per plan, 0 for no limit (D13)"
    )
    trusted_proxies: int = _setting(
        "CRM_TRUSTED_PROXIES", "0", _count, "how many proxies in front add X-Forwarded-*"
    )
    open_files: int = _setting(
        "CRM_OPEN_FILES", "256", _count, "connections to tenants' files kept open when idle"
    )
    webhook_allow: Allow = _setting(
        "CRM_WEBHOOK_ALLOW", "", _allow, "hosts and networks that webhooks may call (D15)"
    )
    port: int = _setting("CRM_PORT", "8000", _port, "port of `serve`, and in the links")
    sms: str = _setting("CRM_SMS", "console", _way, "who sends SMS: console, turbosms or http")
    sms_token: str = _setting("CRM_SMS_TOKEN", "", _word, "key of TurboSMS", secret=True)
    sms_sender: str = _setting("CRM_SMS_SENDER", "", _line, "the sender's name at TurboSMS")
    sms_url: str = _setting(
        "CRM_SMS_URL", "", _gateway, "gateway of http, with {phone} and {text}", secret=True
    )
    sms_headers: dict[str, str] = _setting(
        "CRM_SMS_HEADERS", "", _headers, "headers for http, as a JSON object", secret=True
    )
    sms_body: str = _setting(
        "CRM_SMS_BODY", "", str.strip, "body for http, with {phone} and {text}", secret=True
    )
    mail: MailServer | None = _setting(
        "CRM_MAIL", "console", _mail, "who takes e-mail: console or smtp://…", secret=True
    )
    mail_from: Address | None = _setting(
        "CRM_MAIL_FROM", "", _mail_from, "the sender of e-mails, with CRM_MAIL"
    )

    def __post_init__(self) -> None:
        if self.tenant:
            object.__setattr__(self, "signup", False)  # there is room for no other
        if self.sms == "turbosms" and not (self.sms_token and self.sms_sender):
            raise ConfigError("CRM_SMS=turbosms: it needs CRM_SMS_TOKEN and CRM_SMS_SENDER")
        if self.sms == "http":
            self._check_gateway()
        if self.mail and not self.mail_from:
            raise ConfigError("CRM_MAIL=smtp: it needs CRM_MAIL_FROM")

    def _check_gateway(self) -> None:
        if not self.sms_url:
            raise ConfigError("CRM_SMS=http: it needs CRM_SMS_URL")
        places = set(
            PLACE.findall("".join((self.sms_url, *self.sms_headers.values(), self.sms_body)))
        )
        if "text" not in places or not places & {"phone", "digits"}:
            raise ConfigError(
                "CRM_SMS=http: it needs {phone} and {text} in CRM_SMS_URL or CRM_SMS_BODY"
            )
        kind = body_type(self.sms_headers, self.sms_body)
        if kind not in (JSON, FORM, *XML):
            raise ConfigError("CRM_SMS_HEADERS: its Content-Type is neither JSON, a form nor XML")
        if self.sms_body and kind == JSON:
            try:
                json.loads(fill(self.sms_body, {"phone": "+1", "digits": "1", "text": "a"}))
            except (ValueError, RecursionError):
                raise ConfigError(
                    "CRM_SMS_BODY: it is no JSON once {phone} and {text} are filled in: quote them"
                ) from None

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str] = os.environ,
        below: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> "Config":
        """Settings from the environment; `given` values (the command line's) come first, those
        `below` stand where nobody says otherwise.

        Raises ConfigError naming the variable and what it should look like.
        """
        values = {name: value for name, value in given.items() if value is not None}
        for setting in fields(cls):
            env = setting.metadata["env"]
            if setting.name not in values and env in environ:
                values[setting.name] = _read(setting, env, environ[env])
        return cls(**{**(below or {}), **values})

    @classmethod
    def read(cls, **given: Any) -> dict[str, Any]:
        """Settings as somebody wrote them in code; texts are read as the environment's are."""
        known = {setting.name: setting for setting in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise ConfigError(f"{name}: it is none of {', '.join(known)}")
            if isinstance(value, str):
                given[name] = _read(known[name], name, value)
        return given

    def told(self, environ: Mapping[str, str] = os.environ) -> list[Told]:
        """Every setting with where it is from, in the order above."""
        found = []
        for setting in fields(self):
            about = setting.metadata
            env, default = about["env"], about["default"]
            text, source = environ.get(env, default), "environment" if env in environ else "default"
            if env == "CRM_DATA":
                if about["read"](text) != self.data:
                    source = "command line"
                text = str(self.data)
            hidden = about["secret"] and text != default
            found.append(Told(env, text, source, about["meaning"], hidden))
        return found

    def url_of(self, label: str) -> str:
        """The public address of a tenant, without a slash at the end (D18)."""
        template = self.public_url or f"http://{{label}}.{self.base_domain}:{self.port}"
        return template.replace("{label}", label)
