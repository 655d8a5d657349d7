"""Checks of the doctor over the network: DNS names, the public URL, the proxies."""

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

FORGED_ADDRESS = "203.0.113.9"  # reserved for documentation: no client has it
REQUEST_TIMEOUT_SECONDS = 10.0
CLOCK_TOLERANCE_SECONDS = 30
MAX_RESPONSE_BYTES = 65_536


class PublicResponse(NamedTuple):
    """The response of the public URL to the doctor's request."""

    status: int
    date: str | None
    location: str | None
    seen: dict[str, str] | None  # the request as it arrived; None: another server has answered


def names(config: Config) -> Iterator[LevelAndDetail]:
    """Check that the hosts of tenants have an address in DNS."""
    domain = config.base_domain
    # A random label: only a wildcard record answers for it.
    label = config.tenant or f"crm-doctor-{secrets.token_hex(4)}"
    public = urlsplit(config.url_of(label)).hostname or ""
    setting, host = "CRM_BASE_DOMAIN", domain
    if config.tenant:
        setting, host = "CRM_PUBLIC_URL", public
    if _is_local(host):
        yield WARNING, f"{host} is only reachable from this machine: set {setting}"
        return
    hosts = [public] if config.tenant else [domain, f"{label}.{domain}", public]
    for host in dict.fromkeys(hosts):
        shown_host = host.replace(label, "<any label>") if not config.tenant else host
        try:
            addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
        except (OSError, UnicodeError):
            yield FAULT, f"{shown_host} has no address: its DNS record is missing"
        else:
            yield OK, f"{shown_host} is at {', '.join(sorted(map(str, addresses)))}"


def public_url(config: Config) -> Iterator[LevelAndDetail]:
    """Check that the URLs in links and messages lead to the tenants."""
    url = config.url_of("<label>")
    parts = urlsplit(config.url_of("a"))
    host = parts.hostname or ""
    is_below = host == f"a.{config.base_domain}" or bool(config.tenant)
    if "{label}" in config.public_url and not is_below:
        yield (
            WARNING,
            f"{url} is not below CRM_BASE_DOMAIN={config.base_domain}: no tenant is there",
        )
    elif parts.scheme != "https" and not _is_local(host):
        yield WARNING, f"{url} is plain http: keys, codes and pages can be read on their way"
    elif config.public_url and "{label}" not in config.public_url and not config.tenant:
        yield WARNING, f"{url} has no {{label}}: the links of all tenants lead to one host"
    else:
        yield OK, url


def proxies(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Send a request with a forged client address through the public URL, and check its arrival."""
    config = tenants.config
    label = config.tenant or next(iter(tenants.labels()), "crm-doctor")
    url = urlsplit(config.url_of(label))
    origin = f"{url.scheme}://{url.netloc}"
    try:
        with integrity.doctor_token(tenants) as token:
            response = _request(url, token)
    except ssl.SSLCertVerificationError as error:
        yield FAULT, f"{origin}: its certificate is not valid: {error.verify_message}"
        return
    except ssl.SSLError as error:
        yield FAULT, f"{origin}: TLS failed: {(error.reason or 'no reason').lower()}"
        return
    except TimeoutError:
        yield FAULT, f"{origin} does not answer within {REQUEST_TIMEOUT_SECONDS:g} s"
        return
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it does not speak HTTP"
        yield FAULT, f"{origin} cannot be reached: {reason}"
        return
    yield from _compare_clocks(origin, response)
    yield from check_proxies(config, url, response)


def check_proxies(
    config: Config, url: SplitResult, response: PublicResponse
) -> Iterator[LevelAndDetail]:
    """Check that proxies pass the request on as the service and CRM_TRUSTED_PROXIES expect."""
    origin, seen = f"{url.scheme}://{url.netloc}", response.seen
    trusted = config.trusted_proxies
    if seen is None:
        redirect = f", a redirect to {response.location}" if response.location else ""
        yield FAULT, f"{origin} does not lead to this CRM: it answers {response.status}{redirect}"
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
    forwarded = [part.strip() for part in seen["forwarded"].split(",") if part.strip()]
    # A proxy that appends keeps what the client sent in front of its own entry.
    is_appended = FORGED_ADDRESS in forwarded
    count = len(forwarded)
    if is_appended:
        count -= forwarded.index(FORGED_ADDRESS) + 1
    mismatch = f"CRM_TRUSTED_PROXIES is {trusted}, but {count} in front add X-Forwarded-For"
    if seen["address"] == FORGED_ADDRESS:
        yield FAULT, f"a forged address was believed: {mismatch}"
    elif url.scheme == "https" and not count:  # the service has no TLS, so there is a proxy
        yield FAULT, f"the proxy adds no X-Forwarded-For, so all clients seem {seen['address']}"
    elif count != trusted:
        yield FAULT, f"all clients seem to be {seen['address']}: {mismatch}"
    elif hosts[0] == hosts[1] and seen["scheme"] == url.scheme:
        in_front = f"{trusted} in front" if trusted else "none in front"
        yield OK, f"{origin}: scheme and host arrive, a forged address is not believed; {in_front}"


def _compare_clocks(origin: str, response: PublicResponse) -> Iterator[LevelAndDetail]:
    try:
        remote = parsedate_to_datetime(response.date or "").timestamp()
    except ValueError:
        return
    if abs(remote - time.time()) > CLOCK_TOLERANCE_SECONDS:
        ahead = round(time.time() - remote)
        yield FAULT, f"this machine's clock is {ahead:+} s from the one of {origin}"


def _request(url: SplitResult, token: str) -> PublicResponse:
    """Request the doctor's resource of the service. Raises OSError, HTTPException, ValueError."""
    host, is_tls = url.hostname or "", url.scheme == "https"
    port = url.port or (443 if is_tls else 80)
    address = "127.0.0.1" if _is_local(host) else host  # Python does not resolve *.localhost
    headers = {
        "Host": url.netloc,
        "Authorization": f"Bearer {token}",
        "X-Forwarded-For": FORGED_ADDRESS,
    }
    with closing(socket.create_connection((address, port), REQUEST_TIMEOUT_SECONDS)) as plain:
        stream = plain
        if is_tls:
            stream = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        with closing(HTTPConnection(host, port)) as connection:
            connection.sock = stream
            connection.request("GET", f"{url.path.rstrip('/')}{DOCTOR}", headers=headers)
            with connection.getresponse() as response:
                seen = _read_echo(response)
                date, location = response.getheader("Date"), response.getheader("Location")
                return PublicResponse(response.status, date, location, seen)


def _read_echo(response: HTTPResponse) -> dict[str, str] | None:
    try:
        body: Any = json.loads(response.read(MAX_RESPONSE_BYTES))
        fields = ("address", "scheme", "host", "forwarded")
        return {name: str(body[name]) for name in fields}
    except (ValueError, TypeError, KeyError):
        return None


def _is_local(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")
