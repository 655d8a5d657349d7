"""The application under Apache's mod_wsgi, which reads the headers of an answer as those of CGI."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import external_programs
from tests.http_calls import Answer, ask
from tests.installations import copy_installation, environ_for
from tests.server_process import ROOT, find_free_port, run_listening_process

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.deep]

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
WSGIDaemonProcess crm threads=4 python-path={root}:{packages}
WSGIScriptAlias / {folder}/crm.wsgi process-group=crm application-group=%{{GLOBAL}}
WSGIPassAuthorization On
"""
# Apache refuses to serve as root, and another user could not enter the folders of these programs.
AS_ANOTHER_USER = "setpriv --reuid=www-data --regid=www-data --clear-groups"
READING_EVERYTHING = "--inh-caps=+dac_override --ambient-caps=+dac_override"

LEAD = {"name": "Марія", "phone": "+380671234567"}


@dataclass
class Apache:
    port: int
    key: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        host = f"acme.localhost:{self.port}"
        return ask(self.port, method, path, body, self.key, Host=host, **headers)

    def follow(self, answer: Answer) -> Answer:
        """The answer at the address that `answer` names, which must be of this server."""
        address = urlsplit(answer.headers["Location"])
        if address.netloc:
            assert address[:2] == ("http", f"acme.localhost:{self.port}")
        return self.ask("GET", address.path)


@pytest.fixture(scope="module")
def apache(furnished: tuple[Path, dict[str, str]]) -> Iterator[Apache]:
    program = external_programs.found("apache2-bin", "apache2")
    if not MOD_WSGI.exists():
        external_programs.missing("libapache2-mod-wsgi-py3")
    port = find_free_port()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with TemporaryDirectory(prefix="crm-apache-") as name:
        folder = Path(name)
        copy_installation(furnished[0], folder / "data")
        (folder / "crm.wsgi").write_text("from app import app as application\n")
        (folder / "apache.conf").write_text(
            CONFIGURATION.format(
                folder=folder,
                port=port,
                modules=MODULES,
                mod_wsgi=MOD_WSGI,
                root=ROOT,
                packages=sysconfig.get_path("purelib"),
            )
        )
        environ |= environ_for(folder / "data") | {"CRM_DATA": str(folder / "data")}
        environ["CRM_PUBLIC_URL"] = f"http://{{label}}.localhost:{port}"
        user = f"{AS_ANOTHER_USER} {READING_EVERYTHING}".split() if os.geteuid() == 0 else []
        command = [*user, program, "-f", str(folder / "apache.conf"), "-DFOREGROUND"]
        with run_listening_process(command, port, cwd=folder, env=environ):
            yield Apache(port, furnished[1]["olena"])


def test_the_answer_to_a_request_is_its_own(apache: Apache) -> None:
    created = apache.ask("POST", "/api/v1/leads", LEAD)
    assert (created.status, created.json["status"]) == (201, "ok")
    path = f"/api/v1/leads/{created.json['lead_id']}"
    lead = apache.follow(created)
    assert (lead.status, lead.json["name"]) == (200, LEAD["name"])
    etag = lead.headers["ETag"]
    assert apache.ask("GET", path, If_None_Match=etag).status == 304
    # Apache itself could compare what was asked for with the ETag of the answer, which is another.
    changed = apache.ask("PATCH", path, {"company": "Acme"}, If_Match=etag)
    assert (changed.status, changed.json["company"]) == (200, "Acme")
    assert apache.ask("PATCH", path, {"company": "Ivan"}, If_Match=etag).status == 412
    assert apache.ask("DELETE", path).status == 204
    gone = apache.ask("GET", path)
    assert (gone.status, gone.headers["Content-Type"]) == (404, "application/problem+json")
    login = apache.ask("GET", "/leads")
    assert (login.status, login.headers["Location"]) == (302, "/login?next=/leads")
