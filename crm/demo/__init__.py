"""The demo: a data folder with two invented businesses, and what to try on them (D18).

A business is made once and found again at the next start; an API key can be shown only once, so
each start makes a new one and revokes the one before. Other tenants in the folder are left alone;
one that has the label of a demo tenant stops the start before anything is made.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crm.access import api_keys, links
from crm.config import Config, ConfigError
from crm.demo.history import Example, Replay
from crm.errors import Conflict
from crm.json import dumps
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.tenancy.database import transaction
from crm.tenancy.installation import open_tenants
from crm.tenancy.tenants import Tenants

LABELS = ("acme", "globex")
KEY_NAME = "demo"  # of the API key that is printed
RECEIVER_PORT = 9000


class Demo(NamedTuple):
    """`url` logs in the first business's owner, once; `text` explains how to begin, with that
    address in its first line."""

    url: str
    text: str


def prepare(tenants: Tenants, program: str = "python app.py") -> Demo:
    """Make the tenants that are not there yet, and a new API key and login link.

    `program` is how the command line is called in a shell. Raises Conflict `label_taken` for a
    tenant that is not the demo's, ConfigError for a CRM_TENANT that is not of the demo.
    """
    examples = _served_examples(tenants.config)
    try:
        missing = [example for example in examples if not _exists(tenants, example)]
        for example in missing:
            _create(tenants, example)
        key, url = _renew_access(tenants, examples[0])
        phones = [_owner_phone(tenants, example) for example in examples]
    finally:
        tenants.forget_idle()  # the server may fork, which no connection survives
    logins = _describe_logins(tenants.config, examples, phones)
    api = _describe_api(tenants.config, examples[0], key, program)
    return Demo(url, "\n\n".join((f"Open {url}", *logins, api)))


def _served_examples(config: Config) -> list[Example]:
    """The businesses that the server will serve; the key is for the first one."""
    labels = [label for label in LABELS if config.tenant in (None, label)]
    if not labels:
        names = " or ".join(LABELS)
        raise ConfigError(f"CRM_TENANT={config.tenant!r}: for the demo it is {names}, or unset")
    return [Example(label) for label in labels]


def _exists(tenants: Tenants, example: Example) -> bool:
    """Whether the business is in the folder; its owner's address tells it from other tenants."""
    if not tenants.exists(example.label):
        return False
    with tenants.session(example.label):
        if not users.User.first("email = ?", example.owner["email"]):
            raise Conflict(
                f"the data folder has a tenant {example.label} that is not the demo's;"
                " choose another folder with --data",
                "label_taken",
            )
    return True


def _create(tenants: Tenants, example: Example) -> None:
    replay = Replay(example, tenants.clock())
    open_tenant(
        open_tenants(tenants.config, lambda: replay.moment),
        example.label,
        name=example.name,
        language="uk",
        owner=example.owner,
        on_created=replay.run,
    )


def _renew_access(tenants: Tenants, example: Example) -> tuple[str, str]:
    """The owner's new API key, which replaces that of the start before, and a link to log in."""
    with tenants.session(example.label), transaction():
        for key in api_keys.list_all():
            if key.name == KEY_NAME and not key.revoked_at:
                key.revoke()
        api_key = api_keys.create(KEY_NAME, "*", users.owner_id())[1]
        token = links.create(links.LOGIN, users.owner_id())
    return api_key, f"{_address(tenants.config, example)}/enter/{token}"


def _owner_phone(tenants: Tenants, example: Example) -> str | None:
    """Where the owner's login codes go; it may have been changed since the first start."""
    with tenants.session(example.label):
        return users.User.find(users.owner_id()).phone


def _describe_logins(
    config: Config, examples: list[Example], phones: list[str | None]
) -> Iterator[str]:
    minutes = links.LIFETIME_SECONDS[links.LOGIN] // 60
    yield (
        "The demo is ready. Everybody in it is invented.\n"
        f"The link above opens the workspace of {examples[0].name} as its owner, once and within"
        f" {minutes} minutes.\nLater log in at {_address(config, examples[0])} with the phone"
        f" {phones[0]}:\nthe page shows the code of the SMS."
    )
    for example, phone in zip(examples[1:], phones[1:], strict=True):
        yield (
            f"A second business, {example.name}, sees nothing of the first:\nlog in at"
            f" {_address(config, example)} with the phone {phone}, by the code that the page shows."
        )


def _describe_api(config: Config, example: Example, key: str, program: str) -> str:
    bearer = f'-H "Authorization: Bearer {key}"'
    json = '-H "Content-Type: application/json"'
    api = f"{_address(config, example)}/api/v1"
    lead = {"name": "Марія Левченко", "phone": "+380 70 123 45 67", "source": "site-form"}
    receiver = {"url": f"http://127.0.0.1:{RECEIVER_PORT}/"}
    return "\n\n".join(
        (
            f"The API's documentation, to read and try:\n{api}/docs",
            f"API key of the owner of {example.label}, new at each start:\n{key}",
            "Try it in another shell: open deals, a new lead, a search of the price list.",
            f'curl {bearer} "{api}/deals?status=open&limit=3"',
            f"curl {bearer} {json} -d '{dumps(lead).decode()}' \"{api}/leads\"",
            f'curl {bearer} -G --data-urlencode "q={example.search}" "{api}/products"',
            "Watch events: start a receiver in a shell of its own, tell its address, try again.",
            f"{program} webhook listen --port {RECEIVER_PORT}",
            f"curl {bearer} {json} -d '{dumps(receiver).decode()}' \"{api}/webhooks\"",
            "Stop with Ctrl-C. The next start finds everything as you left it.\n",
        )
    )


def _address(config: Config, example: Example) -> str:
    if config.tenant:
        return f"http://127.0.0.1:{config.port}"
    return config.url_of(example.label)
