"""The networks by which addresses are counted: one customer of a provider has at least an IPv6
/64, often a /48."""

import ipaddress


def networks_of(address: str) -> tuple[str, ...]:
    """Return the networks that an address is counted by: itself, or its IPv6 /64 and /48.

    An IPv4 address in IPv6 form counts as IPv4; a text that is no address counts as itself.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return (address,)
    if isinstance(parsed, ipaddress.IPv4Address):
        return (address,)
    if parsed.ipv4_mapped:
        return (str(parsed.ipv4_mapped),)
    packed = parsed.packed
    return packed[:8].hex(), packed[:6].hex()
