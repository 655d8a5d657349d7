"""What an operator is given: the settings in force, a systemd unit, a proxy's configuration."""

import configparser
import random
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import crm
from crm import cli
from crm.cli import deployment
from crm.config import Config, ConfigError
from crm.config.file import quote, read
from tests.cases import loop_over
from tests.nginx_server import needed
from tests.server_process import ROOT

SECRET = "top-secret"
ODD = r'a\b "q" $5 100% Ґанок'
GIVEN = {
    "CRM_BASE_DOMAIN": "crm.example.ua",
    "CRM_SMS": "turbosms",
    "CRM_SMS_TOKEN": SECRET,
    "CRM_SMS_SENDER": ODD,
    "CRM_MAIL": f"smtp://crm:{SECRET}@mail.example.ua",
    "CRM_MAIL_FROM": "CRM <crm@example.ua>",
    "CRM_SMS_HEADERS": '{"Authorization": "top-secret"}',
}
SOURCE = r"default|environment|command line|/\S+"
SETTING = re.compile(rf"# (\S.*); source: ({SOURCE})\n(?:# )?(CRM_\w+)=(.*)\n")


def told(*words: object, code: int = 0, **settings: str) -> Result:
    """What a command said, in an environment of these settings alone."""
    cleared = {setting.env: None for setting in Config().describe()} | {"CRM_CONFIG": None}
    result = CliRunner().invoke(cli.group, [*map(str, words)], env=cleared | settings)
    assert result.exit_code == code, (result.output, result.exception)
    return result


# Settings


def lines(*words: object, **settings: str) -> dict[str, tuple[str, str, str]]:
    printed = told("config", *words, **settings).stdout
    assert SETTING.sub("", printed) == ""
    return {match[3]: (match[4], match[2], match[1]) for match in SETTING.finditer(printed)}


def test_every_setting_is_told_with_its_source_and_meaning():
    result = lines(CRM_PORT="9000")
    assert list(result) == [setting.env for setting in Config().describe()]
    assert result["CRM_PORT"][:2] == ("9000", "environment")
    assert result["CRM_SMS"][:2] == ("console", "default")
    assert result["CRM_DATA"][:2] == (str(Path("data").absolute()), "default")
    for setting in Config().describe():
        assert result[setting.env][2] == setting.meaning


def test_secrets_are_hidden_and_their_absence_is_not():
    printed = told("config", **GIVEN)
    assert SECRET not in printed.output
    assert "; source: environment\n# CRM_MAIL=…\n" in printed.stdout
    result = lines(**GIVEN)
    for env in ("CRM_SMS_TOKEN", "CRM_SMS_HEADERS", "CRM_MAIL"):
        assert result[env][:2] == ("…", "environment")
    assert result["CRM_SMS_BODY"][:2] == ("", "default")
    assert lines()["CRM_MAIL"][:2] == ("console", "default")


@loop_over("command", ["config", "systemd", "proxy nginx"])
def test_a_bad_value_is_one_line_for_each_of_them(command):
    refused = told(*command.split(), code=1, CRM_PORT="high")
    assert refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    assert line.startswith("Error: CRM_PORT='high': it is a whole number")


# The file


def written(folder: Path, *lines: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "crm.env"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_a_setting_comes_from_the_command_line_the_environment_the_file_or_its_default(tmp_path):
    path = written(tmp_path / "data", "CRM_PORT=9001", "CRM_SIGNUP=closed", "CRM_TENANT=acme")
    result = lines("--data", path.parent, CRM_PORT="9000")
    assert result["CRM_DATA"][:2] == (str(path.parent), "command line")
    assert result["CRM_PORT"][:2] == ("9000", "environment")
    assert result["CRM_SIGNUP"][:2] == ("closed", str(path))
    assert result["CRM_SMS"][:2] == ("console", "default")


def test_the_file_can_be_named(tmp_path):
    (tmp_path / "data").mkdir()
    path = written(tmp_path / "own", f"CRM_DATA={tmp_path / 'data'}", "CRM_PORT=9001")
    written(tmp_path / "data", "CRM_PORT=9002")
    for result in (lines("--config", path), lines(CRM_CONFIG=str(path))):
        assert result["CRM_DATA"][:2] == (str(tmp_path / "data"), str(path))
        assert result["CRM_PORT"][:2] == ("9001", str(path))
    other = written(tmp_path / "other", "CRM_PORT=9003")
    assert lines("--config", other, CRM_CONFIG=str(path))["CRM_PORT"][0] == "9003"


def test_a_value_is_written_as_systemd_reads_it(tmp_path):
    path = written(
        tmp_path / "data",
        "# a comment",
        'CRM_SMS_SENDER="Меблі \\"Затишок\\""',
        'CRM_SMS_BODY=\'{"to": "{digits}", "text": "{text} $HOME ${HOME}"}\'',
        "CRM_SMS_URL=https://a/b?c=$HOME",
        "",
        "  CRM_PORT=9001  ",
    )
    config = Config.load({}, data=path.parent)
    assert config.sms_sender == 'Меблі "Затишок"'
    assert config.sms_body == '{"to": "{digits}", "text": "{text} $HOME ${HOME}"}'
    assert (config.sms_url, config.port) == ("https://a/b?c=$HOME", 9001)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("CRM_PROT=s3cret", "line 3: CRM_PROT is no setting, did you mean CRM_PORT?"),
        ("CRM_CONFIG=s3cret", "line 3: CRM_CONFIG is no setting"),
        ("s3cret", "line 3: it is no NAME=value, or its quote does not end"),
        ("s3cret==", "line 3: this is no setting"),
        ("CRM_SMS_TOKEN='s3cret", "line 3: it is no NAME=value, or its quote does not end"),
        ("CRM_SIGNUP=open", "line 3: CRM_SIGNUP is there twice"),
        ("CRM_SMS_TOKEN=s3cret s3cret", "CRM_SMS_TOKEN: it is one word of ASCII characters"),
        ("CRM_PORT=x", "CRM_PORT='x': it is a whole number from 1 to 65535"),
    ],
)  # fmt: skip
def test_what_a_file_says_is_never_ignored(tmp_path, line, said):
    path = written(tmp_path / "data", "CRM_SIGNUP=open", "", line, "CRM_MAX_IDLE_CONNECTIONS=5")
    refused = told("config", "--data", path.parent, code=1)
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"Error: {path}")
    assert refused.stderr.endswith(f"{said}\n") and refused.stderr.count("\n") == 1
    assert "s3cret" not in refused.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"CRM_SMS_SENDER=\xff", "it cannot be read: it is no text in UTF-8"),
        (None, "it cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content, said):
    path = tmp_path / "crm.env"
    path.mkdir() if content is None else path.write_bytes(content)
    refused = told("config", "--data", tmp_path, code=1)
    assert refused.stderr == f"Error: {path}: {said}\n"
    gone = tmp_path / "gone.env"
    for refused in (
        told("config", "--config", gone, code=1),
        told("config", code=1, CRM_CONFIG=str(gone)),
    ):
        assert refused.stderr == f"Error: {gone}: it cannot be read: No such file or directory\n"


ROUND = {
    "CRM_SMS_SENDER": ODD,
    "CRM_BASE_DOMAIN": "crm.example.ua",
    "CRM_PLANS": "base=1,\n\t pro=2",
    "CRM_MAIL_FROM": "O'Neil $5 `x` \\ # Inc. <crm@example.ua>",
    "CRM_WEBHOOK_ALLOW": "10.0.0.0/8,[::1]:9000",
    "CRM_TRUSTED_PROXIES": "2",
    "CRM_PUBLIC_URL": "https://{label}.crm.example.ua",
}


def test_what_is_printed_is_a_file_that_says_the_same(tmp_path):
    printed = told("config", "--data", tmp_path / "data", **ROUND).stdout
    path = written(tmp_path / "data", printed)
    again = Config.load({}, data=tmp_path / "data")
    assert again == Config.load(ROUND, data=tmp_path / "data")
    assert again.file == path
    told_again = told("config", "--config", path).stdout
    named = re.compile("; source: (default|environment|command line|/.*)")
    assert named.sub("", told_again) == named.sub("", printed)
    assert {item.source for item in Config.load({}, config=path).describe()} == {str(path)}


def test_any_text_comes_back_as_it_was(tmp_path):
    dice = random.Random(5)
    texts = ["", *("".join(dice.choices("\\'\"$`# a\nї=;\t{%", k=6)) for _ in range(2000))]
    names = [f"N{number}" for number in range(len(texts))]
    path = written(
        tmp_path, *(f"# {t!r}\n{n}={quote(t)}" for n, t in zip(names, texts, strict=True))
    )
    assert list(read(path, names).values()) == texts


def test_a_hidden_secret_is_not_read_back_as_dots(tmp_path):
    path = written(tmp_path / "data", told("config", "--data", tmp_path / "data", **GIVEN).stdout)
    with pytest.raises(ConfigError, match="it needs CRM_SMS_TOKEN"):
        Config.load({}, config=path)


def test_the_unit_leaves_to_the_file_what_it_says(tmp_path):
    own = written(tmp_path / "data", "CRM_PORT=9001", "CRM_SMS_TOKEN=s3cret")
    text = unit("--data", own.parent, CRM_SIGNUP="closed")
    assert values(text, "Environment") == [f"CRM_DATA={own.parent}", "CRM_SIGNUP=closed"]
    assert "must have" not in text and "s3cret" not in text
    other = written(tmp_path / "etc", "CRM_PORT=9001")
    result = values(unit("--data", own.parent, "--config", other), "Environment")
    assert result == [f"CRM_DATA={own.parent}", f"CRM_CONFIG={other}"]


# The unit


def unit(*words: object, **settings: str) -> str:
    return told("systemd", *words, **settings).stdout


def parsed(text: str) -> configparser.ConfigParser:
    config_parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    config_parser.optionxform = str
    config_parser.read_string(text)
    return config_parser


def values(text: str, name: str) -> list[str]:
    """The words of every line of that name, as systemd takes them apart."""
    matches = re.findall(rf"^{name}=(.*)$", text, re.M)
    return [word.replace("%%", "%") for line in matches for word in shlex.split(line)]


def test_the_unit_is_that_of_a_service():
    text = unit("--data", "/srv/of the crm/100%", "--user", "root", **GIVEN)
    service = parsed(text)["Service"]
    expected = {
        "Type": "exec",
        "Restart": "on-failure",
        "TimeoutStopSec": "30",
        "KillMode": "mixed",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "EnvironmentFile": "-/etc/crm/secrets",
    }
    assert {name: service[name] for name in expected} == expected
    assert parsed(text)["Install"]["WantedBy"] == "multi-user.target"


def test_the_unit_has_the_settings_and_no_secret():
    text = unit("--data", "/var/lib/crm", **GIVEN)
    assert SECRET not in text
    assert values(text, "Environment") == [
        "CRM_DATA=/var/lib/crm",
        "CRM_BASE_DOMAIN=crm.example.ua",
        "CRM_SMS=turbosms",
        f"CRM_SMS_SENDER={ODD}",
        "CRM_MAIL_FROM=CRM <crm@example.ua>",
    ]
    for env in ("CRM_SMS_TOKEN", "CRM_SMS_HEADERS", "CRM_MAIL"):
        assert f"# It must have {env}, which is set now." in text
    assert "must have" not in unit()


def test_a_setting_ends_no_line_of_the_unit():
    text = unit(CRM_PLANS="base=1,\n\tpro=2")
    assert r'Environment="CRM_PLANS=base=1,\n\tpro=2"' in text.splitlines()


def test_the_data_folder_is_the_only_one_to_write_in():
    own = parsed(unit("--data", "/var/lib/crm/acme"))["Service"]
    assert (own["StateDirectory"], own["StateDirectoryMode"]) == ("crm/acme", "0700")
    assert "ReadWritePaths" not in own
    text = unit("--data", "/srv/of the crm", "--user", "olena")
    other = parsed(text)["Service"]
    assert (other["ReadWritePaths"], other["User"]) == ('"/srv/of the crm"', "olena")
    assert "StateDirectory" not in other
    assert "install -d -m 700 -o olena '/srv/of the crm'" in text


def test_what_is_protected_does_not_hide_the_service_from_itself(monkeypatch):
    def protection(python: str, package: str, data: str) -> str:
        monkeypatch.setattr(sys, "executable", f"{python}/bin/python")
        monkeypatch.setattr(sys, "prefix", python)
        monkeypatch.setattr(crm, "__file__", f"{package}/crm/__init__.py")
        service = parsed(unit("--data", data))["Service"]
        return service["ProtectHome"]

    assert protection("/opt/crm", "/opt/crm/lib", "/var/lib/crm") == "yes"
    assert protection("/home/crm/.venv", "/opt", "/var/lib/crm") == "read-only"
    assert protection("/opt/crm", "/root/crm", "/var/lib/crm") == "read-only"
    assert protection("/opt/crm", "/opt", "/home/crm/data") == "read-only"


def test_it_is_started_as_it_is_installed(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/a b/$1/python")
    checkout = f'ExecStart="/opt/a b/$$1/python" {ROOT / "app.py"} serve'
    assert checkout in unit().splitlines()
    monkeypatch.setattr(crm, "__file__", "/opt/lib/site-packages/crm/__init__.py")
    assert 'ExecStart="/opt/a b/$$1/python" -m crm serve' in unit().splitlines()


@pytest.mark.parametrize("name", ["", "a b", "root\nExecStart=/bin/sh", "-u", "Crm"])
def test_a_user_is_a_name(name):
    assert "a user's name looks like crm" in told("systemd", f"--user={name}", code=2).stderr


# Proxies; nginx itself is started in tests/server/test_proxy.py


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_a_proxy_tells_the_settings_that_go_with_it(name):
    domain = {"CRM_BASE_DOMAIN": "crm.example.ua"}

    def printed(*words: str, **more: str) -> dict[str, str]:
        return needed(told("proxy", name, *words, **domain, **more).stdout)

    expected = {
        "CRM_BASE_DOMAIN": "crm.example.ua",
        "CRM_PUBLIC_URL": "https://{label}.crm.example.ua",
        "CRM_TRUSTED_PROXIES": "1",
    }
    assert printed() == expected
    own = "https://{label}.shop.ua"
    assert printed(CRM_PUBLIC_URL=own) == expected | {"CRM_PUBLIC_URL": own}
    tried = printed("--plain", "127.0.0.1:8080", CRM_PUBLIC_URL=own)
    assert tried == expected | {"CRM_PUBLIC_URL": "http://{label}.crm.example.ua:8080"}
    for value in (printed(), tried):
        Config.load(value)


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_one_tenant_has_one_host(name):
    """No wildcard: neither in the names nor in the certificate."""
    one = {"CRM_TENANT": "acme", "CRM_PUBLIC_URL": "https://crm.example.ua"}
    text = told("proxy", name, **one).stdout
    assert needed(text) == one | {"CRM_TRUSTED_PROXIES": "1"}
    assert "*.crm" not in text and "DNS" not in text and "on_demand" not in text
    name_line = {"nginx": "    server_name crm.example.ua;", "caddy": "crm.example.ua {"}
    assert name_line[name] in text.splitlines()
    tried = told("proxy", name, "--plain", "127.0.0.1:8080", **one).stdout
    assert needed(tried)["CRM_PUBLIC_URL"] == "http://crm.example.ua:8080"
    short = told("proxy", name, CRM_TENANT="acme", CRM_BASE_DOMAIN="crm.example.ua").stdout
    assert needed(short) == needed(text)


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_the_service_is_where_it_is_told_to_be(name):
    assert "127.0.0.1:8000" in told("proxy", name).stdout
    assert "127.0.0.1:9000" in told("proxy", name, CRM_PORT="9000").stdout
    there = told("proxy", name, "--upstream", "[::1]:9001", CRM_PORT="9000").stdout
    assert "[::1]:9001" in there and "9000" not in there


@loop_over("option", ["--upstream", "--plain"])
@loop_over(
    "text", ["", "8000", "a", "a:0", "a:65536", "a b:1", "127.1:80", "a:1;", "a:1\n", "[::1:1"]
)
def test_an_address_is_a_host_with_its_port(option, text):
    for name in ("nginx", "caddy"):
        refused = told("proxy", name, option, text, code=2)
        assert "Invalid value for" in refused.stderr
        assert refused.stdout == ""


def test_no_proxy_logs_the_path_of_a_one_time_link():
    app = crm.create_app(sends=False)
    rules = [rule.rule for rule in app.url_map.iter_rules() if "token" in rule.arguments]
    doors = {rule.split("/")[1] for rule in rules}
    assert {"reset", "invite", "enter", "email", "in"} <= doors <= set(deployment.LINK_PATHS)
    assert all(rule.startswith(f"/{rule.split('/')[1]}/<token>") for rule in rules)
