"""Host headers: which ones are host names or IP addresses."""

import re
from ipaddress import ip_address

HOST = re.compile(r"([a-z0-9.-]{1,253})(?::[0-9]{1,5})?\Z")
IP_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")


def is_host(text: str) -> bool:
    """Whether a Host header is one that the libraries can read without an error."""
    name = text.lower().partition(":")[0]
    try:
        return bool(HOST.match(text.lower()) and name.encode().decode("idna").encode("idna"))
    except UnicodeError:
        return False


def is_ip_address(host: str) -> bool:
    """Whether a Host header is an IP address and nothing else: `127.0.0.1:8000`, `[::1]`."""
    match = IP_HOST.fullmatch(host)
    try:
        return bool(match and ip_address(match[1] or match[2]))
    except ValueError:
        return False
