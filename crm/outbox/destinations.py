"""Which addresses a webhook may call: public ones of other machines by https, and what the operator
allows (D15).

A URL is read once, when it is set (`parse`), and again at every delivery, which then asks what the
name resolves to, refuses the whole name if one answer is not allowed, and connects to one of these
answers (`addresses`). So neither a name that changes its mind nor a redirect leads inside.
"""

import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import quote, unquote

from urllib3.util import parse_url

from crm.config import Allow, normalize_host
from crm.values import InvalidValue

Address = IPv4Address | IPv6Address
MAX_URL_CHARACTERS = 2048  # characters of a URL
DEFAULT_PORTS = {"https": 443, "http": 80}
VISIBLE_ASCII = "".join(map(chr, range(33, 127)))
LOCAL_ADDRESS = re.compile(r"-- ([0-9.]+)\n +/32 host LOCAL")
UNENCODED_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

# ipaddress.is_global lets 6to4, multicast and 168.63.129.16 pass, and changes between versions.
UNICAST = ip_network("2000::/3")
_SOCKET_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
NON_PUBLIC_NETWORKS = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network, this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's NAT; Alibaba's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's wire server
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocols; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "2001::/23",  # protocols: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which has an IPv4 address inside
        "3fff::/20",  # documentation
    )
]


# Where nobody's machine is: reserved, discarded.
UNUSED_ADDRESSES = {4: ip_address("240.0.0.1"), 6: ip_address("100::1")}


class ForbiddenAddress(InvalidValue):
    """An address that is neither public nor allowed, or this machine's."""

    def __init__(self) -> None:
        super().__init__(
            "forbidden_address",
            "must be a public address, or one that the operator of the service allows",
        )


class NameNotResolved(Exception):
    """The name has no address now."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to call. `host` is a name in ASCII or an address without brackets."""

    scheme: str
    host: str
    port: int
    target: str  # path and query


def parse_destination(url: str, allow: Allow) -> Destination:
    """The parts of a URL that may be called as far as it can be told without resolving its name.

    Raises Unfit: too_long, invalid_url, forbidden_address.
    """
    if len(url) > MAX_URL_CHARACTERS:
        raise InvalidValue("too_long", f"at most {MAX_URL_CHARACTERS} characters")
    if not url.isprintable() or re.search(r"[ \\]", url) or UNENCODED_PERCENT.search(url):
        raise _invalid_url("must not contain spaces, backslashes, control characters or a bare %")
    try:
        parts = parse_url(quote(url, safe=VISIBLE_ASCII))
        host = normalize_host(unquote(parts.host or ""))
    except ValueError:
        raise _invalid_url(
            "must have a valid host and port, as in https://example.com/path"
        ) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise _invalid_url("must begin with https://")
    if parts.auth is not None or url.partition("://")[2].startswith("@"):
        raise _invalid_url("must not contain a user name or password")
    if parts.fragment is not None:
        raise _invalid_url("must not contain a fragment (#)")
    port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if not port:
        raise _invalid_url("must have a port from 1 to 65535")
    literal = _parse_address(host)
    allowed = allow.has_address(literal, port) if literal else allow.has_host(host, port)
    if parts.scheme == "http" and not allowed:
        raise _invalid_url("must begin with https://")
    if literal and not allowed and not is_callable_address(literal):
        raise ForbiddenAddress
    return Destination(parts.scheme, host, port, parts.request_uri)


def resolve_addresses(
    to: Destination,
    allow: Allow,
    seconds: float,
    resolve: Callable[..., list] = socket.getaddrinfo,
) -> list[Address]:
    """The addresses to connect to, in the order to try them; each of them is allowed.

    Raises Refused, Unresolved, and TimeoutError when there is no answer in `seconds`.
    """
    literal = _parse_address(to.host)
    found = [literal] if literal else _resolve(to, seconds, resolve)
    if literal is None and allow.has_host(to.host, to.port):
        return found
    if not all(
        allow.has_address(address, to.port) or is_callable_address(address) for address in found
    ):
        raise ForbiddenAddress
    return found


def is_callable_address(address: Address) -> bool:
    """Is it public, and not this machine's?"""
    return is_public_address(address) and not is_own_address(address)


def is_own_address(address: Address) -> bool:
    """Has an interface of this machine that address? To call it would get past a firewall in front,
    to services that are not for strangers.

    The kernel tells, so aliases and what is added later count; nothing is sent. An address that the
    machine has only for others, by NAT, is none of its own: such a call takes the way of strangers.
    """
    if not _can_bind(address):
        return False
    if not _can_bind(UNUSED_ADDRESSES[address.version]):
        return True
    # net.ipv4.ip_nonlocal_bind is set, as beside keepalived: every address can be bound.
    return _is_listed_by_kernel(address)


def _can_bind(address: Address) -> bool:
    try:
        with socket.socket(_SOCKET_FAMILIES[address.version], socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
            return True
    except OSError:
        return False


def _is_listed_by_kernel(address: Address) -> bool:
    """Is it among the addresses of Linux's interfaces? True if they cannot be read."""
    try:
        if address.version == 6:
            return Path("/proc/net/if_inet6").read_text().find(address.packed.hex()) >= 0
        return str(address) in LOCAL_ADDRESS.findall(Path("/proc/net/fib_trie").read_text())
    except OSError:
        return True


def is_public_address(address: Address) -> bool:
    """Is it the address of one machine on the internet, as far as its number tells?

    Of IPv6 only global unicast: forms that have an IPv4 address inside are not public.
    """
    if address.version == 6 and address not in UNICAST:
        return False
    return not any(address in network for network in NON_PUBLIC_NETWORKS)


def _resolve(to: Destination, seconds: float, resolve: Callable[..., list]) -> list[Address]:
    answer: Future[list] = Future()

    def ask() -> None:
        try:
            answer.set_result(resolve(to.host, to.port, type=socket.SOCK_STREAM))
        except Exception as error:
            answer.set_exception(error)

    # The resolver of the system has no deadline that could be set, so it may end alone.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        found = answer.result(max(0.0, seconds))
    except TimeoutError:
        raise
    except (OSError, UnicodeError):
        raise NameNotResolved from None
    if not found:
        raise NameNotResolved
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


def _parse_address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _invalid_url(detail: str) -> InvalidValue:
    return InvalidValue("invalid_url", detail)
