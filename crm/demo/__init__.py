"""The demo: a data folder with two believable businesses, and what to try on them (D18).

A business is played once and found again at the next start; a key can be shown only once, so each
start makes a new one and revokes the one before. Other tenants in the folder are left alone; one
that has the label of a demo's business stops the start before anything is made.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crm.access import api_keys, links
from crm.config import Config, ConfigError
from crm.demo.businesses import BUSINESSES, Business
from crm.demo.quarter import Quarter
from crm.errors import Conflict
from crm.json import dumps
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.tenancy.database import transaction
from crm.tenancy.tenants import Tenants

KEY = "demo"  # the name of the key that is printed
RECEIVER_PORT = 9000


class Furnished(NamedTuple):
    """`url` leads into the first business's workspace as its owner, once; `text` tells how to
    begin, with that address first."""

    url: str
    text: str


def furnish(tenants: Tenants, program: str = "python app.py") -> Furnished:
    """Make what isn't there yet.

    `program` is how the command line is called in a shell.
    Raises Conflict `label_taken` for another's tenant, ConfigError for a CRM_TENANT of no use here.
    """
    businesses = _served(tenants.config)
    try:
        missing = [business for business in businesses if not _is_there(tenants, business)]
        for business in missing:
            _open(tenants, business)
        key = _new_key(tenants, businesses[0].label)
        url = _new_way_in(tenants, businesses[0])
        phones = [_phone(tenants, business) for business in businesses]
    finally:
        tenants.forget_idle()  # the server may fork, which no connection survives
    ways = _ways_in(tenants.config, businesses, phones)
    text = "\n\n".join((f"Open {url}", *ways, _told(tenants.config, businesses[0], key, program)))
    return Furnished(url, text)


def _served(config: Config) -> list[Business]:
    """The businesses that the server will serve; the first one's key is shown."""
    found = [each for each in BUSINESSES if config.tenant in (None, each.label)]
    if not found:
        labels = " or ".join(business.label for business in BUSINESSES)
        raise ConfigError(f"CRM_TENANT={config.tenant!r}: for the demo it is {labels}, or unset")
    return found


def _is_there(tenants: Tenants, business: Business) -> bool:
    """Is the business in the folder already? Nobody else's owner has the address of the demo's."""
    if not tenants.exists(business.label):
        return False
    with tenants.session(business.label):
        if not users.User.first("email = ?", business.owner_email):
            raise Conflict(
                f"the data folder has a tenant {business.label} that is not the demo's;"
                " choose another folder with --data",
                "label_taken",
            )
    return True


def _open(tenants: Tenants, business: Business) -> None:
    quarter = Quarter(business, tenants.clock())
    open_tenant(
        Tenants(tenants.config, lambda: quarter.moment),
        business.label,
        name=business.name,
        language="uk",
        owner=quarter.owner._asdict(),
        furnish=quarter.play,
    )


def _new_key(tenants: Tenants, label: str) -> str:
    """The owner's key; the one of the start before ends."""
    with tenants.session(label), transaction():
        for key in api_keys.list_all():
            if key.name == KEY and not key.revoked_at:
                key.revoke()
        return api_keys.create(KEY, "*", users.owner_id())[1]


def _new_way_in(tenants: Tenants, business: Business) -> str:
    """A link that lets the owner into the workspace."""
    with tenants.session(business.label):
        token = links.create(links.LOGIN, users.owner_id())
    return f"{_address(tenants.config, business)}/enter/{token}"


def _phone(tenants: Tenants, business: Business) -> str:
    """Where the codes of the owner go."""
    with tenants.session(business.label):
        return users.User.find(users.owner_id()).phone


def _ways_in(config: Config, businesses: list[Business], phones: list[str]) -> Iterator[str]:
    minutes = links.LIFETIME_SECONDS[links.LOGIN] // 60
    first, *others = (
        (business.name, _address(config, business), phone)
        for business, phone in zip(businesses, phones, strict=True)
    )
    yield (
        "The demo is ready. Everybody in it is invented.\n"
        f"The link above opens the workspace of {first[0]} as its owner, once and within {minutes}"
        f" minutes.\nLater log in at {first[1]} with the phone {first[2]}:\n"
        "the page shows the code of the SMS."
    )
    for name, address, phone in others:
        yield (
            f"A second business, {name}, sees nothing of the first:\n"
            f"log in at {address} with the phone {phone}, by the code that the page shows."
        )


def _told(config: Config, first: Business, key: str, program: str) -> str:
    bearer = f'-H "Authorization: Bearer {key}"'
    json = '-H "Content-Type: application/json"'
    api = f"{_address(config, first)}/api/v1"
    lead = {"name": "Марія Левченко", "phone": "+380 70 123 45 67", "source": "site-form"}
    receiver = {"url": f"http://127.0.0.1:{RECEIVER_PORT}/"}
    return "\n\n".join(
        (
            f"The API's documentation, to read and try:\n{api}/docs",
            f"API key of the owner of {first.label}, new at each start:\n{key}",
            "Try it in another shell: open deals, a new lead, a search of the price list.",
            f'curl {bearer} "{api}/deals?status=open&limit=3"',
            f"curl {bearer} {json} -d '{dumps(lead).decode()}' \"{api}/leads\"",
            f'curl {bearer} -G --data-urlencode "q={first.word}" "{api}/products"',
            "Watch events: start a receiver in a shell of its own, tell its address, try again.",
            f"{program} webhook listen --port {RECEIVER_PORT}",
            f"curl {bearer} {json} -d '{dumps(receiver).decode()}' \"{api}/webhooks\"",
            "Stop with Ctrl-C. The next start finds everything as you left it.\n",
        )
    )


def _address(config: Config, business: Business) -> str:
    if config.tenant:
        return f"http://127.0.0.1:{config.port}"
    return config.url_of(business.label)
