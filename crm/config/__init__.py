"""Every setting of an installation: name, default, meaning. Nothing else reads the environment.

An invalid value raises ConfigError, a line for the operator.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from email.headerregistry import Address
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from crm.config import file, readers
from crm.config.file import ConfigError
from crm.config.readers import LABEL, LOOPBACK, PLANS, Allow, MailServer  # noqa: F401
from crm.config.removed import describe_removed

ENVIRONMENT = "environment"


class SettingStatus(NamedTuple):
    """A setting's current value as text. `hidden`: it is a secret and must not be shown."""

    env: str
    text: str
    source: str  # "default", "environment", "command line", or the path of the file
    meaning: str
    hidden: bool


def setting(default: str, read: Callable[[str], Any], meaning: str, *, secret: bool = False) -> Any:
    """Declare a setting, whose variable is CRM_ and its name; `default` is a text as in that."""
    metadata = {"default": default, "read": read, "meaning": meaning, "secret": secret}
    return field(default_factory=lambda: read(default), repr=not secret, metadata=metadata)


secret = partial(setting, secret=True)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings: `Config.load()` reads environment and file, `Config(data=…)` has defaults."""

    file: ClassVar[Path | None] = None  # the settings file that was read
    origins: ClassVar[Mapping[str, tuple[str, str]]] = {}  # by variable: its text and source
    warnings: ClassVar[tuple[str, ...]] = ()  # of the environment's variables

    data: Path = setting("data", readers.folder, "folder of the tenants' files")
    database: str = secret(
        "", readers.database, "PostgreSQL for new tenants: postgresql://…; else files"
    )
    database_connections: int = setting(
        "10", readers.number(1), "connections to PostgreSQL of each process at most"
    )
    base_domain: str = setting("localhost", readers.domain, "tenants live at <label>.<base domain>")
    tenant: str | None = setting(
        "", readers.label, "serve this one tenant on every host, for a bare address"
    )
    signup: bool = setting(
        "open",
        readers.switch("open", "closed"),
        "may strangers open a tenant; closed with CRM_TENANT",
    )
    public_url: str = setting(
        "", readers.template, "template of links, with {label}; by default the base"
    )
    plans: dict[str, int] = setting("", readers.plans, "requests a minute per plan, 0 for no limit")
    contacts: dict[str, int] = setting(
        "200", readers.contacts, "contacts of a client at most, per plan"
    )
    storage: dict[str, int] = setting(
        "", readers.storage, "megabytes of a tenant's file per plan, 0 for no limit"
    )
    trusted_proxies: int = setting(
        "0", readers.number(0), "how many proxies in front add X-Forwarded-*"
    )
    max_idle_connections: int = setting(
        "256", readers.number(0), "connections to tenants' files kept open when idle"
    )
    webhook_allow: Allow = setting("", readers.allow, "hosts and networks that webhooks may call")
    port: int = setting("8000", readers.port, "port of `serve`, and in the links")
    sms: str = setting(
        "console",
        readers.choice("console", "turbosms", "http"),
        "who sends SMS: console, turbosms or http",
    )
    sms_token: str = secret("", readers.word, "key of TurboSMS")
    sms_sender: str = setting("", readers.line, "the sender's name at TurboSMS")
    sms_url: str = secret("", readers.gateway, "gateway of http, with {phone} and {text}")
    sms_headers: dict[str, str] = secret("", readers.headers, "headers for http, as a JSON object")
    sms_body: str = secret("", str.strip, "body for http, with {phone} and {text}")
    sms_limits: dict[str, int] = setting(
        "", readers.sms_limits, "how many SMS may be sent: day=1000,tenant=100,…"
    )
    mail: MailServer | None = secret(
        "console", readers.mail, "who takes e-mail: console or smtp://…"
    )
    mail_from: Address | None = setting(
        "", readers.mail_from, "the sender of e-mails, with CRM_MAIL"
    )
    telegram_token: str = secret("", readers.word, "token of the bot that sends alerts")
    telegram_api: str = setting(
        "https://api.telegram.org", readers.template, "where its HTTP API is"
    )
    log: str = setting(
        "requests",
        readers.choice("requests", "warnings"),
        "lines of `serve`: requests, or warnings alone",
    )

    def __post_init__(self) -> None:
        if self.tenant:
            object.__setattr__(self, "signup", False)  # no other tenant could be reached
        if self.sms == "turbosms" and not (self.sms_token and self.sms_sender):
            raise ConfigError("CRM_SMS=turbosms: it needs CRM_SMS_TOKEN and CRM_SMS_SENDER")
        if self.sms == "http":
            readers.check_gateway(self.sms_url, self.sms_headers, self.sms_body)
        if self.mail and not self.mail_from:
            raise ConfigError("CRM_MAIL=smtp: it needs CRM_MAIL_FROM")

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str] = os.environ,
        config: Path | None = None,
        defaults: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> "Config":
        """Read the settings: `overrides` (the command line) first, then environment, then file.

        `defaults` replace the usual defaults. The file is `config`, else what CRM_CONFIG names,
        else `crm.env` in the data folder if it is there. Raises ConfigError naming the variable
        and what it should look like.
        """
        variables = _variables()
        values = {name: value for name, value in overrides.items() if value is not None}
        origins = {
            env: (str(values[setting.name]), "command line")
            for env, setting in variables.items()
            if setting.name in values
        }

        def add_values(texts: Mapping[str, str], source: str) -> None:
            for env, setting in variables.items():
                if env in texts and env not in origins:
                    name = env if source == ENVIRONMENT else f"{source}: {env}"
                    values[setting.name] = _read(setting, name, texts[env])
                    origins[env] = texts[env], source

        for removed in filter(None, map(describe_removed, environ)):
            raise ConfigError(removed)
        add_values(environ, ENVIRONMENT)
        named_file = config or environ.get("CRM_CONFIG")
        path = Path(named_file).expanduser().absolute() if named_file else None
        defaults = defaults or {}
        folder = values.get("data") or defaults.get("data") or cls().data
        if path is None and file.exists(folder / file.NAME):
            path = folder / file.NAME
        if path is not None:
            add_values(file.read(path, variables), str(path))
        settings = cls(**{**defaults, **values})
        warnings = file.find_misspelt(environ, [*variables, "CRM_CONFIG"])
        vars(settings).update(file=path, origins=origins, warnings=warnings)
        return settings

    @classmethod
    def read(cls, **values: Any) -> dict[str, Any]:
        """Return settings given in Python code; texts are read as in the environment.

        Raises ConfigError for an unknown name or an invalid text.
        """
        known = {setting.name: setting for setting in fields(cls)}
        for name, value in values.items():
            if name not in known:
                removed = describe_removed(f"CRM_{name.upper()}")
                raise ConfigError(removed or f"{name}: it is none of {', '.join(known)}")
            if isinstance(value, str):
                values[name] = _read(known[name], name, value)
        return values

    def describe(self) -> Iterator[SettingStatus]:
        """Yield every setting with its value and source, in the order above."""
        for env, setting in _variables().items():
            default, meaning = setting.metadata["default"], setting.metadata["meaning"]
            text, source = self.origins.get(env, (default, "default"))
            shown_text = str(self.data) if env == "CRM_DATA" else text
            hidden = setting.metadata["secret"] and text != default
            yield SettingStatus(env, shown_text, source, meaning, hidden)

    @cached_property
    def smallest_quota(self) -> int:
        """The smallest storage of any plan in megabytes; 0 if no plan has a limit."""
        return min(filter(None, self.storage.values()), default=0)

    def url_of(self, label: str) -> str:
        """Return the public URL of a tenant, without a slash at the end (D18)."""
        template = self.public_url or f"http://{{label}}.{self.base_domain}:{self.port}"
        return template.replace("{label}", label)

    @property
    def base_url(self) -> str:
        """The public URL of the base host, without a slash at the end."""
        if "{label}." in self.public_url:
            return self.public_url.replace("{label}.", "")
        return f"http://{self.base_domain}:{self.port}"


def _variables() -> dict[str, Field[Any]]:
    """The settings by their variables in the environment, in the order above."""
    return {f"CRM_{setting.name.upper()}": setting for setting in fields(Config)}


def _read(setting: Field[Any], name: str, text: str) -> Any:
    """Return the value of a setting's text. Raises ConfigError, without the text of a secret."""
    try:
        return setting.metadata["read"](text)
    except ValueError as error:
        value = "" if setting.metadata["secret"] else f"={text[:100]!r}"
        raise ConfigError(f"{name}{value}: it {error}") from None


def environ_with(path: Path) -> dict[str, str]:
    """The environment with the settings of a file, if it is there, to start a program with.

    Raises ConfigError.
    """
    return {**os.environ, **(file.read(path, _variables()) if file.exists(path) else {})}
