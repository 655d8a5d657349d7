"""The command line: `python app.py …`, `crm …` when installed, `flask --app app crm …`.

Every command works beside a running server, calls the same verbs as the API, prints the data folder
it uses on stderr, and ends with 0, with 1 and one line for an error, or with 2 for wrong usage.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from crm import create_app, demo
from crm.access import api_keys
from crm.config import PLANS, Config, ConfigError
from crm.errors import CRMError, Invalid, NotFound
from crm.json import dumps
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.resources.products import price_list
from crm.server import ServeError, serve
from crm.tenancy import migrations
from crm.tenancy.database import FILE_ERRORS
from crm.tenancy.tenants import Tenants, UnknownTenant
from crm.values import Unfit, day, moment

OWNER_FIELDS = ("name", "phone", "email")
ERRORS_TOLD = 20


def main() -> None:
    """Run the command line and end the process."""
    group()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """A lightweight CRM: one process, one SQLite file per tenant."""


def command(parent: click.Group, name: str) -> Callable:
    """A command with `--data`, whose function gets the Config first; errors become one line."""

    def decorate(function: Callable) -> click.Command:
        @wraps(function)
        def run(data: Path | None, **options: Any) -> None:
            try:
                folder = data and data.absolute()
                config = Config.load(data=folder, port=options.pop("port", None))
                click.echo(f"data folder: {config.data}", err=True)
                function(config, **options)
            except (CRMError, ConfigError, ServeError) as error:
                raise click.ClickException(" ".join(str(error).split())) from error
            except BrokenPipeError:
                raise  # click ends quietly when nobody reads on
            except OSError as error:
                told = (error.strerror or "input or output failed", error.filename)
                raise click.ClickException(": ".join(str(part) for part in told if part)) from error

        found = parent.command(name)(run)
        folder = click.Path(path_type=Path, file_okay=False)
        option = click.option("--data", type=folder, metavar="DIR", help="Data folder.")
        return option(found)

    return decorate


@contextmanager
def at(config: Config, label: str) -> Iterator[None]:
    """A visit to one tenant; what is wrong with the tenant is told with its label."""
    tenants = Tenants(config)
    try:
        with tenants.visit(label):
            yield
    except UnknownTenant:
        raise NotFound(f"there is no tenant {label}") from None
    except FILE_ERRORS as error:
        raise CRMError(f"the file of {label} cannot be used: {error}") from error
    finally:
        tenants.forget_idle()


port = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    show_default="CRM_PORT, else 8000",
    help="To listen on.",
)


@command(group, "serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@port
@click.option("--threads", default=4, show_default=True, type=click.IntRange(1, 256))
def serve_(config: Config, host: str, threads: int) -> None:
    """Serve the API: one worker process with threads."""

    def announce() -> None:
        click.echo(f"listening on http://{host}:{config.port}", err=True)

    serve(lambda: create_app(config), config.data, host, config.port, threads, announce)


@command(group, "demo")
@port
def demo_(config: Config) -> None:
    """Fill a fresh data folder with two believable tenants and serve them."""

    def announce() -> None:
        # Only who has the folder may furnish it: it ends the key of the start before.
        click.echo(demo.furnish(Tenants(config)))

    serve(lambda: create_app(config), config.data, port=config.port, announce=announce)


@command(group, "migrate")
def migrate(config: Config) -> None:
    """Bring the files of all tenants up to this release."""
    for label in Tenants(config).labels():
        with at(config, label):
            click.echo(f"{label}: version {len(migrations.STEPS)}")


@command(group, "openapi")
def openapi(config: Config) -> None:
    """Print the OpenAPI document."""
    click.echo(dumps(create_app(config).api.document("")))


@group.group("tenant")
def tenant() -> None:
    """Tenants of this installation."""


@command(tenant, "create")
@click.argument("label")
@click.option("--name", default="", help="Name of the business; the label when absent.")
@click.option("--plan", default="start", show_default=True, type=click.Choice(list(PLANS)))
@click.option("--currency", default="UAH", show_default=True, help="Of what doesn't name one.")
@click.option("--owner-name")
@click.option("--owner-phone")
@click.option("--owner-email")
def tenant_create(config: Config, label: str, **options: str | None) -> None:
    """Create the tenant LABEL with its owner."""
    person = {field: options.pop(f"owner_{field}") for field in OWNER_FIELDS}
    given = {field: value for field, value in person.items() if value is not None}
    tenants_rules.open_tenant(Tenants(config), label, owner=given, **options)
    click.echo(config.url_of(label))


@command(tenant, "list")
def tenant_list(config: Config) -> None:
    """List the tenants: label, plan, state, name."""
    for label in Tenants(config).labels():
        with at(config, label):
            about = tenants_rules.about()
        state = "suspended" if about["suspended_at"] else "active"
        click.echo("\t".join((label, about["plan"], state, about["name"])))


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
    expires = options["expires"] and _moment(options["expires"])
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
def key_list(config: Config, tenant: str) -> None:
    """List the keys of TENANT: id, beginning, scopes, user, last use, state, name."""
    with at(config, tenant):
        for found in api_keys.every():
            used, state = found.last_used_at or "never used", found.state()
            user = f"user {found.user_id}"
            parts = (str(found.id), f"{found.hint}…", found.scopes, user, used, state, found.name)
            click.echo("\t".join(parts))


@command(key, "revoke")
@click.argument("tenant")
@click.argument("id")
def key_revoke(config: Config, tenant: str, id: str) -> None:
    """Refuse the key ID of TENANT from now on."""
    with at(config, tenant):
        api_keys.find(id).revoke()


@group.group("import")
def import_() -> None:
    """Bring data in."""


@command(import_, "products")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tenant", required=True)
@click.option("--dry-run", is_flag=True, help="Tell what would happen; change nothing.")
@click.option("--excel", is_flag=True, help="The file is in the dialect of `export --excel`.")
def import_products(config: Config, file: Path, tenant: str, dry_run: bool, excel: bool) -> None:
    """Import the price list FILE (CSV) by sku."""
    sheet = price_list.read(file.read_bytes(), excel=excel)
    hidden = dry_run or not sys.stderr.isatty()
    with (
        at(config, tenant),
        click.progressbar(length=len(sheet.rows), file=sys.stderr, hidden=hidden) as bar,
    ):
        result = price_list.import_csv(
            sheet,
            file_name=file.name,
            dry_run=dry_run,
            progress=lambda done, _: bar.update(done - bar.pos),
        )
    for error in result.errors[:ERRORS_TOLD]:
        click.echo(f"line {error['line']}: {error['message']}", err=True)
    if len(result.errors) > ERRORS_TOLD:
        click.echo("… and more", err=True)
    click.echo(
        f"created {result.created}, updated {result.updated}, skipped {result.skipped}"
        f" ({result.unchanged} unchanged, {result.rejected} rejected)"
    )


@group.group("export")
def export() -> None:
    """Take data out."""


@command(export, "products")
@click.option("--tenant", required=True)
@click.option("--excel", is_flag=True, help="For a spreadsheet: BOM, semicolons, decimal comma.")
def export_products(config: Config, tenant: str, excel: bool) -> None:
    """Write the price list as CSV to stdout."""
    with at(config, tenant):
        click.echo(price_list.export_csv(excel=excel), nl=False)


def _moment(text: str) -> str:
    try:
        return moment(text)
    except Unfit:
        try:
            return f"{day(text)}T00:00:00Z"
        except Unfit as unfit:
            raise Invalid.field("expires", unfit.code, "is a date or a time with offset") from None
