"""Names of businesses and people in messages that the service sends.

Anybody who signs up chooses a name, and messages of the service repeat it: a name with a link or a
phone number in it would let strangers send their own message to others.
"""

import re
import unicodedata

MAX_NAME_CHARACTERS = 30  # of a name in a message


def is_url_like(name: str) -> bool:
    """Return whether the name contains a URL or an e-mail address: a scheme, `www.`, `a.ua/…`.

    A bare domain, as in the name "Rozetka.ua", does not count here, because it may be a name.
    """
    return bool(_ADDRESS.search(_comparable(name)))


def name_for_message(name: str) -> str:
    """Return the name for a message, cut to MAX_NAME_CHARACTERS; "" if it must be left out.

    Left out are names that phones and mail programs turn into links: URLs, e-mail addresses, bare
    domains, phone numbers.
    """
    text = _comparable(name)
    if _ADDRESS.search(text) or _DOMAIN_ONLY.search(text) or _PHONE.search(text):
        return ""
    visible = " ".join(_without_invisible(name).split())
    return visible[:MAX_NAME_CHARACTERS].rstrip()


def _comparable(name: str) -> str:
    """Return the name as people read it who look for links: without marks on letters and digits.

    Programs that look for links may drop them, or show the domain that is left.
    """
    text = unicodedata.normalize("NFKD", _without_invisible(name)).lower()
    text = "".join(c for c in _without_invisible(text) if unicodedata.category(c)[0] != "M")
    return text.replace("\u3002", ".")  # which domains may be written with


def _without_invisible(name: str) -> str:
    text = _IGNORABLE.sub("", name)
    return "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Cc"))


# Default_Ignorable_Code_Point of Unicode, as far as it is not of the category Cf.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
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
