"""Which addresses a webhook may call: public ones of other machines by https, and those that the
operator allows (D15).

A URL is checked when it is set (`parse_destination`), and again at every delivery. A delivery then
resolves the name, refuses it if one of its addresses is not allowed, and connects to one of the
checked addresses (`resolve_addresses`). So a name whose addresses change cannot lead into the
internal network.
"""

import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import quote, unquote

from crm.config.readers import Allow, normalize_host
from crm.networks import Address, parse_address
from crm.values import InvalidValue

MAX_URL_CHARACTERS = 2048  # characters of a URL
DEFAULT_PORTS = {"https": 443, "http": 80}
VISIBLE_ASCII = "".join(map(chr, range(33, 127)))
LOCAL_ADDRESS = re.compile(r"-- ([0-9.]+)\n +/32 host LOCAL")
UNENCODED_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

# ipaddress.is_global accepts 6to4, multicast and 168.63.129.16, and differs between versions.
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


# Addresses that no machine has: one reserved, one of the discard prefix.
UNUSED_ADDRESSES = {4: ip_address("240.0.0.1"), 6: ip_address("100::1")}


class ForbiddenAddress(InvalidValue):
    """The address is not public, or is one of this machine, and the operator does not allow it."""

    def __init__(self) -> None:
        super().__init__(
            "forbidden_address",
            "must be a public address, or one that the operator of the service allows",
        )


class NameNotResolved(Exception):
    """The name has no address at this moment."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A checked URL. `host` is a name in ASCII or an address without brackets."""

    scheme: str
    host: str
    port: int
    target: str  # path and query


def parse_destination(url: str, allow: Allow) -> Destination:
    """Split a URL and check what can be checked without resolving its name.

    Raises InvalidValue: too_long, invalid_url; ForbiddenAddress.
    """
    if len(url) > MAX_URL_CHARACTERS:
        raise InvalidValue("too_long", f"at most {MAX_URL_CHARACTERS} characters")
    if not url.isprintable() or re.search(r"[ \\]", url) or UNENCODED_PERCENT.search(url):
        raise _invalid_url("must not contain spaces, backslashes, control characters or a bare %")
    from urllib3.util import parse_url  # takes 17 ms, of processes that call webhooks alone

    try:
        parts = parse_url(quote(url, safe=VISIBLE_ASCII))
        host = normalize_host(unquote(parts.host or ""))
    except ValueError:
        raise _invalid_url(
            "must have a valid host and port, as in https://example.com/path"
        ) from None
    scheme = parts.scheme
    if scheme not in DEFAULT_PORTS:
        raise _invalid_url("must begin with https://")
    if parts.auth is not None or url.partition("://")[2].startswith("@"):
        raise _invalid_url("must not contain a user name or password")
    if parts.fragment is not None:
        raise _invalid_url("must not contain a fragment (#)")
    port = DEFAULT_PORTS[scheme] if parts.port is None else parts.port
    if not port:
        raise _invalid_url("must have a port from 1 to 65535")
    address = parse_address(host)
    is_allowed = allow.has_address(address, port) if address else allow.has_host(host, port)
    if scheme == "http" and not is_allowed:
        raise _invalid_url("must begin with https://")
    if address and not is_allowed and not is_callable_address(address):
        raise ForbiddenAddress
    return Destination(scheme, host, port, parts.request_uri)


def resolve_addresses(
    destination: Destination,
    allow: Allow,
    seconds: float,
    resolve: Callable[..., list] = socket.getaddrinfo,
) -> list[Address]:
    """Return the addresses of a destination in the order to try them; all of them are allowed.

    If one address of a name is not allowed, the whole name is refused. Raises ForbiddenAddress,
    NameNotResolved, and TimeoutError if there is no result in `seconds`.
    """
    literal = parse_address(destination.host)
    addresses = [literal] if literal else _resolve(destination, seconds, resolve)
    if literal is None and allow.has_host(destination.host, destination.port):
        return addresses
    if not all(
        allow.has_address(address, destination.port) or is_callable_address(address)
        for address in addresses
    ):
        raise ForbiddenAddress
    return addresses


def is_callable_address(address: Address) -> bool:
    """Return whether the address is public and not one of this machine."""
    return is_public_address(address) and not is_own_address(address)


def is_own_address(address: Address) -> bool:
    """Return whether an interface of this machine has the address.

    A call to an own public address would pass behind the firewall and reach services that are not
    for other hosts. The kernel answers by binding a socket, so aliases and later addresses count,
    and nothing is sent. An address that only a NAT in front has is not the machine's own: such a
    call takes the same path as a stranger's.
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
    """Return whether Linux lists the address for an interface; True if the list is unreadable."""
    try:
        if address.version == 6:
            return Path("/proc/net/if_inet6").read_text().find(address.packed.hex()) >= 0
        return str(address) in LOCAL_ADDRESS.findall(Path("/proc/net/fib_trie").read_text())
    except OSError:
        return True


def is_public_address(address: Address) -> bool:
    """Return whether the address is one of the public internet, as far as its number shows.

    Of IPv6 only global unicast is public; forms that contain an IPv4 address are not.
    """
    if address.version == 6 and address not in UNICAST:
        return False
    return not any(address in network for network in NON_PUBLIC_NETWORKS)


def _resolve(
    destination: Destination, seconds: float, resolve: Callable[..., list]
) -> list[Address]:
    result: Future[list] = Future()

    def run() -> None:
        try:
            result.set_result(resolve(destination.host, destination.port, type=socket.SOCK_STREAM))
        except Exception as error:
            result.set_exception(error)

    # The system's resolver takes no deadline, so it runs in a thread that may outlive the call.
    threading.Thread(target=run, name="resolve", daemon=True).start()
    try:
        entries = result.result(max(0.0, seconds))
    except TimeoutError:
        raise
    except (OSError, UnicodeError):
        raise NameNotResolved from None
    if not entries:
        raise NameNotResolved
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in entries))


def _invalid_url(detail: str) -> InvalidValue:
    return InvalidValue("invalid_url", detail)
