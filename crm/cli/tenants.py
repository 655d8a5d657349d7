"""Tenants of this installation, their users and their API keys."""

import click

from crm.access import api_keys, links
from crm.cli.commands import at, command, group, moment_of
from crm.cli.tables import as_json, field, print_rows
from crm.config import PLANS, Config
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.resources.pipelines import FIRST_NAMES
from crm.tenancy.tenants import Tenants

LINK_MINUTES = links.LIFETIME_SECONDS[links.LOGIN] // 60
OWNER_FIELDS = ("name", "phone", "email")


@group.group("tenant")
def tenant() -> None:
    """Tenants of this installation."""


@command(tenant, "create")
@click.argument("label")
@click.option("--name", default="", help="Name of the business; the label when absent.")
@click.option("--plan", default="business", show_default=True, type=click.Choice(list(PLANS)))
@click.option(
    "--language",
    type=click.Choice(list(FIRST_NAMES)),
    help="Of the first pipeline and of the owner's pages; without one the pipeline is English.",
)
@click.option("--currency", default="UAH", show_default=True, help="Of what doesn't name one.")
@click.option("--owner-name")
@click.option("--owner-phone")
@click.option("--owner-email")
def tenant_create(config: Config, label: str, **options: str | None) -> None:
    """Create the tenant LABEL with its owner, and print its address.

    A link that lets the owner in is printed beside it, on stderr.
    """
    person = {field: options.pop(f"owner_{field}") for field in OWNER_FIELDS}
    given = {field: value for field, value in person.items() if value is not None}
    tenants_rules.open_tenant(Tenants(config), label, owner=given, **options)
    with at(config, label):
        link = _login_link(config, label, users.owner_id())
    click.echo(f"its owner enters once, within {LINK_MINUTES} minutes, by {link}", err=True)
    click.echo(config.url_of(label))


@command(tenant, "list")
@as_json
def tenant_list(config: Config, as_json: bool) -> None:
    """List the tenants."""
    rows = []
    for label in Tenants(config).labels():
        with at(config, label):
            about = tenants_rules.about()
        state = "suspended" if about["suspended_at"] else "active"
        row = {"label": label, "plan": about["plan"], "state": state, "name": about["name"]}
        rows.append({**row, "created_at": about["created_at"], "url": config.url_of(label)})
    columns = {name: field(name) for name in ("label", "plan", "state", "name")}
    print_rows(rows, as_json, **columns)


@command(tenant, "plan")
@click.argument("label")
@click.argument("plan", type=click.Choice(list(PLANS)))
def tenant_plan(config: Config, label: str, plan: str) -> None:
    """Change the plan of the tenant LABEL."""
    with at(config, label):
        tenants_rules.change_plan(plan)


@command(tenant, "suspend")
@click.argument("label")
def tenant_suspend(config: Config, label: str) -> None:
    """Refuse all keys of the tenant LABEL until it is resumed."""
    with at(config, label):
        tenants_rules.suspend()


@command(tenant, "resume")
@click.argument("label")
def tenant_resume(config: Config, label: str) -> None:
    """Let the keys of the tenant LABEL work again."""
    with at(config, label):
        tenants_rules.resume()


@group.group("user")
def user() -> None:
    """Users of a tenant."""


@command(user, "add")
@click.argument("tenant")
@click.option("--name", required=True)
@click.option("--phone")
@click.option("--email")
@click.option("--role", default="manager", show_default=True, type=click.Choice(users.ROLES))
def user_add(config: Config, tenant: str, **fields: str | None) -> None:
    """Add a user to TENANT and print its id."""
    sent = {name: value for name, value in fields.items() if value is not None}
    with at(config, tenant):
        click.echo(users.create(users.USER_IN.take(sent)).id)


@command(user, "list")
@click.argument("tenant")
@as_json
def user_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the users of TENANT."""
    with at(config, tenant):
        rows = list(users.USER.every("1 ORDER BY id"))
    columns = {name: field(name) for name in ("id", "role")}
    columns["state"] = lambda row: "active" if row["active"] else "deactivated"
    print_rows(rows, as_json, **columns, phone=field("phone"), email=field("email"),
               name=field("name"))  # fmt: skip


@command(user, "login-link")
@click.argument("tenant")
@click.argument("user")
def user_login_link(config: Config, tenant: str, user: str) -> None:
    """Print a link that logs USER (id, phone or e-mail) in to the workspace of TENANT, once."""
    with at(config, tenant):
        link = _login_link(config, tenant, users.named(user).id)
    click.echo(f"it is good for {LINK_MINUTES} minutes", err=True)
    click.echo(link)


def _login_link(config: Config, label: str, user_id: int) -> str:
    return f"{config.url_of(label)}/enter/{links.create(links.LOGIN, user_id)}"


@group.group("key")
def key() -> None:
    """API keys of a tenant."""


@command(key, "create")
@click.argument("tenant")
@click.option("--name", required=True)
@click.option("--scopes", default="*", show_default=True, help="leads:read,leads:write or *")
@click.option("--user", "user_id", type=int, help="Whom it acts for; the owner when absent.")
@click.option("--origins", default="", help="Origins of a leads:create key, with commas.")
@click.option("--expires", help="A date, or a time with its offset.")
def key_create(config: Config, tenant: str, user_id: int | None, **options: str) -> None:
    """Create a key of TENANT. It is shown this once, as the last line."""
    expires = options["expires"] and moment_of(options["expires"], "expires")
    with at(config, tenant):
        _, secret = api_keys.create(
            options["name"],
            options["scopes"],
            users.owner_id() if user_id is None else user_id,
            origins=options["origins"],
            expires_at=expires,
        )
    click.echo("keep it safe: it is not shown again", err=True)
    click.echo(secret)


@command(key, "list")
@click.argument("tenant")
@as_json
def key_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the keys of TENANT, each with its beginning alone."""
    with at(config, tenant):
        rows = [
            {
                "id": str(found.id),
                "hint": found.hint,
                "scopes": found.scopes.split(","),
                "user_id": str(found.user_id),
                "last_used_at": found.last_used_at,
                "expires_at": found.expires_at,
                "state": found.state(),
                "name": found.name,
            }
            for found in api_keys.list_all()
        ]
    print_rows(
        rows,
        as_json,
        id=field("id"),
        key=lambda row: f"{row['hint']}…",
        scopes=lambda row: ",".join(row["scopes"]),
        user=field("user_id"),
        last_used=lambda row: row["last_used_at"] or "never",
        state=field("state"),
        name=field("name"),
    )


@command(key, "revoke")
@click.argument("tenant")
@click.argument("id")
def key_revoke(config: Config, tenant: str, id: str) -> None:
    """Refuse the key ID of TENANT from now on."""
    with at(config, tenant):
        api_keys.find(id).revoke()
