"""What an operator needs around the service: its settings, a systemd unit, a proxy in front."""

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from crm.cli.commands import command, group
from crm.cli.launch_command import BINARY, PYZ, program
from crm.config import HOST_PORT, Config, normalize_host
from crm.config.file import quote

SECRETS = "/etc/crm/secrets"
STATE = Path("/var/lib")  # where systemd makes a service's folder by itself
CACHE = Path("/var/cache/crm")  # another of these, for a pyz
HOMES, SHARED = ("/home", "/root", "/run/user"), ("/tmp", "/var/tmp")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")

HARDENING = """\
UMask=0077
ProtectSystem=strict
%(homes)s
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
NoNewPrivileges=yes
CapabilityBoundingSet=
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""

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

BEHIND = """\
# The CRM behind it needs these settings:
#   %(whose)s
#   CRM_PUBLIC_URL=%(public_url)s
#   CRM_TRUSTED_PROXIES=1
"""

# Pages whose next part of the path is a one-time link: who reads it in a log may use it.
LINKS = ("email", "enter", "i", "invite", "open", "reset")

NGINX = """\
# /etc/nginx/conf.d/crm.conf
%(behind)s
# The log has no queries, no addresses of the pages before, and of one-time links no path.
map $uri $crm_path {
    default $uri;
    ~*^/(?:%(links)s)/ -;
}
log_format crm '$remote_addr [$time_local] "$request_method $crm_path $server_protocol" '
               '$status $body_bytes_sent "$http_user_agent"';

%(doors)s
    server_name %(names)s;
    access_log /var/log/nginx/access.log crm;

    # For nginx's own answers too.
    add_header X-Content-Type-Options nosniff always;
    proxy_hide_header X-Content-Type-Options;

    # X_Forwarded_For and X-Forwarded-For are the same to many programs behind a proxy.
    underscores_in_headers off;
    client_max_body_size 12m;
    client_header_timeout 10s;
    client_body_timeout 30s;

    proxy_http_version 1.1;
    proxy_set_header Host $host;
    # The CRM believes these four, so none of them may come from a client.
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

    # The log of errors has whole addresses, in a form that cannot be chosen.
    location ~* ^/(?:%(links)s)/ {
        error_log /dev/null crit;
        proxy_pass http://%(upstream)s;
    }

    # Lists and exports. The CRM itself compresses pages that may be, and files; single records
    # stay as they are, because nginx would weaken the ETag that If-Match needs.
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
%(behind)s
%(doors)s
	header {
		?X-Content-Type-Options nosniff%(https_only)s
	}
	request_body {
		max_size 12MB
	}
	# Lists and exports. The CRM itself compresses pages that may be, and files; single records
	# stay as they are, because Caddy would change the ETag that If-Match needs.
	@lists path_regexp ^/api/v1/[a-z]+(/export)?$
	encode @lists gzip
	reverse_proxy %(upstream)s {
		# The CRM believes it, so it may not come from a client. Caddy sees to the others.
		header_up -X-Forwarded-Prefix
		# X_Forwarded_For and X-Forwarded-For are the same to many programs behind a proxy; Caddy
		# drops such names since 2.11.
		header_up -*_*
	}
}
"""

# Part of the global options. A page's path is logged up to its first part, so that no one-time link
# comes into a log, neither as the address asked for nor as that of the page before.
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
# A certificate for each host, at its first visit. The CRM knows which hosts there are, and tells
# its own machine only: Caddy must run beside it.
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
    """Print every setting, where it is from and what it means, as a file of settings has it.

    A secret that is set is hidden, and its line a comment.
    """
    for each in config.describe():
        line = f"# {each.env}=…" if each.hidden else f"{each.env}={quote(each.text)}"
        click.echo(f"{line}  # source: {each.source}  {each.meaning}")


def user_name(_context: Any, _option: Any, name: str) -> str:
    if not USER.match(name):
        raise click.BadParameter("a user's name looks like crm")
    return name


@command(group, "systemd")
@click.option("--user", default="crm", show_default=True, callback=user_name, help="To run as.")
def systemd(config: Config, user: str) -> None:
    """Print a systemd unit that serves with the settings as they are now."""
    click.echo(_unit(config, user), nl=False)


def _unit(config: Config, user: str) -> str:
    start = program()
    data, file = config.data, config.file
    apart = ("default", str(file))  # what the file says is read from there, and can change there
    told = [
        each for each in config.describe() if each.source not in apart or each.env == "CRM_DATA"
    ]
    settings = [f"{each.env}={each.text}" for each in told if not each.hidden]
    hidden = [each.env for each in told if each.hidden]
    if file and file.parent != data:
        settings.append(f"CRM_CONFIG={file}")
    folder = data_folder(data, user)
    if start.unpacks == PYZ:
        settings.append(f"SHIV_ROOT={CACHE}")
        folder += f"\nCacheDirectory={CACHE.name}\nCacheDirectoryMode=0700"
    places = (*start.places, data, file or data)
    if start.unpacks == BINARY and _any_below(places, SHARED):
        folder += "\nReadWritePaths=/tmp"
    return UNIT % {
        "user": user,
        "start": command_line(*start.words, "serve"),
        "settings": "\n".join(f"Environment={quoted_word(setting)}" for setting in settings),
        "secrets": "".join(f"\n# It must have {name}, which is set now." for name in hidden),
        "file": SECRETS,
        "folder": folder,
        "hardening": hardening(places),
    }


def command_line(*words: str) -> str:
    """What ExecStart says."""
    return " ".join(quoted_word(word, "$") for word in words)


def data_folder(data: Path, user: str) -> str:
    """The lines of a unit by which its service may write in the data folder."""
    if data.is_relative_to(STATE) and data != STATE:
        name = quoted_word(str(data.relative_to(STATE)))
        return f"StateDirectory={name}\nStateDirectoryMode=0700"
    made = shlex.join(["install", "-d", "-m", "700", "-o", user, str(data)])
    return f"# It must be there: {made}\nReadWritePaths={quoted_word(str(data))}"


def hardening(places: tuple[Path, ...]) -> str:
    """The lines of a unit that keep its service from all but what it needs, and those places."""
    homes = "read-only" if _any_below(places, HOMES) else "yes"
    private = "no" if _any_below(places, SHARED) else "yes"
    return HARDENING % {"homes": f"ProtectHome={homes}\nPrivateTmp={private}"}


def _any_below(places: tuple[Path, ...], folders: tuple[str, ...]) -> bool:
    return any(place.is_relative_to(folder) for place in places for folder in folders)


def quoted_word(word: str, doubled: str = "") -> str:
    """A word as systemd reads it; `doubled`: what is special there beside the percent sign."""
    for sign in f"%{doubled}":
        word = word.replace(sign, sign * 2)
    if re.fullmatch(r"[\w%$/.=:,@+{}-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(
        sign if sign.isprintable() else "".join(f"\\x{byte:02x}" for byte in sign.encode())
        for sign in escaped
    ) + '"'  # fmt: skip


@group.group("proxy")
def proxy() -> None:
    """The configuration of a proxy with TLS in front."""


def _address(_context: Any, _option: Any, text: str | None) -> str | None:
    if text is None:
        return None
    found = HOST_PORT.match(text)
    try:
        if not found or not 1 <= int(found[2]) <= 65535:
            raise ValueError
        normalize_host(found[1])
    except ValueError:
        raise click.BadParameter("looks like 127.0.0.1:8000") from None
    return text


upstream = click.option(
    "--upstream",
    callback=_address,
    metavar="HOST:PORT",
    show_default="127.0.0.1 and CRM_PORT",
    help="Where the CRM listens.",
)
plain = click.option(
    "--plain",
    callback=_address,
    metavar="HOST:PORT",
    help="Listen there by plain http, for a first try; TLS on 443 when absent.",
)


@command(proxy, "nginx")
@upstream
@plain
def proxy_nginx(config: Config, upstream: str | None, plain: str | None) -> None:
    """Print the configuration of nginx for all tenants, or for the one of CRM_TENANT."""
    doors = f"server {{\n    listen {plain};" if plain else NGINX_TLS
    click.echo(_filled(NGINX, doors, config, upstream, plain), nl=False)


@command(proxy, "caddy")
@upstream
@plain
def proxy_caddy(config: Config, upstream: str | None, plain: str | None) -> None:
    """Print a Caddyfile for all tenants, or for the one of CRM_TENANT."""
    doors = CADDY_PLAIN if plain else CADDY_ONE_HOST if config.tenant else CADDY_TLS
    click.echo(_filled(CADDY, doors, config, upstream, plain), nl=False)


def _filled(text: str, doors: str, config: Config, upstream: str | None, plain: str | None) -> str:
    domain, host, whose = config.base_domain, f"{{label}}.{config.base_domain}", config.tenant
    if whose:  # at one host
        domain = config.public_url and urlsplit(config.url_of(whose)).hostname or domain
        host = domain
    public_url = config.public_url or f"https://{host}"
    if plain:
        public_url = f"http://{host}:{plain.rpartition(':')[2]}"
    values = {
        "whose": f"CRM_TENANT={whose}" if whose else f"CRM_BASE_DOMAIN={domain}",
        "names": domain if whose else f"{domain} *.{domain}",
        "challenge": "" if whose else ", which takes a DNS challenge",
        "domain": domain,
        "public_url": public_url,
        "upstream": upstream or f"127.0.0.1:{config.port}",
        "links": "|".join(LINKS),
        "log": CADDY_LOG,
        "https_only": "" if plain else CADDY_HTTPS_ONLY,
    }
    if plain:
        host, _, values["port"] = plain.rpartition(":")
        values["host"] = host.strip("[]")
    return text % (values | {"behind": BEHIND % values, "doors": doors % values})
