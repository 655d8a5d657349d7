"""Checks of the doctor over the network: the public URL, the proxies, gateways of messages."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from crm import server
from crm.api.health import DOCTOR
from crm.cli.doctor.installation_checks import DoctorRun, check
from crm.config import Config
from crm.copies import integrity
from crm.messages import Undelivered, mail, sms
from crm.messages.deadline_connection import send_request
from crm.timed_checks import CHECK_TIMEOUT_SECONDS, FAULT, OK, WARNING, LevelAndDetail
from crm.values import InvalidValue, email, phone

FORGED_ADDRESS = "203.0.113.9"  # reserved for documentation: no client has it
MAX_RESPONSE_BYTES = 65_536
TEST_MESSAGE = "A test of the CRM: it can send."


class PublicResponse(NamedTuple):
    """The response of the public URL to the doctor's request."""

    status: int
    location: str | None
    seen: dict[str, str] | None  # the request as it arrived; None: another server has answered


@check("public url")
def check_public_url(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether the URLs in links and messages lead to the tenants."""
    config, url = run.config, run.config.url_of("<label>")
    parts = urlsplit(config.url_of("a"))
    host = parts.hostname or ""
    is_below = host == f"a.{config.base_domain}" or bool(config.tenant)
    if _is_local(host) and not config.public_url:
        setting = "CRM_PUBLIC_URL" if config.tenant else "CRM_BASE_DOMAIN"
        yield WARNING, f"{url} is only reachable from this machine: set {setting}"
    elif "{label}" in config.public_url and not is_below:
        about = f"is not below CRM_BASE_DOMAIN={config.base_domain}: no tenant is there"
        yield WARNING, f"{url} {about}"
    elif parts.scheme != "https" and not _is_local(host):
        yield WARNING, f"{url} is plain http: keys, codes and pages can be read on their way"
    elif config.public_url and "{label}" not in config.public_url and not config.tenant:
        yield WARNING, f"{url} has no {{label}}: the links of all tenants lead to one host"
    else:
        yield OK, url


@check("proxy")
def check_proxy(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether a request with a forged client address arrives at the public URL as it should."""
    config = run.config
    if not server.find_running(config.data):
        yield WARNING, "no server is running: the proxies are not checked"
        return
    url = urlsplit(config.url_of(config.tenant or next(iter(run.tenants.labels()), "crm-doctor")))
    origin = f"{url.scheme}://{url.netloc}"
    try:
        with integrity.doctor_token(run.tenants) as token:
            response = _request(url, token)
    except (Undelivered, ValueError) as error:
        yield FAULT, f"{origin} cannot be reached: {error}"
    else:
        yield from compare_requests(config, url, response)


@check("send test", 2 * CHECK_TIMEOUT_SECONDS)
def check_sending(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether a gateway accepts a message to the address of --send-test."""
    config, to = run.config, run.send_to
    if to is None:
        return
    by_mail = "@" in to
    provider = (config.mail.host if config.mail else "console") if by_mail else config.sms
    try:
        if by_mail:
            mail.create_mail_sender(config).send(email(to) or "", "CRM: a test", TEST_MESSAGE)
        else:
            sms.create_sms_sender(config).send(phone(to) or "", TEST_MESSAGE)
    except InvalidValue as error:
        yield FAULT, f"PHONE|EMAIL {error.detail}"
    except Undelivered as refused:
        yield FAULT, f"{provider}: {refused.reason}"
    else:
        yield OK, f"{provider} accepted it"


def compare_requests(
    config: Config, url: SplitResult, response: PublicResponse
) -> Iterator[LevelAndDetail]:
    """Whether proxies pass the request on as the service and CRM_TRUSTED_PROXIES expect."""
    origin, seen = f"{url.scheme}://{url.netloc}", response.seen
    trusted = config.trusted_proxies
    if seen is None:
        redirect = f", a redirect to {response.location}" if response.location else ""
        yield FAULT, f"{origin} does not lead to this CRM: it answers {response.status}{redirect}"
        return
    same_host = urlsplit(f"//{seen['host']}").hostname == url.hostname
    if not same_host:
        yield FAULT, f"the host arrives as {seen['host']}: the proxy must pass Host on"
    if seen["scheme"] != url.scheme:
        advice = "the proxy must set X-Forwarded-Proto, and CRM_TRUSTED_PROXIES count it"
        yield FAULT, f"the service takes it for {seen['scheme']}, not {url.scheme}: {advice}"
    forwarded = [part.strip() for part in seen["forwarded"].split(",") if part.strip()]
    # A proxy that appends keeps what the client sent in front of its own entry.
    sent = forwarded.index(FORGED_ADDRESS) + 1 if FORGED_ADDRESS in forwarded else 0
    count = len(forwarded) - sent
    mismatch = f"CRM_TRUSTED_PROXIES is {trusted}, but {count} in front add X-Forwarded-For"
    if seen["address"] == FORGED_ADDRESS:
        yield FAULT, f"a forged address was believed: {mismatch}"
    elif url.scheme == "https" and not count:  # the service has no TLS, so there is a proxy
        yield FAULT, f"the proxy adds no X-Forwarded-For, so all clients seem {seen['address']}"
    elif count != trusted:
        yield FAULT, f"all clients seem to be {seen['address']}: {mismatch}"
    elif same_host and seen["scheme"] == url.scheme:
        in_front = f"{trusted} in front" if trusted else "none in front"
        yield OK, f"{origin}: scheme and host arrive, a forged address is not believed; {in_front}"


def _request(url: SplitResult, token: str) -> PublicResponse:
    """Request the doctor's resource of the service. Raises Undelivered, ValueError."""
    headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": FORGED_ADDRESS}
    target = url._replace(path=f"{url.path.rstrip('/')}{DOCTOR}").geturl()
    status, text, answered = send_request("GET", target, headers, None, MAX_RESPONSE_BYTES)
    seen = None
    with suppress(ValueError, TypeError, KeyError):
        body = json.loads(text)
        seen = {name: str(body[name]) for name in ("address", "scheme", "host", "forwarded")}
    return PublicResponse(status, answered["Location"], seen)


def _is_local(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")
