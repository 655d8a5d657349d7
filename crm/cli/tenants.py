"""Tenants of this installation, their users and their API keys."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from crm.access import api_keys, links, rights
from crm.cli.commands import (
    command,
    list_command,
    read_time,
    require_served,
    subgroup,
    tenant_command,
    tenant_file,
    tenant_session,
)
from crm.config import PLANS, Config
from crm.copies import stores
from crm.errors import Invalid, NotFound
from crm.installation.tenants import Tenants
from crm.resources import export, handover, users
from crm.resources import tenant as tenants_rules
from crm.resources.pipelines.record import FIRST_NAMES
from crm.storage import disk
from crm.storage.session import now, time_text

LINK_MINUTES = links.LIFETIME_SECONDS[links.LOGIN] // 60
PLAN = click.Choice(list(PLANS))
STDOUT, NOBODY = Path("-"), "nobody"


tenant = subgroup("tenant", "Tenants of this installation.")


@command(tenant, "create", "tenant", folder="may be new")
@click.option("--name", help="Name of the business; by default TENANT.")
@click.option("--plan", default="business", type=PLAN)
@click.option(
    "--language",
    type=click.Choice(list(FIRST_NAMES)),
    help="Of the first pipeline and of the owner's pages; the pipeline is English by default.",
)
@click.option("--currency", default="UAH", help="Default of amounts.")
@click.option("--owner-name")
@click.option("--owner-phone", help="For login by SMS code; asked for on a terminal.")
@click.option("--owner-email", help="For login by password; asked for on a terminal.")
def tenant_create(config: Config, tenant: str, **options: Any) -> str:
    """Create TENANT with its owner, and print its address.

    A link that logs the owner in, and how to log in later, are printed on stderr.
    """
    require_served(config, tenant)
    owner = {field: options.pop(f"owner_{field}") for field in ("name", "phone", "email")}
    if not (owner["phone"] or owner["email"]) and sys.stdin.isatty():
        owner["phone"] = _ask("phone, for login by a code")
        owner["email"] = _ask("e-mail, for login by a password")
    options["owner"] = _given(owner)
    tenants_rules.open_tenant(Tenants(config), tenant, **_given(options))
    with tenant_session(config, tenant):
        person = users.User.find(users.owner_id())
        link = _login_link(config, tenant, person.id)
    url = config.url_of(tenant)
    ways = (
        person.phone and f"by a code sent to {person.phone}",
        person.email and f"by a password that {url}/forgot lets them set",
    )
    later = f"later at {url}/login " + ", or ".join(filter(None, ways))
    click.echo(f"the owner can log in once, within {LINK_MINUTES} minutes: {link}", err=True)
    click.echo(later if any(ways) else "there they can choose how to log in later", err=True)
    click.echo(f"`user login-link {tenant} {person.id}` makes another link", err=True)
    return url


def _ask(whose: str) -> str | None:
    text = click.prompt(f"The owner's {whose} (empty: none)", "", show_default=False, err=True)
    return text or None


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that are not given."""
    return {name: value for name, value in options.items() if value is not None}


@command(tenant, "list")
@list_command("tenant plan state name")
def tenant_list(config: Config) -> Iterator[dict[str, Any]]:
    """List the tenants."""
    for label in Tenants(config).labels():
        with tenant_session(config, label):
            about = tenants_rules.about()
        state = "suspended" if about["suspended_at"] else "active"
        row = {"tenant": label, "plan": about["plan"], "state": state, "name": about["name"]}
        url = config.url_of(label) if config.tenant in (None, label) else None
        yield {**row, "created_at": about["created_at"], "url": url}


@tenant_command(tenant, "plan")
@click.argument("plan", type=PLAN)
def tenant_plan(plan: str) -> None:
    """Change the plan of TENANT."""
    tenants_rules.change_plan(plan)


@tenant_command(tenant, "suspend")
def tenant_suspend() -> None:
    """Refuse all keys and sessions of TENANT, and send nothing, until it is resumed."""
    tenants_rules.suspend()


@tenant_command(tenant, "resume")
def tenant_resume() -> None:
    """Accept the keys and sessions of TENANT again."""
    tenants_rules.resume()


@command(tenant, "export", "tenant")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    show_default="TENANT-<time>.zip in the current folder",
    help="- for the standard output.",
)
def tenant_export(config: Config, tenant: str, to: Path | None) -> str | None:
    """Export TENANT as a zip file: its SQLite file and CSV files."""
    with tenant_file(config, tenant) as tenants:
        if to == STDOUT:
            export.send(tenants, tenant, sys.stdout.buffer)
            return None
        path = to or Path(f"{tenant}-{disk.stamp(tenants.clock())}.zip")
        export.write(tenants, tenant, path)
    return f"{path}\t{path.stat().st_size}"


@command(tenant, "clone", "tenant", "new")
@click.option("--name", help="Name of the business; by default unchanged.")
def tenant_clone(config: Config, tenant: str, new: str, name: str | None) -> str:
    """Create the tenant NEW as a copy of TENANT, to try things out.

    Users log in to it as they do to TENANT. Its API keys are revoked and its webhooks switched off.
    """
    require_served(config, new)
    with tenant_file(config, tenant) as tenants:
        tenants_rules.clone(tenants, tenant, new, name or "")
    return config.url_of(new)


@command(tenant, "delete", "tenant")
@click.option("--yes", is_flag=True, help="Don't ask.")
def tenant_delete(config: Config, tenant: str, yes: bool) -> str:
    """Delete TENANT. Its file goes to <data>/trash and can be restored from there."""
    with tenant_file(config, tenant) as tenants:
        if tenants.exists(tenant) and not yes:
            click.confirm(f"Delete {tenant}? Its users lose access at once.", abort=True, err=True)
        file = stores.delete(tenants, tenant)
    return f"{tenant} is deleted; its file: {file}"


user = subgroup("user", "Users of a tenant.")


@tenant_command(user, "create")
@click.option("--name", required=True)
@click.option("--phone")
@click.option("--email")
@click.option("--role", default="manager", type=click.Choice(users.ROLES))
def user_create(**fields: str | None) -> int:
    """Create a user of TENANT and print its id."""
    return users.create(users.USER_IN.parse(_given(fields))).id


@tenant_command(user, "update", "user")
@click.option("--name")
@click.option("--phone")
@click.option("--email")
@click.option("--role", type=click.Choice(users.ROLES))
def user_update(user: str, **fields: str | None) -> None:
    """Change USER (id, phone or e-mail) of TENANT; an empty text removes a phone or e-mail."""
    changes = {name: value or None for name, value in _given(fields).items()}
    if not changes:
        raise click.UsageError("nothing to change")
    users.update(users.named(user).id, users.USER_PATCH.parse(changes))


@tenant_command(user, "deactivate", "user")
@click.option(
    "--hand-over-to", "to", metavar="USER", help="Gets what is open: id, phone, e-mail or `nobody`."
)
def user_deactivate(user: str, to: str | None) -> str:
    """End the access of USER (id, phone or e-mail) to TENANT: all sessions and API keys.

    Prints how many open leads, deals and tasks USER has. They stay USER's, or are handed over.
    """
    id, to_id = users.named(user).id, users.named(to).id if to and to != NOBODY else None
    counts = handover.count_open(id)
    users.update(id, {"active": 0})
    if to:
        handover.hand_over(id, to_id)
    return "open " + ", ".join(f"{plural}: {count}" for plural, count in counts.items())


@tenant_command(user, "list")
@list_command(
    "id role state phone email name", state=lambda row: "active" if row["active"] else "deactivated"
)
def user_list() -> list[Any]:
    """List the users of TENANT."""
    return list(users.USER.every("TRUE ORDER BY id"))


@command(user, "login-link", "tenant", "user")
def user_login_link(config: Config, tenant: str, user: str) -> str:
    """Print a link that logs USER (id, phone or e-mail) in to the workspace of TENANT, once."""
    with tenant_session(config, tenant):
        link = _login_link(config, tenant, users.named(user).id)
    click.echo(f"the link is valid for {LINK_MINUTES} minutes", err=True)
    return link


def _login_link(config: Config, tenant: str, user_id: int) -> str:
    require_served(config, tenant)
    return f"{config.url_of(tenant)}/enter/{links.create(links.LOGIN, user_id)}"


key = subgroup("key", "API keys of a tenant.")


@tenant_command(key, "create")
@click.option("--name", required=True)
@click.option("--scopes", help="leads:read,leads:write or *, which is the default.")
@click.option(
    "--preset",
    type=click.Choice([rights.ASSISTANT]),
    help="Rights and expiry that are not given; assistants together have half of the requests.",
)
@click.option("--user", "user_id", type=int, help="Id of its user; by default the owner.")
@click.option("--origins", help="Origins of a leads:create key, separated by commas.")
@click.option("--expires", help="A date, or a time with its offset.")
@click.option("--own", is_flag=True, help="It sees the records of its user only.")
def key_create(
    scopes: str | None, preset: str | None, user_id: int | None, expires: str | None, **about: Any
) -> str:
    """Create a key of TENANT. Its secret is the last line, and is not shown again."""
    expires_at = expires and time_text(int(read_time(expires, "expires")))
    if expires_at and expires_at <= now():
        raise Invalid.field("expires", "in_the_past", "is in the past")
    if preset and not expires_at:
        expires_at = api_keys.assistant_expiry()
    if scopes is None:
        scopes = ",".join(api_keys.ASSISTANT_SCOPES) if preset else "*"
    owner_id = users.owner_id() if user_id is None else user_id
    _, secret = api_keys.create(
        scopes=scopes, user_id=owner_id, expires_at=expires_at, preset=preset, **_given(about)
    )
    # Advice goes to stderr, so that a script reads nothing but the key from stdout.
    click.echo("store the key now: it is not shown again", err=True)
    return secret


@tenant_command(key, "list")
@list_command(
    "id key scopes user last_used state name",
    key=lambda row: f"{row['hint']}…",
    scopes=lambda row: ",".join(row["scopes"]),
    user=lambda row: row["user_id"],
    last_used=lambda row: row["last_used_at"] or "never",
)
def key_list() -> list[dict[str, Any]]:
    """List the keys of TENANT, each with the first characters of its secret."""
    return [
        {
            "id": str(key.id),
            "hint": key.hint,
            "scopes": key.scopes.split(","),
            "user_id": str(key.user_id),
            "last_used_at": key.last_used_at,
            "expires_at": key.ends_at,
            "state": key.state(),
            "name": key.name,
        }
        for key in api_keys.list_all()
    ]


@tenant_command(key, "revoke", "id")
def key_revoke(id: str) -> str:
    """Revoke the key ID of TENANT."""
    try:
        key = api_keys.find(id)
    except NotFound:
        raise NotFound(f"there is no key {id}") from None
    key.revoke()
    when = f"since {key.revoked_at}" if key.revoked_at else "from now on"
    return f"the key {id} ({key.name}) is refused {when}"
