"""The guide one-server.md, line by line: package, unit, proxy with TLS, tenant, doctor, copies.

The lines run as they stand, with other folders in place of /etc, /opt and /var/lib, and free ports
in place of 80, 443 and 8000. Only what would change this machine has a stand-in: `sudo` and
`useradd`; `systemctl`, which starts the unit's own command line with the unit's settings; and the
names, which lead to 127.0.0.1 because those of the example belong to others.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from crm.tenancy import backup, readiness
from tests import log_leaks
from tests.nginx_server import MAIN, nginx_path
from tests.readme import ROOT, blocks, read, section
from tests.server_process import TIMEOUT_SECONDS, find_free_port

pytestmark = pytest.mark.process

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
import os, shlex, subprocess, sys
command, environ = ["nginx"], os.environ
if sys.argv[1:] == ["enable", "--now", "crm"]:
    unit = open("%(etc)s/systemd/system/crm.service").read().splitlines()
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
            **{"www": self.folder / "var/www", "issued": self.issued},
            **{"etc": self.folder / "etc", "plain": self.plain, "tls": self.tls, "domain": DOMAIN},
        }
        for name, text in PROGRAMS.items():
            (self.folder / "bin" / name).write_text(text % values)
            (self.folder / "bin" / name).chmod(0o755)
        (self.folder / "names" / "sitecustomize.py").write_text(NAMES % values)

    def _add_proxy(self) -> None:
        (self.folder / "etc/nginx/conf.d").mkdir(parents=True)
        user = "user root root;" if os.geteuid() == 0 else ""
        home = (MAIN % user).replace("include crm.conf", "include conf.d/*.conf")
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
        until = time.monotonic() + TIMEOUT_SECONDS
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
            time.sleep(0.05)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    try:
        yield made
    finally:
        made.end()
        log_leaks.heard("server", made.said())


@pytest.mark.parametrize("many", [False, True], ids=["one host", "many tenants"])
def test_the_lines_lead_to_a_service_behind_a_proxy(server: Server, many: bool) -> None:
    lines = blocks(read("one-server"))
    others = lines[6:]
    assert len(others) == 2
    if many:
        lines[1:3] = others
    host, settings = DOMAIN, ("CRM_TENANT=acme", f"CRM_PUBLIC_URL=https://{DOMAIN}")
    if many:
        host, settings = f"acme.{DOMAIN}", (f"CRM_BASE_DOMAIN={DOMAIN}",)
    install, tell, certify, serve, examine, nightly = lines[:6]
    server.run("systemctl start nginx")  # as the package does
    server.run(install)
    said = server.run(tell)
    for setting in (*settings, "CRM_TRUSTED_PROXIES=1"):
        assert re.search(rf"^{setting}  # source: .*/crm\.env", said, re.M), said
    server.run(certify)
    said = server.run(f"exec 2>&1\n{serve}")
    (link,) = re.findall(
        rf"the owner can log in once, .*: (https://{re.escape(host)}/enter/\S+)$", said, re.M
    )
    names = f"{DOMAIN} *.{DOMAIN}" if many else DOMAIN
    assert f"server_name {names};" in said
    assert said.endswith('{"status":"ok"}')
    said = server.run(examine)
    assert "tenants      1 of 1 files are whole" in said
    assert not re.search("^(fault|warning +names)", said, re.M), said
    assert "<form" in server.asked(link)
    answer = json.loads(server.asked(f"https://{host}/api/v1/openapi.json"))
    assert answer["servers"] == [{"url": "/api/v1"}]
    server.run(certify)  # renewed, beside the proxy
    assert "<form" in server.asked(f"https://{host}/login")
    cron = server.run(nightly).split(" ", 6)
    assert cron[:6] == ["15", "3", "*", "*", "*", "crm"]
    server.run(cron[6].replace(str(server.folder), ""))
    (copy,) = (server.folder / "var/lib/crm/backups").glob("acme-*.db")
    assert backup.check_copy(copy)
    server.end()
    assert '"level":"error"' not in server.said()


def test_each_reason_of_a_service_that_is_not_ready_is_told() -> None:
    reasons = {readiness.NOT_WRITABLE, readiness.FULL, readiness.UNREADABLE, readiness.SLOW}
    assert reasons <= set(re.findall(r"`(\w+)`", section("operating", "Health checks")))
