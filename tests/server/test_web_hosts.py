"""The application under Apache's mod_wsgi and Passenger, set up as the guide says.

Both read the headers of an answer as those of CGI.
"""

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwuid
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import external_programs
from tests.http_calls import Answer, ask
from tests.installations import copy_installation, environ_for
from tests.readme import blocks, read
from tests.server_process import ROOT, find_free_port, run_listening_process

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.deep]

GUIDE = read("web-hosts")
MODULES = Path("/usr/lib/apache2/modules")
# Debian's name of the module for one Python; packages for another one could not be imported.
MOD_WSGI = MODULES / f"mod_wsgi.so-{sys.version_info[0]}.{sys.version_info[1]}"
CONFIGURATION = """
ServerRoot {folder}
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile apache.pid
ErrorLog /dev/stderr
LogLevel warn
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule wsgi_module {mod_wsgi}
WSGISocketPrefix {folder}/wsgi
"""
# Apache refuses to serve as root, and another user could not enter the folders of these programs.
AS_ANOTHER_USER = "setpriv --reuid=www-data --regid=www-data --clear-groups"
READING_EVERYTHING = "--inh-caps=+dac_override --ambient-caps=+dac_override"

LEAD = {"name": "Марія", "phone": "+380671234567"}


@dataclass
class Served:
    port: int
    key: str
    decodes_chunks: bool

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        host = f"acme.localhost:{self.port}"
        return ask(self.port, method, path, body, self.key, **{"Host": host} | headers)

    def follow(self, answer: Answer) -> Answer:
        """The answer at the address that `answer` names, which must be of this server."""
        address = urlsplit(answer.headers["Location"])
        if address.netloc:
            assert address[:2] == ("http", f"acme.localhost:{self.port}")
        return self.ask("GET", address.path)


def apache(folder: Path, port: int) -> list[str]:
    """The command of Apache with the lines of the guide, for the packages of this Python."""
    program = external_programs.found("apache2-bin", "apache2")
    if not MOD_WSGI.exists():
        external_programs.missing("libapache2-mod-wsgi-py3")
    here = f"python-path={ROOT}:{sysconfig.get_path('purelib')}"
    (lines,) = blocks(GUIDE, "apache")
    lines = lines.replace("user=crm group=crm", "").replace("python-home=/opt/crm", here)
    own = CONFIGURATION.format(folder=folder, port=port, modules=MODULES, mod_wsgi=MOD_WSGI)
    (folder / "apache.conf").write_text(own + lines.replace("/srv/crm", str(folder)))
    user = f"{AS_ANOTHER_USER} {READING_EVERYTHING}".split() if os.geteuid() == 0 else []
    return [*user, program, "-f", str(folder / "apache.conf"), "-DFOREGROUND"]


def passenger(folder: Path, port: int) -> list[str]:
    """The command of the guide, which calls nobody outside and writes into the folder alone."""
    external_programs.found("passenger")
    (lines,) = blocks(GUIDE)
    words = lines.replace("/opt/crm/bin/python", sys.executable).replace("8000", str(port)).split()
    words = [word for word in words[words.index("passenger") :] if word != "\\"]
    words += ["--disable-security-update-check", "--disable-anonymous-telemetry"]
    return [*words, "--log-file", "log", "--pid-file", "pid", "--user", getpwuid(os.geteuid())[0]]


@pytest.fixture(scope="module", params=[apache, passenger], ids=lambda host: host.__name__)
def served(request: Any, furnished: tuple[Path, dict[str, str]]) -> Iterator[Served]:
    port = find_free_port()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with TemporaryDirectory(prefix="crm-host-") as name:
        folder = Path(name)
        copy_installation(furnished[0], folder / "data")
        (lines,) = blocks(GUIDE, "python")
        for file in ("crm.wsgi", "passenger_wsgi.py"):
            (folder / file).write_text(lines.replace("/var/lib/crm", str(folder / "data")))
        environ |= environ_for(folder / "data") | {"PYTHONPATH": str(ROOT)}
        environ["CRM_PUBLIC_URL"] = f"http://{{label}}.localhost:{port}"
        command = request.param(folder, port)
        status = 2 if request.param is passenger else 0
        with run_listening_process(command, port, exit_status=status, cwd=folder, env=environ):
            yield Served(port, furnished[1]["olena"], request.param is apache)


def test_the_answer_to_a_request_is_its_own(served: Served) -> None:
    created = served.ask("POST", "/api/v1/leads", LEAD)
    assert (created.status, created.json["status"]) == (201, "ok")
    path = f"/api/v1/leads/{created.json['lead_id']}"
    lead = served.follow(created)
    assert (lead.status, lead.json["name"]) == (200, LEAD["name"])
    etag = lead.headers["ETag"]
    assert served.ask("GET", path, If_None_Match=etag).status == 304
    # Apache itself could compare what was asked for with the ETag of the answer, which is another.
    changed = served.ask("PATCH", path, {"company": "Acme"}, If_Match=etag)
    assert (changed.status, changed.json["company"]) == (200, "Acme")
    assert served.ask("PATCH", path, {"company": "Ivan"}, If_Match=etag).status == 412
    assert served.ask("DELETE", path).status == 204
    gone = served.ask("GET", path)
    assert (gone.status, gone.headers["Content-Type"]) == (404, "application/problem+json")
    login = served.ask("GET", "/leads")
    assert (login.status, login.headers["Location"]) == (302, "/login?next=/leads")


def test_every_port_of_a_host_is_served_and_chunks_are_as_the_guide_says(served: Served) -> None:
    for host in ("acme.localhost", "acme.localhost:8000", f"acme.localhost:{served.port}"):
        lead = LEAD | {"comment": host}
        assert served.ask("POST", "/api/v1/leads", lead, Host=host).status == 201
        assert served.ask("GET", "/api/v1/leads", Host=host).json["data"][0]["comment"] == host
    chunks = iter([json.dumps(LEAD).encode()])
    in_chunks = served.ask("POST", "/api/v1/leads", chunks, Content_Type="application/json")
    assert in_chunks.status == (201 if served.decodes_chunks else 411)
