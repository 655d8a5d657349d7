"""To which networks an address belongs: one customer has many addresses of IPv6."""

import ipaddress


def networks_of(address: str) -> tuple[str, ...]:
    """The networks that an address counts for: itself, or its IPv6 /64 and /48.

    One customer has at least a /64, often a /48.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return (address,)
    if parsed.version == 4:
        return (address,)
    if parsed.ipv4_mapped:
        return (str(parsed.ipv4_mapped),)
    packed = parsed.packed
    return packed[:8].hex(), packed[:6].hex()
