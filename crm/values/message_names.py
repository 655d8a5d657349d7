"""Names of businesses and people as messages to others may carry them.

Whoever signs up chooses a name, and messages sent in our name repeat it: a name with a link or a
phone number in it would make them somebody else's message.
"""

import re
import unicodedata

MAX_NAME_CHARACTERS = 30  # of a name in a message


def is_url_like(name: str) -> bool:
    """Does the name hold an address: a scheme, `www.`, an e-mail address, `shop.example/…`?

    A bare domain, as in the name "Rozetka.ua", is none: it may be a name, though for_message()
    leaves it out.
    """
    return bool(_ADDRESS.search(_comparable(name)))


def name_for_message(name: str) -> str:
    """The name as a message carries it, cut to NAME_CHARACTERS; "" when it is to be left out.

    Left out are names that phones and mail programs make something to tap on of: an address, a
    bare domain, a phone number.
    """
    text = _comparable(name)
    if _ADDRESS.search(text) or _DOMAIN_ONLY.search(text) or _PHONE.search(text):
        return ""
    shown = " ".join(_without_invisible(name).split())
    return shown[:MAX_NAME_CHARACTERS].rstrip()


def _comparable(name: str) -> str:
    """The name as a program that looks for links reads it."""
    text = unicodedata.normalize("NFKC", _without_invisible(name)).lower()
    return text.replace("\u3002", ".")  # which domains may be written with


def _without_invisible(name: str) -> str:
    return "".join(c for c in name if unicodedata.category(c) not in ("Cf", "Cc"))


_DOMAIN = (
    r"(?:(?:[^\W_][\w-]*\.)+(?:xn--[a-z0-9-]+|[^\W\d_]{2,})"
    r"|(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d))"
)
_DOMAIN_ONLY = re.compile(_DOMAIN)
_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]*:/"
    r"|\b(?:https?|hxxps?|mailto|tel|sms):"
    r"|\bwww\d?\."
    r"|\S@\S"
    rf"|{_DOMAIN}(?::\d+)?[/?#\\]"
)
_PHONE = re.compile(r"\d(?:[\s().-]*\d){6}")
