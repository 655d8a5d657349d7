"""The demo: a data folder with two invented businesses, and what to try on them (D18).

A business is made once and found again at the next start; an API key can be shown only once, so
each start makes a new one and revokes the one before. Other tenants in the folder are left alone;
one that has the label of a demo tenant stops the start before anything is made.
"""

from jinja2 import Template

from crm.access import api_keys, links
from crm.config import Config, ConfigError
from crm.demo.history import FOLDER, Example, Replay
from crm.embedding.resources import Resource, resources_of
from crm.errors import Conflict
from crm.installation.tenants import Tenants
from crm.outbox import events
from crm.resources import users
from crm.resources.tenant import mark_as_trial, open_tenant
from crm.storage.dialect import equals
from crm.storage.session import transaction
from crm.wsgi import create_app

LABELS = ("acme", "globex")
KEY_NAME = "demo"  # of the API key that is printed


def prepare(
    tenants: Tenants, program: str = "python app.py", moment: float | None = None
) -> tuple[str, str]:
    """Make the tenants that are not there yet, and a new API key and login link.

    Returns an address that logs in the first business's owner, once, and a text that explains how
    to begin, with that address in its first line.
    `program` is how the command line is called in a shell. `moment`, in Unix time, is when the
    histories end, by default now; those that end at the same moment have the same events.
    Raises Conflict `label_taken` for a tenant that is not the demo's, ConfigError for a CRM_TENANT
    that is not of the demo.
    """
    examples = _served_examples(tenants.config)
    try:
        missing = [example for example in examples if not _exists(tenants, example)]
        if missing:
            resources = resources_of(create_app(tenants.config, sends=False))
        for example in missing:
            _create(tenants, example, resources, moment)
        key, token = _renew_access(tenants, examples[0].label)
    finally:
        tenants.forget_idle()  # the server may fork, which no connection survives
    first, *others = examples
    url = f"{first.address}/enter/{token}"
    template = Template((FOLDER / "start.txt").read_text("utf-8"), trim_blocks=True)
    text = template.render(
        url=url,
        key=key,
        first=first,
        others=others,
        minutes=links.LIFETIME_SECONDS[links.LOGIN] // 60,
        program=program,
    )
    return url, text


def _served_examples(config: Config) -> list[Example]:
    """The businesses that the server will serve; the key is for the first one."""
    labels = [label for label in LABELS if config.tenant in (None, label)]
    if not labels:
        names = " or ".join(LABELS)
        raise ConfigError(f"CRM_TENANT={config.tenant!r}: for the demo it is {names}, or unset")
    local = f"http://127.0.0.1:{config.port}"
    return [Example(label, local if config.tenant else config.url_of(label)) for label in labels]


def _exists(tenants: Tenants, example: Example) -> bool:
    """Whether the business is in the folder; its owner's address tells it from other tenants."""
    if not tenants.exists(example.label):
        return False
    with tenants.session(example.label):
        if not users.User.first(equals("email"), example.owner["email"]):
            raise Conflict(
                f"the data folder has a tenant {example.label} that is not the demo's;"
                " choose another folder with --data",
                "label_taken",
            )
    return True


def _create(
    tenants: Tenants, example: Example, resources: dict[str, Resource], moment: float | None
) -> None:
    replay = Replay(example, resources, tenants.clock() if moment is None else moment)

    def add_history() -> None:
        mark_as_trial()
        replay.run()
        if moment is not None:
            events.derive_ids()

    open_tenant(
        Tenants(tenants.config, lambda: replay.moment),
        example.label,
        name=example.name,
        language="uk",
        owner=example.owner,
        on_created=add_history,
    )


def _renew_access(tenants: Tenants, label: str) -> tuple[str, str]:
    """The owner's new API key, which replaces that of the start before, and a token to log in."""
    with tenants.session(label), transaction():
        for key in api_keys.list_all():
            if key.name == KEY_NAME and not key.revoked_at:
                key.revoke()
        api_key = api_keys.create(KEY_NAME, "*", users.owner_id())[1]
        return api_key, links.create(links.LOGIN, users.owner_id())
