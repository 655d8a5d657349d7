"""How the service is reached: names, the public address, and what the proxies make of a request."""

import json
import secrets
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from crm.api.health import DOCTOR
from crm.config import Config
from crm.tenancy import integrity
from crm.tenancy.tenants import Tenants
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail

FORGED = "203.0.113.9"  # an address of documentation, which nobody has
SECONDS = 10.0
CLOCK_SECONDS = 30
ANSWER_BYTES = 65_536


class Answer(NamedTuple):
    """What came from the public address."""

    status: int
    date: str | None
    location: str | None
    seen: dict[str, str] | None  # by the service, which knows the doctor


def names(config: Config) -> Iterator[LevelAndDetail]:
    """Do the hosts of tenants lead anywhere?"""
    domain = config.base_domain
    label = config.tenant or f"crm-doctor-{secrets.token_hex(4)}"
    public = urlsplit(config.url_of(label)).hostname or ""
    setting, host = "CRM_BASE_DOMAIN", domain
    if config.tenant:
        setting, host = "CRM_PUBLIC_URL", public
    if _is_local(host):
        yield WARNING, f"{host} is this machine alone: set {setting} for others to come in"
        return
    hosts = [public] if config.tenant else [domain, f"{label}.{domain}", public]
    for host in dict.fromkeys(hosts):
        shown = host.replace(label, "<any label>") if not config.tenant else host
        try:
            found = {each[4][0] for each in socket.getaddrinfo(host, None)}
        except (OSError, UnicodeError):
            yield FAULT, f"{shown} has no address: its DNS record is missing"
        else:
            yield OK, f"{shown} is at {', '.join(sorted(map(str, found)))}"


def address(config: Config) -> Iterator[LevelAndDetail]:
    """The template of links."""
    url = config.url_of("<label>")
    parts = urlsplit(config.url_of("a"))
    host = parts.hostname or ""
    own = host == f"a.{config.base_domain}" or bool(config.tenant)
    if "{label}" in config.public_url and not own:
        yield (
            WARNING,
            f"{url} is not below CRM_BASE_DOMAIN={config.base_domain}: no tenant is there",
        )
    elif parts.scheme != "https" and not _is_local(host):
        yield WARNING, f"{url} is plain http: keys, codes and pages travel open"
    elif config.public_url and "{label}" not in config.public_url and not config.tenant:
        yield WARNING, f"{url} has no {{label}}: the links of all tenants lead to one host"
    else:
        yield OK, url


def front_door(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Ask the service through its public address what it sees, with a forged address beside."""
    config = tenants.config
    label = config.tenant or next(iter(tenants.labels()), "crm-doctor")
    url = urlsplit(config.url_of(label))
    place = f"{url.scheme}://{url.netloc}"
    try:
        with integrity.visiting_pass(tenants) as token:
            answer = _ask(url, token)
    except ssl.SSLCertVerificationError as error:
        yield FAULT, f"{place}: its certificate is not good: {error.verify_message}"
        return
    except ssl.SSLError as error:
        yield FAULT, f"{place}: TLS failed: {(error.reason or 'no reason').lower()}"
        return
    except TimeoutError:
        yield FAULT, f"{place} does not answer within {SECONDS:g} s"
        return
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no HTTP"
        yield FAULT, f"{place} cannot be reached: {why}"
        return
    yield from _clock(place, answer)
    yield from judged(config, url, answer)


def judged(config: Config, url: SplitResult, answer: Answer) -> Iterator[LevelAndDetail]:
    """What the answer tells of the proxies, and of CRM_TRUSTED_PROXIES."""
    place, seen, trusted = f"{url.scheme}://{url.netloc}", answer.seen, config.trusted_proxies
    if seen is None:
        onward = f", on to {answer.location}" if answer.location else ""
        yield FAULT, f"{place} does not lead here: it answers {answer.status}{onward}"
        return
    hosts = [urlsplit(f"//{text}").hostname for text in (seen["host"], url.netloc)]
    if hosts[0] != hosts[1]:
        yield FAULT, f"the host arrives as {seen['host']}: the proxy must pass Host on"
    if seen["scheme"] != url.scheme:
        yield (
            FAULT,
            (
                f"the service takes it for {seen['scheme']}, not {url.scheme}: the proxy must set"
                " X-Forwarded-Proto, and CRM_TRUSTED_PROXIES count it"
            ),
        )
    said = [part.strip() for part in seen["forwarded"].split(",") if part.strip()]
    kept = FORGED in said  # what a client says of itself came through
    proxies = len(said) - said.index(FORGED) - 1 if kept else len(said)
    told = f"CRM_TRUSTED_PROXIES is {trusted}, but {proxies} in front add X-Forwarded-For"
    if seen["address"] == FORGED:
        yield FAULT, f"a forged address was believed: {told}"
    elif url.scheme == "https" and not proxies:  # the service speaks no TLS: there is one
        yield FAULT, f"the proxy adds no X-Forwarded-For, so all clients seem {seen['address']}"
    elif proxies != trusted:
        yield FAULT, f"all clients seem to be {seen['address']}: {told}"
    elif hosts[0] == hosts[1] and seen["scheme"] == url.scheme:
        how = f"{trusted} in front" if trusted else "none in front"
        yield OK, f"{place}: scheme and host arrive, a forged address is not believed; {how}"


def _clock(place: str, answer: Answer) -> Iterator[LevelAndDetail]:
    try:
        theirs = parsedate_to_datetime(answer.date or "").timestamp()
    except ValueError:
        return
    if abs(theirs - time.time()) > CLOCK_SECONDS:
        ahead = round(time.time() - theirs)
        yield FAULT, f"this machine's clock is {ahead:+} s from the one of {place}"


def _ask(url: SplitResult, token: str) -> Answer:
    host, tls = url.hostname or "", url.scheme == "https"
    port = url.port or (443 if tls else 80)
    there = "127.0.0.1" if _is_local(host) else host  # browsers know these names, Python doesn't
    headers = {"Host": url.netloc, "Authorization": f"Bearer {token}", "X-Forwarded-For": FORGED}
    with closing(socket.create_connection((there, port), SECONDS)) as plain:
        line = plain
        if tls:
            line = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        with closing(HTTPConnection(host, port)) as connection:
            connection.sock = line
            connection.request("GET", f"{url.path.rstrip('/')}{DOCTOR}", headers=headers)
            with connection.getresponse() as answer:
                seen = _seen(answer)
                named = (answer.getheader(name) for name in ("Date", "Location"))
                return Answer(answer.status, *named, seen)


def _seen(answer: HTTPResponse) -> dict[str, str] | None:
    try:
        told: Any = json.loads(answer.read(ANSWER_BYTES))
        fields = ("address", "scheme", "host", "forwarded")
        return {name: str(told[name]) for name in fields}
    except (ValueError, TypeError, KeyError):
        return None


def _is_local(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")
