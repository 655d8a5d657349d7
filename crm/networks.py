"""IP addresses, and the networks by which they are counted: one customer of a provider has at least
an IPv6 /64, often a /48."""

from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address


def parse_address(text: str) -> Address | None:
    """Return the IP address that a text is; None if it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def networks_of(address: str) -> tuple[str, ...]:
    """Return the networks that an address is counted by: itself, or its IPv6 /64 and /48.

    An IPv4 address in IPv6 form counts as IPv4; a text that is no address counts as itself.
    """
    parsed = parse_address(address.partition("%")[0])
    if not isinstance(parsed, IPv6Address):
        return (address,)
    if parsed.ipv4_mapped:
        return (str(parsed.ipv4_mapped),)
    packed = parsed.packed
    return packed[:8].hex(), packed[:6].hex()
