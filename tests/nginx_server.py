"""An nginx for tests, with the configuration that `proxy nginx` prints."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme
from click.testing import CliRunner

from crm import cli
from tests import external_programs
from tests.server_process import TIMEOUT_SECONDS, is_free, wait_until_listening

MAIN = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
%s
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    scgi_temp_path scgi;
    uwsgi_temp_path uwsgi;
    include crm.conf;
}
"""
# The lines of the main file that a printed configuration names.
NAMED_LINE = re.compile(r"^#   (worker_rlimit_nofile .*;|events \{.*\})$", re.M)
# What it may say: that a body went through a file, or was refused.
EXPECTED = r"\[warn\] .* is buffered to a temporary file|intended to send too large body"
# What it says of nodes that end or do not answer.
NODE_FAILED = (
    r"\[error\] .*(connect\(\) failed|recv\(\) failed|writev\(\) failed"
    r"|upstream prematurely closed connection|upstream timed out|no live upstreams)"
    r"|\[warn\] .*upstream server temporarily disabled"
)


def nginx_path() -> str:
    """Return the path of nginx; without one the test is skipped, in CI it fails."""
    return external_programs.found("nginx")


def printed(*words: str) -> str:
    """Return what `proxy nginx` prints for these words and the base domain localhost."""
    result = CliRunner().invoke(
        cli.group, ["proxy", "nginx", *words], env={"CRM_BASE_DOMAIN": "localhost"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def printed_for_tls(folder: Path, upstream: int, plain: int, secure: int) -> str:
    """Return what `proxy nginx` prints, with certificates of a folder and ports of loopback."""
    text = printed("--upstream", f"127.0.0.1:{upstream}")
    for original, local in (
        ("/etc/letsencrypt/live/localhost/", f"{folder}/"),
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl;\n", ""),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{secure} ssl;"),
    ):
        assert original in text
        text = text.replace(original, local)
    return text


def certify(folder: Path) -> trustme.CA:
    """Put a certificate of the hosts into a folder, and return who vouches for it."""
    authority = trustme.CA()
    names = authority.issue_cert("localhost", "acme.localhost")
    names.private_key_pem.write_to_path(folder / "privkey.pem")
    for part in names.cert_chain_pems:
        part.write_to_path(folder / "fullchain.pem", append=True)
    return authority


def needed(configuration: str) -> dict[str, str]:
    """Return the settings that a printed configuration says it needs."""
    return dict(re.findall(r"^#   (CRM_\w+)=(.*)$", configuration, re.M))


@contextmanager
def run_nginx(
    folder: Path, configuration: str, port: int, expected: str = EXPECTED
) -> Iterator[None]:
    """Run an nginx with that configuration until the block ends.

    It must end well, and say nothing but what matches `expected`.
    """
    program = nginx_path()
    # As another user its worker could not enter this folder.
    user = "user root root;\n" if os.geteuid() == 0 else ""
    named = NAMED_LINE.findall(configuration)
    (folder / "nginx.conf").write_text(MAIN % (user + "\n".join(named or ["events {}"])))
    local = configuration.replace("/var/log/nginx/access.log", str(folder / "access.log"))
    (folder / "crm.conf").write_text(local)
    assert is_free(port), f"another program listens on {port}"
    # A file, because a pipe that nobody reads fills up and blocks it.
    with (folder / "nginx.log").open("w") as log:
        process = subprocess.Popen(
            [program, "-e", "stderr", "-p", str(folder), "-c", "nginx.conf"],
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            with suppress(AssertionError):  # what it wrote says why it did not start
                wait_until_listening(port, process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_SECONDS)
            finally:  # its worker would go on to listen
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            output = (folder / "nginx.log").read_text()
    assert process.returncode == 0, output
    unexpected = [line for line in output.splitlines() if not re.search(expected, line)]
    assert not unexpected, unexpected
