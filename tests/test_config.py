"""Settings: every one has a default and a meaning; a bad value stops the start with one line."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from crowd import ROOT

from crm import create_app
from crm.config import LOOPBACK, PLANS, Allow, Config, ConfigError

each = pytest.mark.parametrize
LONG = "a" * 64


def allowed(*networks: str, hosts: Iterable[tuple[str, int | None]] = ()) -> Allow:
    return Allow(tuple(map(ip_network, networks)), frozenset(hosts))


def load(**environ: str) -> Config:
    return Config.load(environ)


def test_without_an_environment_the_defaults_hold():
    config = load()
    assert config == Config()
    assert config.data == Path("data").absolute()
    assert (config.base_domain, config.tenant, config.public_url) == ("localhost", None, "")
    assert config.plans == PLANS == {"start": 60, "base": 300, "pro": 1000, "business": 5000}
    assert (config.trusted_proxies, config.port) == (0, 8000)
    assert config.webhook_allow == Allow((), frozenset())


def test_every_setting_has_a_name_a_default_and_a_meaning():
    names = set()
    for setting in dataclasses.fields(Config):
        about = setting.metadata
        assert about["env"].startswith("CRM_") and about["meaning"], setting.name
        assert load(**{about["env"]: about["default"]}) == Config() or setting.name == "data"
        names.add(about["env"])
    assert len(names) == len(dataclasses.fields(Config))


@each(
    ("env", "value", "name", "read"),
    [
        ("CRM_DATA", "/srv/crm", "data", Path("/srv/crm")),
        ("CRM_BASE_DOMAIN", "CRM.Example.UA.", "base_domain", "crm.example.ua"),
        ("CRM_TENANT", "acme", "tenant", "acme"),
        ("CRM_TENANT", "", "tenant", None),
        ("CRM_PUBLIC_URL", "https://{label}.crm.ua/", "public_url", "https://{label}.crm.ua"),
        ("CRM_PUBLIC_URL", "https://crm.ua:8443/x", "public_url", "https://crm.ua:8443/x"),
        ("CRM_PLANS", "business=0, base=600", "plans", PLANS | {"business": 0, "base": 600}),
        ("CRM_PLANS", " , ", "plans", PLANS),
        ("CRM_TRUSTED_PROXIES", "2", "trusted_proxies", 2),
        ("CRM_OPEN_FILES", "0", "open_files", 0),
        ("CRM_PORT", " 80 ", "port", 80),
        ("CRM_WEBHOOK_ALLOW", " , ", "webhook_allow", Allow()),
        ("CRM_WEBHOOK_ALLOW", "10.0.0.0/8,erp.local:8080,[::1]:9000", "webhook_allow",
         allowed("10.0.0.0/8", hosts={("erp.local", 8080), ("::1", 9000)})),
        ("CRM_WEBHOOK_ALLOW", "10.0.0.5, ::1 ,[fd00::1],fd00::/8", "webhook_allow",
         allowed("10.0.0.5/32", "::1/128", "fd00::1/128", "fd00::/8")),
        ("CRM_WEBHOOK_ALLOW", "127.0.0.1:80,[0::1]:80", "webhook_allow",
         allowed(hosts={("127.0.0.1", 80), ("::1", 80)})),
        ("CRM_WEBHOOK_ALLOW", "ERP.Local., crm_web,3cx,їжак.ua:1", "webhook_allow",
         allowed(hosts={("erp.local", None), ("crm_web", None), ("3cx", None),
                        ("xn--80aln7i.ua", 1)})),
    ],
)  # fmt: skip
def test_good_values(env, value, name, read):
    assert getattr(load(**{env: value}), name) == read


BAD = [
    ("CRM_DATA", ""),
    ("CRM_DATA", "  "),
    *[("CRM_BASE_DOMAIN", value) for value in (
        "", ".", "a..b", "localhost:8000", "http://a", "a b", "-a", "a-", LONG, "їжак", "a_b",
        "*.a",
    )],
    *[("CRM_TENANT", value) for value in (
        "ACME", "a.b", "-a", "a-", "a b", LONG, "xn--a", "їжак", "a/b",
    )],
    *[("CRM_PUBLIC_URL", value) for value in (
        "crm.ua", "ftp://a", "https://", "http:///", "https://{name}.a", "https://{label}{label}.a",
        "https://a b", "https://{label", "javascript:alert(1)", "https://a\n",
    )],
    *[("CRM_PLANS", value) for value in (
        "business", "business=", "business=x", "business=-1", "business=1.5", "gold=5", "=5", "5",
        "base=600;pro=5", "business=0,base", "business=1e3", "business=٣", "business=" + "9" * 5000,
    )],
    *[(env, value)
      for env in ("CRM_TRUSTED_PROXIES", "CRM_OPEN_FILES", "CRM_PORT")
      for value in ("", "x", "-1", "1.5", "1e3", "٣", "9" * 10, "0x10")],
    *[("CRM_WEBHOOK_ALLOW", value) for value in (
        "*", "*.local", "http://erp.local", "erp.local/hook", "a b", "a;b", "a..b", LONG, ":80",
        "a:0", "a:65536", "a:b", "a:", "user@a", "10.0.0.1/8", "10.0.0.0/33", "/8", "127.1",
        "0x7f.1", "2130706433", "127.1:80", "256.0.0.1", "[]:1", "[::1", "[::1]:x", "[10.0.0.1]",
        "[erp.local]", "fe80::1%eth0", "::1%1/128", "[fe80::1%eth0]:9", "10.0.0.0/8,127.1",
        "a:" + "9" * 5000,
    )],
    ("CRM_PORT", "65536"),
    ("CRM_PORT", "0"),
]  # fmt: skip


@each(("env", "value"), BAD)
def test_a_bad_value_is_one_clear_line_that_names_it(env, value):
    with pytest.raises(ConfigError) as refused:
        load(**{env: value})
    line = str(refused.value)
    assert line.startswith(f"{env}=") and "\n" not in line
    assert ": it " in line and len(line) < 300
    assert refused.value.__cause__ is None


def test_what_is_allowed_is_a_host_with_its_port_or_an_address_of_a_network():
    allow = allowed("10.0.0.0/8", hosts={("erp.local", 8080), ("any.local", None), ("::1", 9000)})
    hosts = [("erp.local", 8080), ("erp.local", 80), ("any.local", 1), ("x.erp.local", 8080)]
    assert [allow.has_host(*host) for host in hosts] == [True, False, True, False]
    addresses = [("10.1.2.3", 1), ("11.0.0.0", 1), ("::1", 9000), ("::1", 80), ("::ffff:a00:1", 1)]
    found = [allow.has_address(ip_address(address), port) for address, port in addresses]
    assert found == [True, False, True, False, False]


def test_what_is_allowed_can_be_joined():
    both = LOOPBACK | allowed("10.0.0.0/8", hosts={("erp.local", 8080)})
    assert both.has_host("localhost", 1) and both.has_host("erp.local", 8080)
    for address in ("127.9.9.9", "::1", "10.0.0.1"):
        assert both.has_address(ip_address(address), 1)
    assert not LOOPBACK.has_address(ip_address("10.0.0.1"), 1)
    assert LOOPBACK | Allow() == LOOPBACK


def test_what_the_command_line_gives_comes_before_the_environment():
    config = Config.load(
        {"CRM_PORT": "1", "CRM_TENANT": "bad tenant"}, port=9, tenant="acme", data=None
    )
    assert (config.port, config.tenant) == (9, "acme")


def test_only_known_settings_can_be_given():
    with pytest.raises(TypeError):
        Config(colour="red")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().port = 5


def test_the_app_does_not_start_with_a_bad_setting(monkeypatch):
    monkeypatch.setenv("CRM_PORT", "x")
    with pytest.raises(ConfigError, match="CRM_PORT='x': it is a"):
        create_app()


def test_the_environment_is_read_when_the_app_is_made_not_imported(monkeypatch, tmp_path):
    monkeypatch.setenv("CRM_DATA", str(tmp_path))
    monkeypatch.setenv("CRM_BASE_DOMAIN", "crm.example.ua")
    app = create_app()
    assert app.tenants.config.base_domain == "crm.example.ua"
    assert app.tenants.folder == tmp_path / "tenants"


def test_the_command_line_shows_the_line_and_no_trace():
    done = subprocess.run(
        [sys.executable, "app.py", "tenant", "list"],
        cwd=ROOT, env={"CRM_PORT": "x", "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "CRM_PORT='x'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
