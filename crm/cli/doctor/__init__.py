"""`doctor`: checks the installation and advises what to do, whether a server runs or not.

It prints one line for each finding: `ok`, `warning` or `fault`, the part that was checked, and a
sentence. It exits with 1 if there is a fault. It changes nothing, and sends nothing but DNS queries
and requests to the public URL. A check is a function with the decorator `check`.
"""

from contextlib import suppress
from pathlib import Path

import click

from crm import server
from crm.cli.commands import as_json, command, copies_option, group
from crm.cli.doctor import network_checks  # noqa: F401  (it adds its checks)
from crm.cli.doctor.installation_checks import DoctorRun, check
from crm.config import ENVIRONMENT, Config
from crm.installation.tenants import Tenants
from crm.json import dumps
from crm.timed_checks import FAULT, run_checks


@command(group, "doctor", folder="may be new")
@click.option("--full", is_flag=True, help="Read every file to its end, with its indexes.")
@copies_option
@click.option(
    "--send-test", "to", metavar="PHONE|EMAIL", help="Send an SMS or an e-mail to this address now."
)
@as_json
def doctor(config: Config, full: bool, within: Path | None, to: str | None, as_json: bool) -> None:
    """Check the installation; exits with 1 if there is a fault."""
    tenants = Tenants(_with_service_environment(config))
    results = []
    for result in run_checks(check, DoctorRun(tenants, full, within, to)):
        results.append(result)
        if not as_json:
            click.echo(f"{result.level:<8} {result.check:<12} {result.detail}")
    if as_json:
        click.echo(dumps([result._asdict() for result in results]))
    if any(result.level == FAULT for result in results):
        raise SystemExit(1)


def _with_service_environment(config: Config) -> Config:
    """The settings, with those that the running service has from its environment.

    A shell has none of an EnvironmentFile, such as SECRETS_FILE, which only root can read. What the
    doctor is given itself is used first.
    """
    if click.get_current_context().find_object(Config):
        return config  # of an embedding site, which has them from its own code
    with suppress(OSError):
        running = server.find_running(config.data)
        process = running.pid if running else "none"
        text = Path(f"/proc/{process}/environ").read_text("utf-8", "replace")
        service = dict(line.split("=", 1) for line in text.split("\0") if line.startswith("CRM_"))
        own = {env: text for env, (text, source) in config.origins.items() if source == ENVIRONMENT}
        usual = {"port": config.port}  # which may be that of its command line
        return Config.load(service | own, config=config.file, defaults=usual, data=config.data)
    return config
