"""Configuration around the service: its settings, systemd units, a reverse proxy, Litestream.

The texts are templates of crm/deploy.
"""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from jinja2 import Environment, PackageLoader, StrictUndefined

import crm
from crm.cli.commands import command, group, subgroup
from crm.config import Config, readers
from crm.config.file import quote
from crm.installation.tenants import Tenants
from crm.storage.sqlite.litestream import control_socket, state_folder

CACHE_FOLDER = Path("/var/cache/crm")  # systemd creates it, for a pyz to unpack itself
STATE_FOLDER = Path("/var/lib")  # systemd creates folders of services here
SECRETS_FILE = Path("/etc/crm/secrets")
HOME_FOLDERS = ("/home", "/root", "/run/user")
USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")
SCHEMES = ("file", "s3", "sftp")  # of URLs for Litestream
PROXY_TEMPLATES = {"nginx": "nginx.conf", "caddy": "Caddyfile"}

# What has a token as the next part of the path, which must not get into a log: one-time links, and
# inbound hooks.
LINK_PATHS = ("calendar", "email", "enter", "export", "i", "in", "invite", "open", "p", "reset")

TEMPLATES = Environment(
    loader=PackageLoader("crm", "deploy"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def render(name: str, **values: Any) -> str:
    """Fill a template of crm/deploy."""
    return TEMPLATES.get_template(name).render(values)


def user_name(_context: Any, _option: Any, name: str) -> str:
    """Callback of an option: the name of a system user. Raises BadParameter."""
    if not USER_NAME.match(name):
        raise click.BadParameter("a user's name looks like crm")
    return name


user_option = click.option("--user", default="crm", callback=user_name, help="User to run as.")


def _quoted(value: object) -> str:
    """A text as JSON, whose escapes YAML and systemd understand too."""
    return json.dumps(str(value), ensure_ascii=False)


def _unit_word(value: object) -> str:
    """A word in the quoting of systemd."""
    word = str(value).replace("%", "%%")
    return word if re.fullmatch(r"[\w%$/.=:,@+{}-]+", word) else _quoted(word)


TEMPLATES.filters |= {
    "quoted": _quoted,
    "word": _unit_word,
    "shell": lambda value: shlex.quote(str(value)),
}


@dataclass(frozen=True)
class LaunchCommand:
    """How to start this program.

    words: the beginning of the command line. paths: the files and folders that it reads.
    is_pyz: it is a file that unpacks itself into SHIV_ROOT.
    """

    words: tuple[str, ...]
    paths: tuple[Path, ...]
    is_pyz: bool = False


def launch_command() -> LaunchCommand:
    """The command of this process: of a checkout, an installed package, a pyz or a binary."""
    python = Path(sys.executable)
    if getattr(sys, "frozen", False):  # set by PyInstaller
        return LaunchCommand((str(python),), (python,))
    paths = (python, Path(sys.prefix))
    loader = getattr(sys.modules["__main__"], "__loader__", None)
    if archive := getattr(loader, "archive", None):
        pyz = Path(archive).absolute()
        return LaunchCommand((str(python), str(pyz)), (*paths, pyz), is_pyz=True)
    root = Path(crm.__file__).parent.parent
    script = root / "app.py"  # absent where the package is installed
    link = Path(sys.prefix).with_name("crm")
    if not script.is_file() and link.is_symlink() and link.samefile(sys.prefix):
        # A venv for each release, such as /opt/crm-0.2.0, and a link to the present one.
        return installed_command(link)
    arguments = (str(script),) if script.is_file() else ("-m", "crm")
    return LaunchCommand((str(python), *arguments), (*paths, root))


def installed_command(venv: Path) -> LaunchCommand:
    """The command of a release that is installed into a venv."""
    return LaunchCommand((str(venv / "bin" / "python"), "-m", "crm"), (venv,))


@command(group, "config", folder="unused")
def config_(config: Config) -> None:
    """Print all settings as a settings file, each with its source and its meaning.

    A secret that is set is hidden, and its line a comment.
    """
    for setting in config.describe():
        line = f"# {setting.env}=…" if setting.hidden else f"{setting.env}={quote(setting.text)}"
        click.echo(f"# {setting.meaning}; source: {setting.source}\n{line}")


@command(group, "systemd", folder="unused")
@user_option
def systemd(config: Config, user: str) -> None:
    """Print a systemd unit that serves with the settings as they are now."""
    click.echo(unit("crm.service", config, user, launch_command(), "serve"), nl=False)


def unit(
    name: str,
    config: Config,
    user: str,
    command: LaunchCommand,
    *words: str,
) -> str:
    """Fill the template of a systemd unit that runs a command with the settings as they are now.

    `words` follow those of the command.
    """
    data, file = config.data, config.file
    unlisted_sources = ("default", str(file))  # the service reads the file itself, so it may change
    changed = [
        setting
        for setting in config.describe()
        if setting.source not in unlisted_sources or setting.env == "CRM_DATA"
    ]
    settings = [f"{setting.env}={setting.text}" for setting in changed if not setting.hidden]
    if file and file.parent != data:
        settings.append(f"CRM_CONFIG={file}")
    if command.is_pyz:
        settings.append(f"SHIV_ROOT={CACHE_FOLDER}")
    paths = (data, *command.paths, file or data)
    is_state = data.is_relative_to(STATE_FOLDER) and data != STATE_FOLDER
    return render(
        name,
        user=user,
        words=(*command.words, *words),
        data=data,
        state_folder=data.relative_to(STATE_FOLDER) if is_state else None,
        cache_folder=CACHE_FOLDER.name if command.is_pyz else None,
        reads_home=any(path.is_relative_to(home) for path in paths for home in HOME_FOLDERS),
        settings=settings,
        # A unit file can be read by every user of the machine: secrets go into one of their own.
        secrets=[setting.env for setting in changed if setting.hidden],
    )


def _address(text: str) -> str:
    """Type of an option. Raises ValueError."""
    match = readers.HOST_PORT.match(text)
    if not match:
        raise ValueError
    readers.normalize_host(match[1])
    readers.port(match[2])
    return text


address_option = partial(click.option, type=_address, metavar="HOST:PORT")


@command(group, "proxy", folder="unused")
@click.argument("program", type=click.Choice(list(PROXY_TEMPLATES)))
@address_option(
    "--upstream",
    "nodes",
    multiple=True,
    show_default="127.0.0.1 and CRM_PORT",
    help="Address where the CRM listens; repeated for several nodes.",
)
@address_option(
    "--plain", help="Listen here by plain http, to try it out; by default TLS on port 443."
)
def proxy(config: Config, program: str, nodes: tuple[str, ...], plain: str | None) -> None:
    """Print the configuration of a proxy with TLS: for all tenants, or that of CRM_TENANT.

    Of several nodes it sends a host always to the same one.
    """
    click.echo(proxy_file(program, config, nodes, plain), nl=False)


def public_host(config: Config) -> str:
    """The host of the tenant of CRM_TENANT, else the base domain."""
    if config.tenant and config.public_url:
        return urlsplit(config.url_of(config.tenant)).hostname or config.base_domain
    return config.base_domain


def proxy_file(
    program: str, config: Config, nodes: Sequence[str] = (), plain: str | None = None
) -> str:
    """Fill the template of a proxy's configuration.

    `nodes` are the HOST:PORT of the CRM's nodes, by default one of CRM_PORT; `plain` is that of the
    proxy if it is to listen without TLS.
    """
    domain, tenant = public_host(config), config.tenant
    nodes = nodes or (f"127.0.0.1:{config.port}",)
    host = domain if tenant else f"{{label}}.{domain}"
    public_url = config.public_url or f"https://{host}"
    plain_host, _, plain_port = (plain or "").rpartition(":")
    if plain:
        public_url = f"http://{host}:{plain_port}"
    return render(
        PROXY_TEMPLATES[program],
        tenant=tenant,
        tenant_setting=f"CRM_TENANT={tenant}" if tenant else f"CRM_BASE_DOMAIN={domain}",
        names=domain if tenant else f"{domain} *.{domain}",
        domain=domain,
        public_url=public_url,
        nodes=nodes,
        upstream="crm_nodes" if len(nodes) > 1 else nodes[0],
        links="|".join(LINK_PATHS),
        plain=plain,
        plain_host=plain_host.strip("[]"),
        plain_port=plain_port,
    )


litestream_ = subgroup("litestream", "Continuous copies of all tenants by Litestream.")


def _url(_context: Any, _option: Any, text: str) -> str:
    """Callback of an option: the URL of a target. Raises BadParameter."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or bool(parts.netloc) == (parts.scheme == "file"):
        fault = "looks like file:///folder, s3://bucket/folder, sftp://user@host/folder"
    elif parts.password is not None or (parts.scheme == "s3" and parts.username is not None):
        fault = "it must not have a secret: SFTP takes --sftp-key, S3 the environment"
    else:
        return text
    raise click.BadParameter(fault)


@command(litestream_, "config", folder="unused")
@click.option(
    "--to",
    required=True,
    callback=_url,
    metavar="URL",
    help="file:///folder, s3://bucket/folder or sftp://user@host/folder.",
)
@click.option("--sftp-key", metavar="FILE", help="Private key to log in with by SFTP.")
@click.option("--sftp-host-key", metavar="TEXT", help="Like ssh-ed25519 AAAA…")
def litestream_config(
    config: Config, to: str, sftp_key: str | None, sftp_host_key: str | None
) -> None:
    """Print Litestream's configuration for this data folder."""
    parts = urlsplit(to)
    text = render(
        "litestream.yml",
        data=config.data,
        socket=control_socket(config.data),
        tenants=Tenants(config).files.folder,
        state=state_folder(config.data),
        url=parts._replace(path=f"{parts.path.rstrip('/')}/tenants").geturl(),
        sftp_key=sftp_key,
        sftp_host_key=sftp_host_key,
    )
    click.echo(text, nl=False)
