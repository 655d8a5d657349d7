"""The guide one-server.md, line by line: package, unit, proxy with TLS, tenant, doctor, copies.

The lines run as they stand, with other folders in place of /etc, /opt and /var/lib, which `install`
has by its `--root`, and free ports in place of 80, 443 and 8000. Only what would change this
machine has a stand-in: `sudo` and `useradd`; `systemctl`, which starts the unit's own command line
with the unit's settings; and the names, which lead to 127.0.0.1 because those of the example
belong to others.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from crm.copies import backup
from crm.installation import readiness
from tests import log_leaks
from tests.nginx_server import MAIN, nginx_path
from tests.readme import ROOT, blocks, read, section
from tests.server_process import TIMEOUT_SECONDS, find_free_port
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

DOMAIN = "crm.example.ua"
PROGRAMS = {
    "sudo": """#!/bin/sh
while :; do case "$1" in -u) shift 2;; -*) shift;; *) exec "$@";; esac; done
""",
    "useradd": "#!/bin/sh\n",
    "install": """#!/bin/sh
exec %(install)s $(echo "$*" | sed 's/-[og] crm//g')
""",
    "python3": '#!/bin/sh\nexec %(python)s "$@"\n',
    "nginx": """#!/bin/sh
cd %(etc)s/nginx && sed -i '/listen \\[::\\]/d
s# /etc/letsencrypt# %(etc)s/letsencrypt#; s# /var/www# %(www)s#
s/listen 80;/listen 127.0.0.1:%(plain)s;/; s/listen 443 ssl;/listen 127.0.0.1:%(tls)s ssl;/
' conf.d/*.conf && exec %(nginx)s -e stderr -p . -c nginx.conf "$@"
""",
    # As the real one is answered: by HTTP-01 if the proxy serves what lies in the folder.
    "certbot": """#!/bin/sh
set -e
if [ "$2" = --webroot ]; then
    mkdir -p "$4/.well-known/acme-challenge"
    echo "$6" > "$4/.well-known/acme-challenge/token"
    curl -sS --fail --connect-to "::127.0.0.1:%(plain)s" --retry 9 --retry-connrefused \\
        "http://$6/.well-known/acme-challenge/token" | grep -qx "$6"
    cp %(issued)s/one/* %(issued)s/live
    [ ! -e %(etc)s/nginx/conf.d/crm.conf ] || sh -c "$8"
else
    [ "$2 $3 $4" = "--manual --preferred-challenges dns" ]
    cp %(issued)s/many/* %(issued)s/live
fi
""",
    "systemctl": """#!%(python)s
import os, re, shlex, subprocess, sys
command, environ = ["nginx"], os.environ
if sys.argv[1].startswith("--root="):
    assert sys.argv[2:] == ["enable", "crm.service", "crm-backup.timer"]
    sys.exit()
elif sys.argv[1:] == ["enable", "--now", "crm"]:
    unit = open("%(etc)s/systemd/system/crm.service").read()
    unit = re.sub(r"(?<![\\w.])/(opt|var/lib)/", r"%(folder)s/\\1/", unit).splitlines()
    of = lambda name: [line.partition("=")[2] for line in unit if line.startswith(name + "=")]
    environ |= dict(word.split("=", 1) for line in of("Environment") for word in shlex.split(line))
    command = shlex.split(of("ExecStart")[0])
elif sys.argv[1:] == ["reload", "nginx"]:
    os.kill(int(open("%(etc)s/nginx/nginx.pid").read()), 1)
    sys.exit()
else:
    assert sys.argv[1:] == ["start", "nginx"]
log = open("../" + sys.argv[-1] + ".log", "w")
started = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
print(started.pid, file=open("../started", "a"))
""",
}
NAMES = """
import socket
really = socket.getaddrinfo
def getaddrinfo(host, port, *more, **options):
    if str(host).endswith("%(domain)s"):
        host, port = "127.0.0.1", %(tls)s if port == 443 else port
    return really(host, port, *more, **options)
socket.getaddrinfo = getaddrinfo
"""


class Server:
    """A machine of our own below a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port, self.tls, self.plain = find_free_port(), find_free_port(), find_free_port()
        left_out = shutil.ignore_patterns(".*", "data", "tests", "build", "dist", "__pycache__")
        shutil.copytree(ROOT, folder / "checkout", ignore=left_out)
        self.issued = folder / "issued"
        for place in (
            "bin",
            "names",
            "var/www/html",
            "opt",
            "var/lib",
            "etc/systemd/system",
            "etc/cron.d",
        ):
            (folder / place).mkdir(parents=True)
        self._add_programs()
        self._add_proxy()
        self.environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": f"{folder / 'names'}:{sysconfig.get_path('purelib')}",
            "SSL_CERT_FILE": str(folder / "authority.pem"),
            "CRM_PORT": str(self.port),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # as pip spells that the setuptools here will do
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def _add_programs(self) -> None:
        values = {
            **{"install": shutil.which("install"), "python": sys.executable, "nginx": nginx_path()},
            **{"www": self.folder / "var/www", "issued": self.issued, "folder": self.folder},
            **{"etc": self.folder / "etc", "plain": self.plain, "tls": self.tls, "domain": DOMAIN},
        }
        for name, text in PROGRAMS.items():
            (self.folder / "bin" / name).write_text(text % values)
            (self.folder / "bin" / name).chmod(0o755)
        (self.folder / "names" / "sitecustomize.py").write_text(NAMES % values)

    def _add_proxy(self) -> None:
        (self.folder / "etc/nginx/conf.d").mkdir(parents=True)
        user = "user root root;\n" if os.geteuid() == 0 else ""
        home = (MAIN % (user + "events {\n    worker_connections 768;\n}")).replace(
            "include crm.conf", "include conf.d/*.conf"
        )
        (self.folder / "etc/nginx/nginx.conf").write_text(home)
        site = "server { listen 80; root /var/www/html; }\n"  # as the package brings along
        (self.folder / "etc/nginx/conf.d/a-default.conf").write_text(site)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "authority.pem")
        for name, hosts in {"one": [DOMAIN], "many": [DOMAIN, f"*.{DOMAIN}"]}.items():
            issued = authority.issue_cert(*hosts)
            (self.issued / name).mkdir(parents=True)
            issued.private_key_pem.write_to_path(self.issued / name / "privkey.pem")
            issued.cert_chain_pems[0].write_to_path(self.issued / name / "fullchain.pem")
        live = self.folder / "etc/letsencrypt/live"
        live.mkdir(parents=True)
        (self.issued / "live").mkdir()
        (live / DOMAIN).symlink_to(self.issued / "live")

    def here(self, lines: str) -> str:
        """Lines of the guide for this machine."""
        moved = re.sub(
            r"(?<![\w.])/(etc/|opt/crm|var/lib/crm|var/www)", rf"{self.folder}/\1", lines
        )
        moved = moved.replace("bin/crm install", f"bin/crm install --root {self.folder}")
        return moved.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")

    def run(self, lines: str) -> str:
        """What the lines print; they must succeed."""
        ran = subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{self.here(lines)}"],
            cwd=self.folder / "checkout", env=self.environ, timeout=120,
            capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr + self.said()
        return ran.stdout

    def asked(self, url: str) -> str:
        """What a browser would get of the proxy."""
        way = f"--connect-to ::127.0.0.1:{self.tls} --cacert {self.folder}/authority.pem"
        return self.run(f"curl -sS --fail --retry 9 --retry-connrefused {way} {url}")

    def said(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    def end(self) -> None:
        """Stop what systemctl started, and nothing else."""
        started = self.folder / "started"
        pids = [int(pid) for pid in started.read_text().split()] if started.exists() else []
        started.unlink(missing_ok=True)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGTERM)
        wait_for(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), TIMEOUT_SECONDS, pids
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    try:
        yield made
    finally:
        made.end()
        log_leaks.heard("server", made.said())


# What `install` leaves to the machine itself if it has another root.
START = """
systemctl enable --now crm
curl --retry 9 --retry-connrefused http://127.0.0.1:8000/readyz
nginx -t && systemctl reload nginx
"""


@pytest.mark.deep
@pytest.mark.parametrize("way", ["one host", "many tenants", "by hand"])
def test_the_lines_lead_to_a_service_behind_a_proxy(server: Server, way: str) -> None:
    lines, many = blocks(read("one-server")), way == "many tenants"
    place, certify, connections, install, create, examine, user, tell, serve = lines[:9]
    if many:
        certify, install = lines[9:11]
    host, settings = DOMAIN, ("CRM_TENANT=acme", f"CRM_PUBLIC_URL=https://{DOMAIN}")
    if many:
        host, settings = f"acme.{DOMAIN}", (f"CRM_BASE_DOMAIN={DOMAIN}",)
    server.run("systemctl start nginx")  # as the package does
    server.run(place)
    server.run(certify)
    server.run(connections)
    if way == "by hand":
        server.run(user)
        server.run(tell)
        started = server.run(serve)
        cron = (server.folder / "etc/cron.d/crm").read_text().strip().split(" ", 6)
        assert cron[:6] == ["15", "3", "*", "*", "*", "crm"]
        nightly = cron[6].replace(str(server.folder), "")
    else:
        server.run(install)
        conf = server.folder / "etc/nginx/conf.d/crm.conf"
        conf.write_text(conf.read_text().replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"))
        started = server.run(START)
        unit = (server.folder / "etc/systemd/system/crm-backup.service").read_text()
        (nightly,) = re.findall("^ExecStart=(.*)$", unit, re.M)
        nightly = f"CRM_DATA={server.folder}/var/lib/crm {nightly}"
        again = server.run(install)
        assert "is there: /etc/systemd/system/crm.service" in again
    assert '{"status":"ok"}' in started
    said = server.run(tell.splitlines()[-1])
    for setting in (*settings, "CRM_TRUSTED_PROXIES=1"):
        assert re.search(rf"; source: .*/crm\.env\n{setting}$", said, re.M), said
    said = server.run(f"exec 2>&1\n{create}")
    (link,) = re.findall(
        rf"the owner can log in once, .*: (https://{re.escape(host)}/enter/\S+)$", said, re.M
    )
    names = f"{DOMAIN} *.{DOMAIN}" if many else DOMAIN
    said = (server.folder / "etc/nginx/conf.d/crm.conf").read_text()
    assert f"server_name {names};" in said
    said = server.run(examine)
    assert "tenants      1 of 1 files are whole" in said
    assert not re.search("^(fault|warning +names)", said, re.M), said
    assert "<form" in server.asked(link)
    answer = json.loads(server.asked(f"https://{host}/api/v1/openapi.json"))
    assert answer["servers"] == [{"url": f"https://{host}/api/v1"}]
    server.run(certify)  # renewed, beside the proxy
    assert "<form" in server.asked(f"https://{host}/login")
    server.run(nightly)
    (copy,) = (server.folder / "var/lib/crm/backups").glob("acme-*.db")
    assert backup.check_copy(copy)
    server.end()
    assert '"level":"error"' not in server.said()


def test_each_reason_of_a_service_that_is_not_ready_is_told() -> None:
    reasons = {readiness.NOT_WRITABLE, readiness.FULL, readiness.UNREADABLE, readiness.SLOW}
    assert reasons <= set(re.findall(r"`(\w+)`", section("first-day", "Health checks")))
