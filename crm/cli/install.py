"""The commands install and upgrade: a service with its user, folder, units and proxy, and the next
release of it in a venv of its own."""

import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import click

import crm
from crm.cli.commands import command, group
from crm.cli.deployment import (
    SECRETS_FILE,
    STATE_FOLDER,
    installed_command,
    proxy_file,
    public_host,
    render,
    unit,
    user_option,
)
from crm.cli.machine import Machine, dry_run_option, root_option
from crm.config import LABEL, Config, environ_with
from crm.config.readers import normalize_host
from crm.errors import CRMError

PROGRAMS = Path("/opt")  # of which each release has a folder crm-<version>
LINK = PROGRAMS / "crm"  # to the present release
UNITS = Path("/etc/systemd/system")
PROXY_FILES = {
    "nginx": Path("/etc/nginx/conf.d/crm.conf"),
    "caddy": Path("/etc/caddy/Caddyfile"),
}
MIN_WORKER_CONNECTIONS = 8192  # as the file for nginx says
# What a folder of the source may have that is no part of it.
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "data", "*.egg-info", "__pycache__")


def data_folder(config: Config) -> Path:
    """The data folder of an installation: that of the settings, else below /var/lib."""
    return config.data if "CRM_DATA" in config.origins else STATE_FOLDER / "crm"


@command(group, "install", "[host]", "[tenant]", prints_folder=False, folder="unused")
@click.option(
    "--proxy",
    type=click.Choice([*PROXY_FILES, "none"]),
    default="nginx",
    help="Whose configuration to write.",
)
@user_option
@click.option("--replace", is_flag=True, help="Replace files of an earlier installation.")
@dry_run_option
@root_option
def install(
    config: Config,
    host: str | None,
    tenant: str | None,
    proxy: str,
    user: str,
    replace: bool,
    **options: Any,
) -> None:
    """Install this release as a service at HOST: user, folder, settings, units, proxy.

    With TENANT that one tenant is at HOST, else each tenant has a host below it.
    It is repeatable: what is there already is not changed. The data folder is that of --data or
    CRM_DATA, else /var/lib/crm; settings that are there already stay, and HOST may be left out.
    """
    machine, data = Machine(**options), data_folder(config)
    file = data / "crm.env"
    settings = _settings(machine.at(file), data, host, tenant)
    release = find_release(machine)
    _check(machine, proxy, public_host(settings))
    if machine.find_user(user):
        click.echo(f"is there: user {user}")
    else:
        prefix = ["--prefix", machine.root] if machine.is_other else []
        account = ["--system", "--user-group", "--home-dir", data, "--shell", "/usr/sbin/nologin"]
        machine.run("useradd", *prefix, *account, user)
    machine.make_folder(data, user)
    if not machine.at(file).exists():
        given = [status for status in settings.describe() if status.source == "environment"]
        machine.write(file, "".join(f"{status.env}={status.text}\n" for status in given), user)
    if machine.step("compile the templates"):
        crm.create_app(settings).compile_templates()
    machine.link(LINK, release)
    program, plain = installed_command(LINK), Config(data=data)
    for name, words in (("crm.service", ("serve",)), ("crm-backup.service", ("backup", "create"))):
        text = unit(name, plain, user, program, *words)
        machine.write(UNITS / name, text, replace=replace)
    machine.write(UNITS / "crm-backup.timer", render("crm-backup.timer"), replace=replace)
    if proxy in PROXY_FILES:
        machine.write(PROXY_FILES[proxy], proxy_file(proxy, settings), replace=replace)
    machine.systemctl("daemon-reload")
    machine.systemctl("enable", "--now", "crm.service", "crm-backup.timer")
    machine.wait_until_ready(settings.port)
    if proxy in PROXY_FILES:
        machine.systemctl("reload-or-restart", proxy)
    as_user = f"sudo -u {user} {LINK}/bin/crm"
    click.echo(f"next, if there is none: {as_user} tenant create {settings.tenant or 'LABEL'}"
               f" --data {data}\nthen: {as_user} doctor --data {data}")  # fmt: skip


def _settings(file: Path, data: Path, host: str | None, tenant: str | None) -> Config:
    """The settings in the file if it is there, else those for HOST."""
    if file.exists():
        return Config.load({}, config=file, data=data)
    try:
        host = normalize_host(host or "")
    except ValueError:
        raise click.UsageError("HOST looks like crm.example.ua") from None
    if tenant and not LABEL.match(tenant):
        raise click.UsageError("TENANT looks like acme")
    texts = {"CRM_BASE_DOMAIN": host, "CRM_PUBLIC_URL": f"https://{{label}}.{host}"}
    if tenant:
        texts = {"CRM_TENANT": tenant, "CRM_PUBLIC_URL": f"https://{host}"}
    return Config.load(texts | {"CRM_TRUSTED_PROXIES": "1"}, data=data)


def find_release(machine: Machine) -> Path:
    """Return the folder of this release, as /opt/crm-0.2.0. Raises CRMError if it is elsewhere."""
    venv, release = Path(sys.prefix).resolve(), PROGRAMS / f"crm-{crm.__version__}"
    is_inside = Path(crm.__file__).resolve().is_relative_to(venv)
    if venv.parent != machine.at(PROGRAMS) or not venv.name.startswith("crm-") or not is_inside:
        raise CRMError(
            f"this program is not installed into a venv such as {release}; do that first, in the"
            f" folder of its source: python3 -m venv {release} && {release}/bin/pip install . &&"
            f" {release}/bin/crm install …"
        )
    link = machine.at(LINK)
    if link.exists() and not link.is_symlink():
        raise CRMError(f"{LINK} is a folder, not a link: stop the service and move it, as to"
                       f" {PROGRAMS}/crm-0.1.0")  # fmt: skip
    return PROGRAMS / venv.name


def _check(machine: Machine, proxy: str, domain: str) -> None:
    """Raise CRMError with everything that is missing on this machine."""
    machine.require_root_user()
    programs = ["systemctl", "useradd", *([proxy] if proxy in PROXY_FILES else [])]
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [
        f"the program {name} is missing: install it, or see one-server.md for the steps by hand"
        for name in programs
        if not (shutil.which(name) or shutil.which(name, path=path))
    ]
    certificate = Path(f"/etc/letsencrypt/live/{domain}/fullchain.pem")
    if proxy == "nginx":
        if not machine.at(certificate).exists():
            missing.append(
                f"there is no certificate {certificate}: certbot certonly --webroot -w"
                f" /var/www/html -d {domain}"
            )
        main = machine.at(Path("/etc/nginx/nginx.conf"))
        text = main.read_text("utf-8") if main.exists() else ""
        numbers = re.findall(r"^[^#\n]*\bworker_connections\s+(\d+)", text, re.M)
        if int((numbers or ["0"])[-1]) < MIN_WORKER_CONNECTIONS:
            missing.append(
                f"/etc/nginx/nginx.conf lets slow clients take all connections: set"
                f" worker_rlimit_nofile 20000 and worker_connections {MIN_WORKER_CONNECTIONS}"
            )
    if missing:
        raise CRMError("; ".join(missing))


@command(group, "upgrade", prints_folder=False, folder="unused")
@click.argument("new", type=click.Path(path_type=Path, exists=True, resolve_path=True))
@user_option
@dry_run_option
@root_option
def upgrade(config: Config, new: Path, user: str, **options: Any) -> None:
    """Replace the release that `install` has installed by NEW, and migrate all tenants.

    NEW is a wheel, a source archive, or the folder of the source. Each tenant is copied to
    <data>/upgrades first. The service is stopped only while tenants are migrated.
    """
    machine = Machine(**options)
    machine.require_root_user()
    old, data = find_release(machine), machine.at(data_folder(config))
    with tempfile.TemporaryDirectory(prefix="crm-upgrade-") as folder:
        wheel = _build_wheel(machine, new, Path(folder))
        release = PROGRAMS / f"crm-{wheel.name.split('-')[1]}"
        if release == old:
            raise CRMError(f"{release} is the release in use")
        place = machine.at(release)
        if place.exists() and machine.step(f"delete {release}, left by an earlier try"):
            shutil.rmtree(place)
        machine.run(sys.executable, "-m", "venv", place)
        machine.run(place / "bin" / "pip", "install", "-q", f"{wheel}{_extras()}")
        compiling = "import crm; crm.create_app().compile_templates()"
        machine.run(place / "bin" / "python", "-c", compiling)
    program, environ = place / "bin" / "crm", environ_with(machine.at(SECRETS_FILE))
    migrate = (program, "migrate", "--data", data)
    machine.run(*migrate, "--dry-run", user=user, environ=environ)
    way_back = f"""\
    systemctl stop crm
    ln -sfn {old.name} {LINK}
    sudo -u {user} {LINK}/bin/crm restore --all --from {data}/upgrades --yes --data {data}
    systemctl start crm"""
    try:
        machine.systemctl("stop", "crm.service")
        machine.run(*migrate, user=user, environ=environ)
        machine.link(LINK, release)
        machine.systemctl("start", "crm.service")
        machine.wait_until_ready(Config.load({}, data=data).port)
    except (CRMError, OSError) as error:
        raise CRMError(
            f"{error}. Repair it and repeat the command, or go back, as root:\n{way_back}"
        ) from error
    click.echo(f"{release.name} is in use. The way back, as root:\n{way_back}")


def _build_wheel(machine: Machine, new: Path, folder: Path) -> Path:
    """Return the wheel of a release, built from its source if it is not one."""
    if new.suffix == ".whl":
        return new
    source = new
    if new.is_dir():  # without the files of other releases that builds leave there
        source = folder / "source"
        shutil.copytree(new, source, ignore=NOT_SOURCE)
    machine.run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    return next(folder.glob("*.whl"), folder / "crm-<version>-.whl")


def _extras() -> str:
    """The extras of the present release that are installed, as pip takes them."""
    extras = set()
    for line in metadata.requires("crm") or ():
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"](\w+)", line)
        if name and extra and any(metadata.distributions(name=name[0])):
            extras.add(extra[1])
    return f"[{','.join(sorted(extras))}]" if extras else ""
