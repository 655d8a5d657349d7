"""Configuration around the service: its settings, a systemd unit, a reverse proxy."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from crm.cli.commands import command, group
from crm.cli.launch_command import BINARY, PYZ, launch_command
from crm.cli.systemd_units import (
    TEMPORARY_FOLDERS,
    any_below,
    command_line,
    data_folder,
    hardening,
    quoted_word,
    user_name,
)
from crm.config import HOST_PORT, Config, normalize_host
from crm.config.file import quote

SECRETS_FILE = "/etc/crm/secrets"
CACHE_FOLDER = Path("/var/cache/crm")  # systemd creates it, for a pyz to unpack itself

UNIT = """\
# /etc/systemd/system/crm.service
[Unit]
Description=CRM
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
User=%(user)s
ExecStart=%(start)s
%(settings)s
# Secrets stay out of this file: NAME="value" lines in one that only root can read.%(secrets)s
EnvironmentFile=-%(file)s
Restart=on-failure
RestartSec=2
TimeoutStopSec=30
KillMode=mixed

%(folder)s
%(hardening)s
[Install]
WantedBy=multi-user.target
"""

PROXY_SETTINGS = """\
# The CRM behind this proxy needs these settings:
#   %(tenant)s
#   CRM_PUBLIC_URL=%(public_url)s
#   CRM_TRUSTED_PROXIES=1
"""

# Pages with a one-time link as the next part of the path, which must not get into a log.
LINK_PATHS = ("email", "enter", "i", "invite", "open", "reset")

NGINX = """\
# /etc/nginx/conf.d/crm.conf
%(settings)s
# The log has no queries, no referrers, and no paths of one-time links.
map $uri $crm_path {
    default $uri;
    ~*^/(?:%(links)s)/ -;
}
log_format crm '$remote_addr [$time_local] "$request_method $crm_path $server_protocol" '
               '$status $body_bytes_sent "$http_user_agent"';

%(listen)s
    server_name %(names)s;
    access_log /var/log/nginx/access.log crm;

    # Also for nginx's own answers.
    add_header X-Content-Type-Options nosniff always;
    proxy_hide_header X-Content-Type-Options;

    # X_Forwarded_For and X-Forwarded-For are the same to many programs behind a proxy.
    underscores_in_headers off;
    client_max_body_size 12m;
    client_header_timeout 10s;
    client_body_timeout 30s;

    proxy_http_version 1.1;
    proxy_set_header Host $host;
    # The CRM trusts these four headers, so none of them may come from a client.
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-Prefix "";
    proxy_request_buffering on;
    proxy_connect_timeout 5s;
    proxy_send_timeout 30s;
    proxy_read_timeout 60s;

    location / {
        proxy_pass http://%(upstream)s;
    }

    # The error log always has whole URLs, so these pages have none.
    location ~* ^/(?:%(links)s)/ {
        error_log /dev/null crit;
        proxy_pass http://%(upstream)s;
    }

    # Lists and exports. The CRM compresses files and the pages that may be compressed itself;
    # single records are not, because nginx would weaken the ETag that If-Match needs.
    location ~ ^/api/v1/[a-z]+(/export)?$ {
        gzip on;
        gzip_types application/json text/csv;
        gzip_min_length 1024;
        gzip_vary on;
        proxy_pass http://%(upstream)s;
    }
}
"""

NGINX_TLS = """\
server {
    listen 80;
    listen [::]:80;
    server_name %(names)s;
    access_log /var/log/nginx/access.log crm;
    add_header X-Content-Type-Options nosniff always;
    # Where `certbot certonly --webroot -w /var/www/html` answers (HTTP-01).
    location /.well-known/acme-challenge/ {
        root /var/www/html;
    }
    location / {
        return 301 https://$host$request_uri;
    }
}

server {
    listen 443 ssl;
    listen [::]:443 ssl;
    # The certificate of %(names)s%(challenge)s.
    ssl_certificate /etc/letsencrypt/live/%(domain)s/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/%(domain)s/privkey.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    # For a year, browsers come to these hosts by https alone. With includeSubDomains it would hold
    # for every other host below the domain, which may not be the CRM's.
    add_header Strict-Transport-Security "max-age=31536000" always;
    proxy_hide_header Strict-Transport-Security;"""

CADDY = """\
# /etc/caddy/Caddyfile
%(settings)s
%(listen)s
	header {
		?X-Content-Type-Options nosniff%(https_only)s
	}
	request_body {
		max_size 12MB
	}
	# Lists and exports. The CRM compresses files and the pages that may be compressed itself;
	# single records are not, because Caddy would change the ETag that If-Match needs.
	@lists path_regexp ^/api/v1/[a-z]+(/export)?$
	encode @lists gzip
	reverse_proxy %(upstream)s {
		# The CRM trusts this header, so it must not come from a client. Caddy sets the others.
		header_up -X-Forwarded-Prefix
		# X_Forwarded_For and X-Forwarded-For are the same to many programs behind a proxy; Caddy
		# drops such names since 2.11.
		header_up -*_*
	}
}
"""

# Part of the global options. Only the first part of a page's path is logged, so that no one-time
# link gets into the log, neither in the request's URL nor in the referrer.
CADDY_LOG = """\
	log {
		format filter {
			wrap json
			fields {
				request>uri regexp ^(/api/v1/[A-Za-z0-9/._-]*|/[^/?]*).* $1
				request>headers>Referer delete
				resp_headers>Location delete
			}
		}
	}"""

CADDY_PLAIN = """\
{
%(log)s
}

http://:%(port)s {
	bind %(host)s"""

CADDY_TLS = """\
# A certificate for each host, at its first request. The CRM knows the hosts, and answers
# /tls-ask to its own machine only: Caddy must run on the same one.
{
	on_demand_tls {
		ask http://%(upstream)s/tls-ask
	}
%(log)s
}

%(domain)s, *.%(domain)s {
	tls {
		on_demand
	}"""

CADDY_ONE_HOST = "{\n%(log)s\n}\n\n%(domain)s {"
CADDY_HTTPS_ONLY = """
		# For a year, browsers come to these hosts by https alone; not to all below the domain,
		# as with includeSubDomains.
		?Strict-Transport-Security max-age=31536000"""


@command(group, "config")
def config_(config: Config) -> None:
    """Print all settings as a settings file, each with its source and its meaning.

    A secret that is set is hidden, and its line a comment.
    """
    for setting in config.describe():
        line = f"# {setting.env}=…" if setting.hidden else f"{setting.env}={quote(setting.text)}"
        click.echo(f"{line}  # source: {setting.source}  {setting.meaning}")


@command(group, "systemd")
@click.option(
    "--user", default="crm", show_default=True, callback=user_name, help="User to run as."
)
def systemd(config: Config, user: str) -> None:
    """Print a systemd unit that serves with the settings as they are now."""
    click.echo(_unit(config, user), nl=False)


def _unit(config: Config, user: str) -> str:
    command = launch_command()
    data, file = config.data, config.file
    unlisted_sources = ("default", str(file))  # the service reads the file itself, so it may change
    changed = [
        setting
        for setting in config.describe()
        if setting.source not in unlisted_sources or setting.env == "CRM_DATA"
    ]
    settings = [f"{setting.env}={setting.text}" for setting in changed if not setting.hidden]
    # A unit file can be read by every user of the machine, so secrets go into a file of their own.
    hidden = [setting.env for setting in changed if setting.hidden]
    if file and file.parent != data:
        settings.append(f"CRM_CONFIG={file}")
    folder = data_folder(data, user)
    if command.unpacks == PYZ:
        settings.append(f"SHIV_ROOT={CACHE_FOLDER}")
        folder += f"\nCacheDirectory={CACHE_FOLDER.name}\nCacheDirectoryMode=0700"
    paths = (*command.paths, data, file or data)
    if command.unpacks == BINARY and any_below(paths, TEMPORARY_FOLDERS):
        folder += "\nReadWritePaths=/tmp"
    return UNIT % {
        "user": user,
        "start": command_line(*command.words, "serve"),
        "settings": "\n".join(f"Environment={quoted_word(setting)}" for setting in settings),
        "secrets": "".join(f"\n# It must have {name}, which is set now." for name in hidden),
        "file": SECRETS_FILE,
        "folder": folder,
        "hardening": hardening(paths),
    }


@group.group("proxy")
def proxy() -> None:
    """Print the configuration of a reverse proxy with TLS."""


def _host_and_port(_context: Any, _option: Any, text: str | None) -> str | None:
    """Callback of an option: HOST:PORT. Raises BadParameter."""
    if text is None:
        return None
    match = HOST_PORT.match(text)
    try:
        if not match or not 1 <= int(match[2]) <= 65535:
            raise ValueError
        normalize_host(match[1])
    except ValueError:
        raise click.BadParameter("looks like 127.0.0.1:8000") from None
    return text


upstream = click.option(
    "--upstream",
    callback=_host_and_port,
    metavar="HOST:PORT",
    show_default="127.0.0.1 and CRM_PORT",
    help="Address where the CRM listens.",
)
plain = click.option(
    "--plain",
    callback=_host_and_port,
    metavar="HOST:PORT",
    help="Listen here by plain http, to try it out; by default TLS on port 443.",
)


@command(proxy, "nginx")
@upstream
@plain
def proxy_nginx(config: Config, upstream: str | None, plain: str | None) -> None:
    """Print the configuration of nginx for all tenants, or for the one of CRM_TENANT."""
    listen = f"server {{\n    listen {plain};" if plain else NGINX_TLS
    click.echo(_fill(NGINX, listen, config, upstream, plain), nl=False)


@command(proxy, "caddy")
@upstream
@plain
def proxy_caddy(config: Config, upstream: str | None, plain: str | None) -> None:
    """Print a Caddyfile for all tenants, or for the one of CRM_TENANT."""
    listen = CADDY_PLAIN if plain else CADDY_ONE_HOST if config.tenant else CADDY_TLS
    click.echo(_fill(CADDY, listen, config, upstream, plain), nl=False)


def _fill(
    template: str, listen: str, config: Config, upstream: str | None, plain: str | None
) -> str:
    """Fill a template of a proxy's configuration with its `listen` part and the settings."""
    domain, host, tenant = config.base_domain, f"{{label}}.{config.base_domain}", config.tenant
    if tenant:  # at one host
        domain = config.public_url and urlsplit(config.url_of(tenant)).hostname or domain
        host = domain
    public_url = config.public_url or f"https://{host}"
    if plain:
        public_url = f"http://{host}:{plain.rpartition(':')[2]}"
    values = {
        "tenant": f"CRM_TENANT={tenant}" if tenant else f"CRM_BASE_DOMAIN={domain}",
        "names": domain if tenant else f"{domain} *.{domain}",
        "challenge": "" if tenant else ", which takes a DNS challenge",
        "domain": domain,
        "public_url": public_url,
        "upstream": upstream or f"127.0.0.1:{config.port}",
        "links": "|".join(LINK_PATHS),
        "log": CADDY_LOG,
        "https_only": "" if plain else CADDY_HTTPS_ONLY,
    }
    if plain:
        host, _, values["port"] = plain.rpartition(":")
        values["host"] = host.strip("[]")
    return template % (values | {"settings": PROXY_SETTINGS % values, "listen": listen % values})
