"""Settings: every one has a default and a meaning; a bad value stops the start with one line."""

import dataclasses
from collections.abc import Iterable
from email.headerregistry import Address
from ipaddress import ip_network
from pathlib import Path

import pytest

from crm import create_app
from crm.config import PLANS, Allow, Config, ConfigError, MailServer
from crm.config.readers import SMS_LIMITS
from tests.cases import loop_over

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
    assert (config.sms, config.mail, config.mail_from) == ("console", None, None)
    assert config.webhook_allow == Allow((), frozenset())


def test_who_serves_one_tenant_opens_no_other():
    assert load().signup
    assert not load(CRM_TENANT="acme").signup
    assert not load(CRM_TENANT="acme", CRM_SIGNUP="open").signup


def test_every_setting_has_a_name_a_default_and_a_meaning():
    settings = dataclasses.fields(Config)
    assert [about.env for about in Config().describe()] == [
        f"CRM_{setting.name.upper()}" for setting in settings
    ]
    for setting, about in zip(settings, Config().describe(), strict=True):
        assert about.meaning, setting.name
        default = load(**{about.env: setting.metadata["default"]})
        assert getattr(default, setting.name) == getattr(Config(), setting.name)


@loop_over(
    ("env", "value", "name", "read"),
    [
        ("CRM_DATA", "/srv/crm", "data", Path("/srv/crm")),
        ("CRM_BASE_DOMAIN", "CRM.Example.UA.", "base_domain", "crm.example.ua"),
        ("CRM_TENANT", "acme", "tenant", "acme"),
        ("CRM_TENANT", "", "tenant", None),
        ("CRM_SIGNUP", "closed", "signup", False),
        ("CRM_PUBLIC_URL", "https://{label}.crm.ua/", "public_url", "https://{label}.crm.ua"),
        ("CRM_PLANS", "business=0, base=600", "plans", PLANS | {"business": 0, "base": 600}),
        ("CRM_TRUSTED_PROXIES", "2", "trusted_proxies", 2),
        ("CRM_PORT", " 80 ", "port", 80),
        ("CRM_SMS_LIMITS", "tenant=5, signup=7", "sms_limits",
         SMS_LIMITS | {"tenant": 5, "signup": 7}),
        ("CRM_SMS_LIMITS", "day=100", "sms_limits", SMS_LIMITS | {"day": 100, "reserve": 20}),
        ("CRM_SMS_URL", "https://[::1]/?t={text}", "sms_url", "https://[::1]/?t={text}"),
        ("CRM_SMS_HEADERS", '{"X-Key": "a b"}', "sms_headers", {"X-Key": "a b"}),
        ("CRM_SMS_BODY", ' {"a": "{text}"}\n', "sms_body", '{"a": "{text}"}'),
        ("CRM_MAIL", "console", "mail", None),
        ("CRM_MAIL_FROM", "crm@example.ua", "mail_from", Address("", "crm", "example.ua")),
        ("CRM_MAIL_FROM", "Зручна CRM, Inc. <a.b+c@example.ua>", "mail_from",
         Address("Зручна CRM, Inc.", "a.b+c", "example.ua")),
        ("CRM_WEBHOOK_ALLOW", "10.0.0.0/8,erp.local:8080,[::1]:9000", "webhook_allow",
         allowed("10.0.0.0/8", hosts={("erp.local", 8080), ("::1", 9000)})),
        ("CRM_WEBHOOK_ALLOW", "10.0.0.5, ::1 ,[fd00::1],fd00::/8", "webhook_allow",
         allowed("10.0.0.5/32", "::1/128", "fd00::1/128", "fd00::/8")),
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
        "", "a..b", "localhost:8000", "http://a", "a b", "-a", LONG, "їжак", "a_b", "*.a",
    )],
    *[("CRM_TENANT", value) for value in ("ACME", "a.b", "-a", "a b", LONG, "xn--a", "їжак")],
    *[("CRM_SIGNUP", value) for value in ("", "yes", "Open", "1", " open")],
    *[("CRM_PUBLIC_URL", value) for value in (
        "crm.ua", "ftp://a", "https://", "http:///", "https://{name}.a", "https://{label}{label}.a",
        "https://a b", "https://{label", "javascript:alert(1)", "https://a\n",
    )],
    *[("CRM_PLANS", value) for value in (
        "business", "business=", "business=x", "business=-1", "gold=5", "=5", "base=600;pro=5",
        "business=1e3", "business=٣", "business=" + "9" * 5000,
    )],
    *[(env, value)
      for env in ("CRM_TRUSTED_PROXIES", "CRM_MAX_IDLE_CONNECTIONS", "CRM_PORT")
      for value in ("", "x", "-1", "1.5", "1e3", "٣", "9" * 10, "0x10")],
    *[("CRM_WEBHOOK_ALLOW", value) for value in (
        "*", "*.local", "http://erp.local", "erp.local/hook", "a b", "a;b", LONG, ":80", "a:65536",
        "a:b", "user@a", "10.0.0.1/8", "10.0.0.0/33", "127.1", "0x7f.1", "2130706433", "256.0.0.1",
        "[]:1", "[::1", "[10.0.0.1]", "[erp.local]", "fe80::1%eth0", "[fe80::1%eth0]:9",
        "10.0.0.0/8,127.1", "a:" + "9" * 5000,
    )],
    ("CRM_PORT", "65536"),
    ("CRM_PORT", "0"),
    *[("CRM_SMS", value) for value in ("", "Console", "twilio", "turbosms ")],
    ("CRM_SMS_SENDER", "Acme\r\nEvil"),
    *[("CRM_SMS_LIMITS", value) for value in (
        "day", "day=", "day=x", "day=-1", "day=0", "tenant=0", "week=5", "1000", "day=1e3",
        "day=5,reserve=5", "reserve=1000", "day=100,reserve=101", "day=5;tenant=5",
    )],
    *[("CRM_MAIL_FROM", value) for value in (
        "crm", "CRM crm@a.ua", "CRM <crm@a.ua", "a@a.ua, b@a.ua", "a@a.ua\nb",
        "a\nBcc: b <crm@a.ua>", "@a.ua", "a@", "a..b@a.ua", "a@-a", "a@а.ua",
    )],
]  # fmt: skip


@loop_over(("env", "value"), BAD)
def test_a_bad_value_is_one_clear_line_that_names_it(env, value):
    with pytest.raises(ConfigError) as refused:
        load(**{env: value})
    line = str(refused.value)
    assert line.startswith(f"{env}=") and "\n" not in line
    assert ": it " in line and len(line) < 300
    assert refused.value.__cause__ is None


@loop_over(
    ("url", "server"),
    [
        ("smtp://mail", MailServer("mail", 587, False)),
        ("smtp://10.0.0.5:25/", MailServer("10.0.0.5", 25, False)),
        ("smtps://[::1]", MailServer("::1", 465, True)),
        (
            "smtps://crm%40acme.ua:p%3A%2F%25@mail.acme.ua:2465",
            MailServer("mail.acme.ua", 2465, True, "crm@acme.ua", "p:/%"),
        ),
    ],
)
def test_mail_servers(url, server):
    assert load(CRM_MAIL=url, CRM_MAIL_FROM="crm@acme.ua").mail == server


SECRET = [
    *[("CRM_SMS_TOKEN", value) for value in ("s3cret s3cret", "s3cretї", "s3cret\r\nX: y")],
    *[("CRM_SMS_URL", value) for value in (
        "s3cret", "ftp://s3cret", "https://", "https://a b?s3cret", "https://a/s3cret#x",
        "https://user:s3cret@a/", "https://a:65536/s3cret", "https://a:0/s3cret", "https://a:s3cret",
        "https://{phone}.s3cret", "https://a/{s3cret}", "https://a/{text", "https://a/s3cretї",
        "https://a/?s3cret\n",
    )],
    *[("CRM_SMS_HEADERS", value) for value in (
        "s3cret", '["s3cret"]', '{"X-Key": 5}', '{"X Key": "s3cret"}', '{"s3cret":', "[" * 100_000,
        '{"X-Key": "s3cret\\r\\nX: y"}', '{"X-Key": "s3cretї"}', '{"": "s3cret"}',
    )],
    *[("CRM_MAIL", value) for value in (
        "", "mail", "http://mail", "smtp://", "smtp://user@mail", "smtp://:s3cret@mail",
        "smtp://user:s3@cret@mail", "smtp://user:s3cret@mail:65536", "smtp://user:s3cret@mail/x",
        "smtp://user:s3cret@mail?x", "smtp://user:s3cret@", "smtp://user:s3/cret@mail",
        "smtp://user:s3cret%D1%97@mail", "smtp://user:s3cret%00@mail", "smtp://user:s3cret@їжак",
        "smtp://user:s3cret@mail\n", "SMTP://user:s3cret@mail",
    )],
]  # fmt: skip


@loop_over(("env", "value"), SECRET)
def test_a_bad_secret_is_one_clear_line_that_does_not_show_it(env, value):
    with pytest.raises(ConfigError) as refused:
        load(**{env: value}, CRM_MAIL_FROM="crm@a.ua")
    line = str(refused.value)
    assert line.startswith(f"{env}: it looks like ") or line.startswith(f"{env}: it is ")
    assert "s3cret" not in line and "\n" not in line and len(line) < 300


def test_what_may_hold_a_secret_is_marked_and_does_not_show():
    settings = dataclasses.fields(Config)
    marked = {f"CRM_{about.name.upper()}" for about in settings if about.metadata["secret"]}
    assert marked == {
        "CRM_DATABASE",
        *("CRM_SMS_TOKEN", "CRM_SMS_URL", "CRM_SMS_HEADERS", "CRM_SMS_BODY", "CRM_MAIL"),
        "CRM_TELEGRAM_TOKEN",
    }
    config = load(
        CRM_SMS="http",
        CRM_SMS_TOKEN="s3cret",
        CRM_SMS_URL="https://a/s3cret?{phone}",
        CRM_SMS_HEADERS='{"X-Key": "s3cret"}',
        CRM_SMS_BODY="key=s3cret&text={text}",
        CRM_MAIL="smtp://user:s3cret@mail",
        CRM_MAIL_FROM="crm@acme.ua",
    )
    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(config.mail)


GATEWAY = {"CRM_SMS": "http", "CRM_SMS_URL": "https://a/send"}


@loop_over(
    ("environ", "line"),
    [
        *[
            ({"CRM_SMS": "turbosms", **more},
             "CRM_SMS=turbosms: it needs CRM_SMS_TOKEN and CRM_SMS_SENDER")
            for more in ({}, {"CRM_SMS_TOKEN": "s3cret"}, {"CRM_SMS_SENDER": "Acme"},
                         {"CRM_SMS_TOKEN": " ", "CRM_SMS_SENDER": "Acme"})
        ],
        ({"CRM_SMS": "http"}, "CRM_SMS=http: it needs CRM_SMS_URL"),
        *[
            ({**GATEWAY, **more},
             "CRM_SMS=http: it needs {phone} and {text} in CRM_SMS_URL or CRM_SMS_BODY")
            for more in ({}, {"CRM_SMS_BODY": "to={phone}"}, {"CRM_SMS_BODY": "text={text}"},
                         {"CRM_SMS_BODY": "to={to}&text={message}"})
        ],
        ({**GATEWAY, "CRM_SMS_BODY": "{phone}{text}",
          "CRM_SMS_HEADERS": '{"content-TYPE": "multipart/form-data"}'},
         "CRM_SMS_HEADERS: its Content-Type is neither JSON, a form nor XML"),
        ({"CRM_MAIL": "smtp://user:s3cret@mail"}, "CRM_MAIL=smtp: it needs CRM_MAIL_FROM"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_one_clear_line(environ, line):
    with pytest.raises(ConfigError) as refused:
        load(**environ)
    assert str(refused.value) == line


@loop_over(
    "body",
    ['{"to": {digits}, "text": "{text}"}', "to={phone}&text={text}", "<a b='{phone}'>{text}</a>",
     "{text}{phone}"],
)  # fmt: skip
def test_gateways_that_can_work(body):
    assert load(**GATEWAY, CRM_SMS_BODY=body).sms_body == body
    assert load(CRM_SMS="http", CRM_SMS_URL="https://a/{digits}?{text}").sms_body == ""


def test_settings_of_a_way_that_is_not_taken_may_stay():
    assert load(CRM_SMS_TOKEN="s3cret", CRM_SMS_URL="https://a", CRM_MAIL_FROM="a@b.ua")
    config = Config.load({"CRM_SMS": "http", "CRM_SMS_URL": "https://a"}, sms="console")
    assert config.sms == "console"


def test_what_the_command_line_gives_comes_before_the_environment():
    config = Config.load(
        {"CRM_PORT": "1", "CRM_TENANT": "bad tenant"}, port=9, tenant="acme", data=None
    )
    assert (config.port, config.tenant) == (9, "acme")


def test_the_app_does_not_start_with_a_bad_setting(monkeypatch):
    monkeypatch.setenv("CRM_PORT", "x")
    with pytest.raises(ConfigError, match="CRM_PORT='x': it is a"):
        create_app()
