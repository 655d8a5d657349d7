"""Which addresses a webhook may call. Nothing of this leaves loopback: names are resolved by the
tests, and every attempt to connect anywhere is noted before it is made."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import pytest

from crm.config import LOOPBACK, Allow, Config
from crm.outbox import call
from crm.outbox.destinations import (
    Destination,
    ForbiddenAddress,
    NameNotResolved,
    is_public_address,
    parse_destination,
    resolve_addresses,
)
from crm.values import InvalidValue
from tests import external_programs
from tests.cases import loop_over
from tests.server_process import ROOT
from tests.webhook_receiver import WebhookReceiver

parametrize = pytest.mark.parametrize
NOBODY = Allow()
PUBLIC, PUBLIC6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


def allowing(text: str) -> Allow:
    """As the operator writes it."""
    return Config.load({"CRM_WEBHOOK_ALLOW": text}).webhook_allow


def resolving(*answers: str | list[str]) -> Callable[..., list]:
    """A resolver of every name: its first answer, its second, …, and the last for ever."""
    left = [answer if isinstance(answer, list) else [answer] for answer in answers]

    def resolve(host: str, port: int, **_: Any) -> list:
        given = left.pop(0) if len(left) > 1 else left[0]
        return [(0, socket.SOCK_STREAM, 6, "", (address, port)) for address in given]

    return resolve


@pytest.fixture
def port(hook: WebhookReceiver) -> int:
    """Of a program on loopback that nobody outside may reach."""
    return int(urlsplit(hook.url).port)


@pytest.fixture(autouse=True)
def dialed(monkeypatch) -> list[str]:
    """The addresses that something tried to connect to; other than loopback never happens."""
    tried: list[str] = []
    connect = socket.socket.connect

    def noting(self: socket.socket, address: tuple) -> None:
        tried.append(address[0])
        assert ip_address(address[0]).is_loopback
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noting)
    return tried


def post(url: str, allow: Allow = NOBODY, *resolved: str | list[str]) -> call.Outcome:
    resolve = resolving(*resolved or ([],))
    return call.http_post(url, {}, b"{}", allow, seconds=2, resolve=resolve)


# What is refused; PORT is the listener's

NOT_TO_BE_CALLED = """
    http://example.com:PORT/  http://localhost:PORT/  http://127.0.0.1:PORT/  http://[::1]:PORT/
    http://8.8.8.8:PORT/  ftp://example.com:PORT/  file:///etc/passwd  gopher://127.0.0.1:PORT/_x
    javascript:alert(1)  data:,x  ws://127.0.0.1:PORT/  //127.0.0.1:PORT/  127.0.0.1:PORT  /hook
    https:127.0.0.1:PORT/  https:/127.0.0.1:PORT/  https:///127.0.0.1:PORT/  https://
    https://:PORT/  httpshttps://127.0.0.1:PORT/  unix:/var/run/docker.sock  localhost:PORT

    https://127.1:PORT/  https://127.0.1:PORT/  https://2130706433:PORT/  https://0x7f000001:PORT/
    https://0x7F.1:PORT/  https://0177.0.0.1:PORT/  https://017700000001:PORT/  https://0:PORT/
    https://0x7f.0.0.1:PORT/  https://127.0.0.01:PORT/  https://127.0.0.1.0:PORT/
    https://127.0.0.0x1:PORT/  https://127.0.0.0x:PORT/  https://0x:PORT/  https://127.1..:PORT/
    https://00000000177.1:PORT/  https://4294967296:PORT/  https://127.256:PORT/
    https://1.127.0.0.1:PORT/  https://foo.127.1:PORT/  https://foo.0x7f:PORT/
    https://foo.09:PORT/  https://127.0.0.256:PORT/  https://127.0.0.999:PORT/
    https://127..1:PORT/  https://127｡1:PORT/  https://²130706433:PORT/  https://２１３０７０６４３３:PORT/
    https://2852039166:PORT/  https://0xA9FEA9FE:PORT/  https://0251.0376.0251.0376:PORT/

    https://[fe80::1%25lo]:PORT/  https://[fe80::1%lo]:PORT/  https://[::1%25lo]:PORT/
    https://[2606:2800::1%25lo]:PORT/  https://[127.0.0.1]:PORT/  https://[::1:PORT/
    https://::1:PORT/  https://[v1.a]:PORT/  https://[::1].example.com:PORT/  https://[]:PORT/
    https://[::1]example.com:PORT/  https://[localhost]:PORT/  https://[::ffff:127.1]:PORT/

    https://user@example.com:PORT/  https://user:secret@example.com:PORT/
    https://@example.com:PORT/  https://:@example.com:PORT/  https://@@example.com:PORT/
    https://example.com@127.0.0.1:PORT/  https://example.com:443@127.0.0.1:PORT/
    https://127.0.0.1:PORT@example.com/  https://127.0.0.1&@example.com:PORT/
    https://example.com%40127.0.0.1:PORT/  https://example.com＠127.0.0.1:PORT/
    https://127.0.0.1:PORT#@example.com/  https://example.com#@127.0.0.1:PORT/
    https://example.com:PORT/#  https://example.com:PORT/#part  https://example.com:PORT?#
    https://127.0.0.1:PORT\\@example.com/  https://example.com\\@127.0.0.1:PORT/
    https:\\\\127.0.0.1:PORT/  https://127.0.0.1\\.example.com:PORT/  https://example.com/a\\b
    https://127.0.0.1%23.example.com:PORT/  https://127.0.0.1%2F.example.com:PORT/
    https://127.0.0.1／.example.com:PORT/  https://127.0.0.1＃.example.com:PORT/
    https://example.com：PORT/  https://127.0.0.1：PORT/  https://127.0.0.1%3APORT/
    https://exa_mple..com:PORT/  https://.example.com:PORT/  https://example.com..:PORT/
    https://-.example.com:PORT/  https://a-.example.com:PORT/  https://*.example.com:PORT/
    https://exa$mple.com:PORT/  https://exa%00mple.com:PORT/  https://exa%0Ample.com:PORT/
    https://exa%ffmple.com:PORT/  https://exa%mple.com:PORT/  https://example.com:PORT/100%

    https://example.com:0/  https://example.com:00/  https://example.com:65536/
    https://example.com:99999/  https://example.com:-1/  https://example.com:+443/
    https://example.com:4٤3/  https://example.com:443:PORT/  https://example.com:https/
    https://example.com:1e3/  https://example.com:0x50/  https://example.com:100000000000443/
"""
SPACED = [
    *("https://example.com:PORT/a b", " https://example.com:PORT/", "https://example.com:PORT/ "),
    *("https://127.0.0.1 .example.com:PORT/", "https://127.0.0.1:PORT /", "https://a\t.test:PORT/"),
    *("https://a.test:PORT/\r\nHost: b", "https://a.test:PORT/\n", "\0https://a.test:PORT/"),
    *("https://a.test:PORT/\x7f", "https://a.test:PORT/\u00a0", "https://127.0.0.1\u3000:PORT/"),
    *("https://a.test:PORT/\u2028", "https://a\u200b.test:PORT/", "https://a.test:PORT/\u202e"),
    *("https://a.test:PORT/\x85", "https://a.test:PORT/\ud800", "https://\ufeffa.test:PORT/", ""),
    *("https://a.test:PORT/" + "x" * 2048, f"https://{'a' * 64}.test:PORT/"),
    f"https://{'.'.join(['abc'] * 64)}:PORT/",
]
CLOSED = """
    127.0.0.1  127.0.0.1.  127.255.255.254  0.0.0.0  0.1.2.3  10.0.0.1  10.255.255.255  172.16.0.1
    172.31.255.255  192.168.0.1  100.64.0.1  100.127.255.255  192.0.0.1  192.0.2.1  192.88.99.1
    198.18.0.1  198.19.255.255  198.51.100.1  203.0.113.1  224.0.0.1  239.255.255.255  240.0.0.1
    255.255.255.255  127.0.0.1%2e  %31%32%37.0.0.1  127%2E0%2E0%2E1  １２７.０.０.１  127。0。0。1
    ①②⑦.0.0.1  %EF%BC%91%EF%BC%92%EF%BC%97.0.0.1  𝟏𝟐𝟕.0.0.1

    169.254.169.254  169.254.170.2  [fd00:ec2::254]  [fd20:ce::254]  168.63.129.16  100.100.100.200
    192.0.0.192  [fd00:c1::a9fe:a9fe]  [::ffff:169.254.169.254]  [64:ff9b::a9fe:a9fe]

    [::1]  [::]  [0:0:0:0:0:0:0:1]  [::0001]  [::ffff:127.0.0.1]  [::ffff:7f00:1]  [::127.0.0.1]
    [::FFFF:127.0.0.1]  [::7f00:1]  [::ffff:8.8.8.8]  [::ffff:0:127.0.0.1]  [::ffff:0:0]
    [64:ff9b::127.0.0.1]  [64:ff9b::7f00:1]  [64:ff9b::808:808]  [64:ff9b:1::7f00:1]
    [2002:7f00:1::]  [2002:808:808::1]  [2001:0:4136:e378:8000:63bf:807f:fffe]  [2001::1]
    [2001:2::1]  [2001:10::1]  [2001:20::1]  [2001:30::1]  [2001:db8::1]  [3fff::1]  [5f00::1]
    [100::1]  [fc00::1]  [fdff::1]  [fe80::1]  [febf::1]  [fec0::1]  [feff::1]  [ff02::1]
    [ff0e::1]  [4000::1]  [1fff::1]  [e000::1]  %5B%3A%3A1%5D
"""
LEADING_INSIDE = """
    localhost=127.0.0.1  localhost.=127.0.0.1  LOCALHOST=::1  localhost.localdomain=127.0.0.1
    ip6-localhost=::1  acme.localhost=127.0.0.1  127.0.0.1.nip.io=127.0.0.1  127.0.0.1e0=127.0.0.1
    inside.example.com=10.0.0.1  router=192.168.1.1  metadata.google.internal=169.254.169.254
    a.test=169.254.169.254  a.test=100.100.100.200  a.test=168.63.129.16  a.test=0.0.0.0
    a.test=::  a.test=::ffff:127.0.0.1  a.test=64:ff9b::7f00:1  a.test=2002:7f00:1::1
    a.test=fe80::1  a.test=fe80::1%lo  a.test=fec0::1  a.test=ff02::1  a.test=255.255.255.255
    їжак.test=127.0.0.1  ＬＯＣＡＬＨＯＳＴ=127.0.0.1  xn--80aln7i.test=127.0.0.1
    1.1.1.1.test=127.0.0.1  0x7f.0.0.1.test=127.0.0.1  %6c%6fcalhost=127.0.0.1  ٠=127.0.0.1
    a_b.test=127.0.0.1
"""


@loop_over("url", NOT_TO_BE_CALLED.split() + SPACED)
def test_a_url_that_is_none_is_not_even_tried(url, hook, port, dialed):
    url = url.replace("PORT", str(port))
    outcome = post(url, NOBODY, "127.0.0.1")
    assert (outcome.error, outcome.status, outcome.answer) == ("invalid_url", None, None)
    assert (dialed, len(hook.received)) == ([], 0)
    with pytest.raises(InvalidValue) as refused:
        parse_destination(url, NOBODY)
    assert not isinstance(refused.value, ForbiddenAddress)


@loop_over("host", CLOSED.split())
def test_an_address_that_is_not_public_is_not_even_tried(host, hook, port, dialed):
    url = f"https://{host}:{port}/latest/meta-data/"
    outcome = post(url, NOBODY, "127.0.0.1")
    assert (outcome.error, outcome.status, outcome.answer) == ("forbidden_address", None, None)
    assert (dialed, len(hook.received)) == ([], 0)
    with pytest.raises(ForbiddenAddress):
        parse_destination(url, NOBODY)


@loop_over("entry", LEADING_INSIDE.split())
def test_a_name_that_leads_inside_may_be_set_but_is_not_called(entry, hook, port, dialed):
    host, resolved = entry.split("=")
    url = f"https://{host}:{port}/"
    assert parse_destination(url, NOBODY)
    assert post(url, NOBODY, resolved).error == "forbidden_address"
    assert (dialed, len(hook.received)) == ([], 0)


@parametrize(
    "resolved",
    [[PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [PUBLIC6, "::1"], [PUBLIC, PUBLIC6, "10.0.0.1"]]
    + [[PUBLIC] * 20 + ["127.0.0.1"]],
)
def test_one_forbidden_answer_forbids_the_name(resolved, hook, port, dialed):
    url = f"https://rebinding.test:{port}/"
    assert post(url, NOBODY, resolved).error == "forbidden_address"
    assert (dialed, len(hook.received)) == ([], 0)


def test_a_name_that_changes_its_mind_is_checked_at_every_call(hook, port, dialed):
    resolve = resolving(PUBLIC, "127.0.0.1", PUBLIC, "127.0.0.1")
    url = f"https://rebinding.test:{port}/"
    to = parse_destination(url, NOBODY)
    assert resolve_addresses(to, NOBODY, 1, resolve) == [ip_address(PUBLIC)]
    assert call.http_post(url, {}, b"", NOBODY, resolve=resolve).error == "forbidden_address"
    assert resolve_addresses(to, NOBODY, 1, resolve) == [ip_address(PUBLIC)]
    with pytest.raises(ForbiddenAddress):
        resolve_addresses(to, NOBODY, 1, resolve)
    assert (dialed, len(hook.received)) == ([], 0)


def test_the_address_that_was_checked_is_the_one_that_is_called(hook, port, dialed):
    """The name is asked for once; that it says something else afterwards changes nothing."""
    asked: list[str] = []

    def resolve(host: str, port: int, **options: Any) -> list:
        asked.append(host)
        return resolving("127.0.0.1" if len(asked) == 1 else "127.0.0.2")(host, port, **options)

    url = f"http://rebinding.test:{port}/"
    allow = allowing("rebinding.test")
    assert call.http_post(url, {}, b"{}", allow, resolve=resolve).ok
    assert (asked, dialed, len(hook.received)) == (["rebinding.test"], ["127.0.0.1"], 1)


# What is allowed


@parametrize(
    ("allow", "url", "resolved"),
    [
        ("127.0.0.0/8", "http://127.0.0.1:PORT/", None),
        ("erp.local", "http://erp.local:PORT/", "127.0.0.1"),
        ("erp.local:PORT", "http://erp.local:PORT/", "127.0.0.1"),
        ("ERP.Local.", "http://erp.LOCAL.:PORT/", "127.0.0.1"),
        ("їжак.local", "http://їжак.local:PORT/", "127.0.0.1"),
        ("10.0.0.0/8, localhost", "http://localhost:PORT/?a=b", "127.0.0.1"),
    ],
)
def test_what_the_operator_allows_is_called(allow, url, resolved, hook, port, dialed):
    allowed = allowing(allow.replace("PORT", str(port)))
    outcome = post(url.replace("PORT", str(port)), allowed, *filter(None, [resolved]))
    assert (outcome.status, outcome.error) == (204, None)
    assert (dialed, len(hook.received)) == (["127.0.0.1"], 1)


def test_loopback_may_be_allowed_beside_what_the_operator_allows(hook, port):
    both = allowing("erp.local:8080") | LOOPBACK
    assert both == LOOPBACK | allowing("erp.local:8080") | NOBODY
    assert parse_destination("http://erp.local:8080/", both).host == "erp.local"
    assert parse_destination("http://[::1]:9/", both).host == "::1"
    assert post(f"http://127.0.0.1:{port}/", both).ok
    assert post(f"http://localhost:{port}/", both, "127.0.0.1").ok


@loop_over(
    ("allow", "url", "resolved", "error"),
    [
        ("erp.local:8080", "http://erp.local:PORT/", "127.0.0.1", "invalid_url"),
        ("erp.local:8080", "https://erp.local:PORT/", "127.0.0.1", "forbidden_address"),
        ("erp.local", "http://www.erp.local:PORT/", "127.0.0.1", "invalid_url"),
        ("erp.local", "https://local:PORT/", "127.0.0.1", "forbidden_address"),
        ("127.0.0.1:8080", "http://127.0.0.1:PORT/", None, "invalid_url"),
        ("127.0.0.1:8080", "https://127.0.0.1:PORT/", None, "forbidden_address"),
        ("127.0.0.2/31", "http://127.0.0.1:PORT/", None, "invalid_url"),
        # Plain http is for what is listed itself, not for a name that only leads there.
        ("127.0.0.0/8", "http://erp.local:PORT/", "127.0.0.1", "invalid_url"),
        ("10.0.0.0/8", "https://erp.local:PORT/", ["10.0.0.1", "127.0.0.1"], "forbidden_address"),
        # An IPv4 network is not its addresses in IPv6 forms, nor the other way round.
        ("127.0.0.0/8", "https://[::ffff:127.0.0.1]:PORT/", None, "forbidden_address"),
        ("127.0.0.0/8", "https://a.test:PORT/", "::ffff:127.0.0.1", "forbidden_address"),
        ("::/0", "https://127.0.0.1:PORT/", None, "forbidden_address"),
        ("127.0.0.0/8", "http://127.1:PORT/", None, "invalid_url"),
        ("127.0.0.0/8", "http://user@127.0.0.1:PORT/", None, "invalid_url"),
        ("127.0.0.0/8", "ftp://127.0.0.1:PORT/", None, "invalid_url"),
    ],
)
def test_what_is_allowed_allows_nothing_else(allow, url, resolved, error, hook, port, dialed):
    url = url.replace("PORT", str(port))
    assert post(url, allowing(allow), *filter(None, [resolved])).error == error
    assert (dialed, len(hook.received)) == ([], 0)


@parametrize(
    ("allow", "resolved"),
    [
        ("10.0.0.0/8", ["10.0.0.1", PUBLIC]),
        ("64:ff9b::/96", ["64:ff9b::7f00:1"]),
        ("fe80::/10", ["fe80::1%lo"]),
        ("fd00::/8,10.0.0.0/8", ["fd00::1", "10.0.0.1"]),
        ("", [PUBLIC, PUBLIC6]),
    ],
)
def test_a_name_may_lead_to_what_is_allowed(allow, resolved):
    to = parse_destination("https://erp.test/", allowing(allow))
    result = resolve_addresses(to, allowing(allow), 1, resolving(resolved))
    assert result == [ip_address(text) for text in resolved]


# The parts of a URL


@loop_over(
    ("url", "host", "port", "target"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("HTTPS://EXAMPLE.com./", "example.com", 443, "/"),
        ("https://example.com:08443/hook", "example.com", 8443, "/hook"),
        ("https://example.com?a=b&c=@/", "example.com", 443, "/?a=b&c=@/"),
        ("https://example.com/a/../b/./c", "example.com", 443, "/b/c"),
        ("https://example.com/%d1%97/a%20b?q=%2F%23", "example.com", 443, "/%D1%97/a%20b?q=%2F%23"),
        ("https://example.com/їжак?ґ=є", "example.com", 443,
         "/%D1%97%D0%B6%D0%B0%D0%BA?%D2%91=%D1%94"),
        ("https://їжак.укр/", "xn--80aln7i.xn--j1amh", 443, "/"),
        ("https://a_b.example.com/", "a_b.example.com", 443, "/"),
        (f"https://{PUBLIC}/", PUBLIC, 443, "/"),
        ("https://８.８.８.８/", "8.8.8.8", 443, "/"),
        (f"https://[{PUBLIC6.upper()}]:8443/", PUBLIC6, 8443, "/"),
        ("https://example.com/" + "x" * 2028, "example.com", 443, "/" + "x" * 2028),
    ],
)  # fmt: skip
def test_good_urls(url, host, port, target, dialed):
    to = parse_destination(url, NOBODY)
    assert to == Destination("https", host, port, target)
    assert parse_destination(
        f"https://{f'[{host}]' if ':' in host else host}:{port}{target}"[:2048], NOBODY
    )
    assert dialed == []


# The machine's own addresses, with real ones in a network namespace

OWN = ("93.184.215.14", "198.41.0.4", "198.41.0.5", PUBLIC6)  # the third is a secondary one
OTHERS = ("93.184.215.15", "198.41.1.6", "8.8.8.8", "2606:2800::1")
MACHINE = """
set -e
ip link set lo up
for address in 93.184.215.14/32 198.41.0.4/24 198.41.0.5/24 $SIX/128; do
    ip addr add $address dev lo
done
echo $NONLOCAL_BIND > /proc/sys/net/ipv4/ip_nonlocal_bind
echo $NONLOCAL_BIND > /proc/sys/net/ipv6/ip_nonlocal_bind
exec $PYTHON -c "$CALLS" $HOSTS
"""
CALLS = """
import socket, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from crm.config import Allow, Config
from crm.outbox import call

class Internal(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass

class Six(HTTPServer):
    address_family = socket.AF_INET6

listener = Six(("::", 0), Internal)
threading.Thread(target=listener.serve_forever, daemon=True).start()
port = listener.server_port

def post(host, allow):
    resolve = lambda *_, **__: [(0, 0, 0, "", (host, port))]
    literal = f"[{host}]" if ":" in host else host
    urls = f"https://{literal}:{port}/", f"https://name.test:{port}/"
    return [call.http_post(url, {}, b"{}", allow, seconds=5, resolve=resolve).error for url in urls]

allowed = Config.load({"CRM_WEBHOOK_ALLOW": "93.184.215.0/24"}).webhook_allow
for host in sys.argv[1:]:
    print(host, *post(host, Allow()), *post(host, allowed))
plain = call.http_post(f"http://93.184.215.14:{port}/", {}, b"{}", allowed, seconds=5)
print("allowed", plain.status)
"""


@pytest.mark.process
@parametrize("nonlocal_bind", [0, 1])
def test_the_machines_own_public_addresses_are_not_called(nonlocal_bind):
    """A service that listens there may have a firewall in front, which such a call gets past."""
    unshare = external_programs.found("util-linux", "unshare")
    external_programs.found("iproute2", "ip")
    given = {
        "SIX": PUBLIC6,
        "NONLOCAL_BIND": str(nonlocal_bind),
        "PYTHON": sys.executable,
        "CALLS": CALLS,
        "HOSTS": " ".join(OWN + OTHERS),
    }
    done = subprocess.run(
        [unshare, "-rn", "bash", "-c", MACHINE],
        env=os.environ | given, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    refused, tried = "forbidden_address", "tls_failed"  # no TLS there: it was connected
    assert results["93.184.215.14"] == f"{refused} {refused} {tried} {tried}"
    for host in OWN[1:]:
        assert results[host] == " ".join([refused] * 4), host
    for host in OTHERS:
        assert refused not in results[host], host
    assert results["allowed"] == "204"


def test_of_the_internet_only_what_is_one_machine_is_public():
    """The edges of what is closed, from both sides."""
    for below, first, last, above in (
        ("", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"),
        ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("223.255.255.255", "224.0.0.0", "255.255.255.255", ""),
        ("", "::", "1fff:ffff::", "2000::"),
        ("2000:ffff::", "2001::", "2001:1ff:ffff::", "2001:200::"),
        ("2001:db7:ffff::", "2001:db8::", "2001:db8:ffff::", "2001:db9::"),
        ("2001:ffff::", "2002::", "2002:ffff::", "2003::"),
        ("3ffe:ffff::", "3fff::", "3fff:fff:ffff::", "3fff:1000::"),
        ("3fff:ffff::", "4000::", "ffff::", ""),
    ):
        assert not is_public_address(ip_address(first)) and not is_public_address(
            ip_address(last)
        ), first
        for outside in filter(None, (below, above)):
            assert is_public_address(ip_address(outside)), outside


# Resolving


def test_a_name_without_an_address_is_unresolved():
    def unknown(*_: Any, **__: Any) -> list:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def strange(*_: Any, **__: Any) -> list:
        raise UnicodeError("label too long")

    to = parse_destination("https://a.test/", NOBODY)
    for resolve in (unknown, strange, resolving([])):
        with pytest.raises(NameNotResolved):
            resolve_addresses(to, NOBODY, 1, resolve)
    assert parse_destination("https://a.test/", NOBODY)


def test_a_resolver_that_hangs_is_not_waited_for():
    over = threading.Event()
    to = parse_destination("https://a.test/", NOBODY)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        resolve_addresses(to, NOBODY, 0.1, lambda *_, **__: over.wait(60))
    assert 0.09 < time.monotonic() - began < 20
    left = [thread for thread in threading.enumerate() if thread.name == "resolve"]
    assert left and all(thread.daemon for thread in left)  # the process can end without them
    over.set()


def test_the_resolver_is_asked_for_the_ascii_name_and_doubles_are_dropped():
    asked: list[tuple] = []

    def resolve(*args: Any, **options: Any) -> list:
        asked.append((*args, options))
        return resolving([PUBLIC, PUBLIC6, PUBLIC])("", 0)

    to = parse_destination("https://Їжак.ua.:8443/", NOBODY)
    assert resolve_addresses(to, NOBODY, 1, resolve) == [ip_address(PUBLIC), ip_address(PUBLIC6)]
    assert asked == [("xn--80aln7i.ua", 8443, {"type": socket.SOCK_STREAM})]
