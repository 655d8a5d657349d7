"""Tenants of this installation, their users and their API keys."""

import click

from crm.access import api_keys, links
from crm.cli.commands import command, group, parse_moment, tenant_session
from crm.cli.tables import as_json, field, print_rows
from crm.config import PLANS, Config
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.resources.pipelines import FIRST_NAMES
from crm.tenancy.installation import open_tenants

LINK_MINUTES = links.LIFETIME_SECONDS[links.LOGIN] // 60


@group.group("tenant")
def tenant() -> None:
    """Tenants of this installation."""


@command(tenant, "create")
@click.argument("label")
@click.option("--name", default="", help="Name of the business; by default the label.")
@click.option("--plan", default="business", show_default=True, type=click.Choice(list(PLANS)))
@click.option(
    "--language",
    type=click.Choice(list(FIRST_NAMES)),
    help="Of the first pipeline and of the owner's pages; the pipeline is English by default.",
)
@click.option("--currency", default="UAH", show_default=True, help="Default of amounts.")
@click.option("--owner-name")
@click.option("--owner-phone")
@click.option("--owner-email")
def tenant_create(
    config: Config,
    label: str,
    name: str,
    plan: str,
    language: str | None,
    currency: str,
    **owner: str | None,
) -> None:
    """Create the tenant LABEL with its owner, and print its address.

    A link that logs the owner in is printed on stderr.
    """
    owner_fields = {
        field.removeprefix("owner_"): value for field, value in owner.items() if value is not None
    }
    tenants_rules.open_tenant(
        open_tenants(config),
        label,
        name=name,
        plan=plan,
        language=language,
        currency=currency,
        owner=owner_fields,
    )
    with tenant_session(config, label):
        link = _login_link(config, label, users.owner_id())
    click.echo(f"the owner can log in once, within {LINK_MINUTES} minutes: {link}", err=True)
    click.echo(config.url_of(label))


@command(tenant, "list")
@as_json
def tenant_list(config: Config, as_json: bool) -> None:
    """List the tenants."""
    rows = []
    for label in open_tenants(config).labels():
        with tenant_session(config, label):
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
    with tenant_session(config, label):
        tenants_rules.change_plan(plan)


@command(tenant, "suspend")
@click.argument("label")
def tenant_suspend(config: Config, label: str) -> None:
    """Refuse all API keys of the tenant LABEL until it is resumed."""
    with tenant_session(config, label):
        tenants_rules.suspend()


@command(tenant, "resume")
@click.argument("label")
def tenant_resume(config: Config, label: str) -> None:
    """Accept the API keys of the tenant LABEL again."""
    with tenant_session(config, label):
        tenants_rules.resume()


@group.group("user")
def user() -> None:
    """Users of a tenant."""


@command(user, "create")
@click.argument("tenant")
@click.option("--name", required=True)
@click.option("--phone")
@click.option("--email")
@click.option("--role", default="manager", show_default=True, type=click.Choice(users.ROLES))
def user_create(config: Config, tenant: str, **fields: str | None) -> None:
    """Create a user of TENANT and print its id."""
    given_fields = {name: value for name, value in fields.items() if value is not None}
    with tenant_session(config, tenant):
        click.echo(users.create(users.USER_IN.parse(given_fields)).id)


@command(user, "list")
@click.argument("tenant")
@as_json
def user_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the users of TENANT."""
    with tenant_session(config, tenant):
        rows = list(users.USER.every("TRUE ORDER BY id"))
    columns = {name: field(name) for name in ("id", "role")}
    columns["state"] = lambda row: "active" if row["active"] else "deactivated"
    print_rows(rows, as_json, **columns, phone=field("phone"), email=field("email"),
               name=field("name"))  # fmt: skip


@command(user, "login-link")
@click.argument("tenant")
@click.argument("user")
def user_login_link(config: Config, tenant: str, user: str) -> None:
    """Print a link that logs USER (id, phone or e-mail) in to the workspace of TENANT, once."""
    with tenant_session(config, tenant):
        link = _login_link(config, tenant, users.named(user).id)
    click.echo(f"the link is valid for {LINK_MINUTES} minutes", err=True)
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
@click.option("--user", "user_id", type=int, help="Id of its user; by default the owner.")
@click.option("--origins", default="", help="Origins of a leads:create key, separated by commas.")
@click.option("--expires", help="A date, or a time with its offset.")
def key_create(config: Config, tenant: str, user_id: int | None, **options: str) -> None:
    """Create a key of TENANT. Its secret is the last line, and is not shown again."""
    expires = options["expires"] and parse_moment(options["expires"], "expires")
    with tenant_session(config, tenant):
        _, secret = api_keys.create(
            options["name"],
            options["scopes"],
            users.owner_id() if user_id is None else user_id,
            origins=options["origins"],
            expires_at=expires,
        )
    # Advice goes to stderr, so that a script reads nothing but the key from stdout.
    click.echo("store the key now: it is not shown again", err=True)
    click.echo(secret)


@command(key, "list")
@click.argument("tenant")
@as_json
def key_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the keys of TENANT, each with the first characters of its secret."""
    with tenant_session(config, tenant):
        rows = [
            {
                "id": str(key.id),
                "hint": key.hint,
                "scopes": key.scopes.split(","),
                "user_id": str(key.user_id),
                "last_used_at": key.last_used_at,
                "expires_at": key.expires_at,
                "state": key.state(),
                "name": key.name,
            }
            for key in api_keys.list_all()
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
    """Revoke the key ID of TENANT."""
    with tenant_session(config, tenant):
        api_keys.find(id).revoke()
