"""Every setting of an installation: name, default, meaning. Nothing else reads the environment.

An invalid value raises ConfigError, a line for the operator.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from email.headerregistry import Address
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from crm.config import file, readers
from crm.config.file import ConfigError
from crm.config.readers import (
    COUNT,
    FORM,
    HOST_PORT,
    JSON,
    LABEL,
    LOOPBACK,
    MAX_CONTACTS,
    PLACEHOLDER,
    PLANS,
    SMS_LIMITS,
    STORAGE,
    XML,
    Allow,
    MailServer,
    RedisAddress,
    body_type,
    fill_template,
    normalize_host,
)

__all__ = [
    "COUNT",
    "FORM",
    "HOST_PORT",
    "JSON",
    "LABEL",
    "LOOPBACK",
    "MAX_CONTACTS",
    "PLANS",
    "SMS_LIMITS",
    "STORAGE",
    "XML",
    "Allow",
    "Config",
    "ConfigError",
    "MailServer",
    "RedisAddress",
    "body_type",
    "fill_template",
    "normalize_host",
]

ENVIRONMENT = "environment"


class SettingStatus(NamedTuple):
    """A setting's current value as text. `hidden`: it is a secret and must not be shown."""

    env: str
    text: str
    source: str  # "default", "environment", "command line", or the path of the file
    meaning: str
    hidden: bool


def _read(metadata: Mapping[str, Any], name: str, text: str) -> Any:
    """Return the value of a setting's text. Raises ConfigError, without the text of a secret."""
    try:
        return metadata["read"](text)
    except ValueError as error:
        value = "" if metadata["secret"] else f"={text[:100]!r}"
        raise ConfigError(f"{name}{value}: it {error}") from None


def _is_installed(package: str) -> bool:
    """Whether a package can be imported; a folder of that name without one is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def _setting(
    env: str, default: str, read: Callable[[str], Any], meaning: str, *, secret: bool = False
) -> Any:
    metadata = {"env": env, "default": default, "read": read, "meaning": meaning, "secret": secret}
    return field(default_factory=lambda: read(default), repr=not secret, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings: `Config.load()` reads environment and file, `Config(data=…)` has defaults."""

    file: ClassVar[Path | None] = None  # the settings file that was read
    origins: ClassVar[Mapping[str, tuple[str, str]]] = {}  # by variable: its text and source

    data: Path = _setting("CRM_DATA", "data", readers.folder, "folder of the tenants' files")
    database: tuple[str, ...] = _setting(
        "CRM_DATABASE",
        "",
        readers.databases,
        "PostgreSQL for new tenants: postgresql://…, several with spaces; else files",
        secret=True,
    )
    database_connections: int = _setting(
        "CRM_DATABASE_CONNECTIONS",
        "10",
        readers.positive,
        "connections to each PostgreSQL database of each process at most",
    )
    database_roles: bool = _setting(
        "CRM_DATABASE_ROLES",
        "off",
        readers.switch,
        "give each tenant in PostgreSQL a role of its own: on or off",
    )
    base_domain: str = _setting(
        "CRM_BASE_DOMAIN", "localhost", readers.domain, "tenants live at <label>.<base domain>"
    )
    tenant: str | None = _setting(
        "CRM_TENANT", "", readers.label, "serve this one tenant on every host, for a bare address"
    )
    signup: bool = _setting(
        "CRM_SIGNUP", "open", readers.signup, "may strangers open a tenant; closed with CRM_TENANT"
    )
    public_url: str = _setting(
        "CRM_PUBLIC_URL",
        "",
        readers.template,
        "template of links, with {label}; by default the base",
    )
    plans: dict[str, int] = _setting(
        "CRM_PLANS", "", readers.plans, "requests a minute per plan, 0 for no limit"
    )
    contacts: dict[str, int] = _setting(
        "CRM_CONTACTS", "200", readers.contacts, "contacts of a client at most, per plan"
    )
    storage: dict[str, int] = _setting(
        "CRM_STORAGE", "", readers.storage, "megabytes of a tenant's file per plan, 0 for no limit"
    )
    limits: RedisAddress | None = _setting(
        "CRM_LIMITS",
        "",
        readers.redis,
        "redis://… that counts limits for several machines; by default each counts its own",
        secret=True,
    )
    trusted_proxies: int = _setting(
        "CRM_TRUSTED_PROXIES", "0", readers.count, "how many proxies in front add X-Forwarded-*"
    )
    max_idle_connections: int = _setting(
        "CRM_MAX_IDLE_CONNECTIONS",
        "256",
        readers.count,
        "connections to tenants' files kept open when idle",
    )
    webhook_allow: Allow = _setting(
        "CRM_WEBHOOK_ALLOW", "", readers.allow, "hosts and networks that webhooks may call"
    )
    port: int = _setting("CRM_PORT", "8000", readers.port, "port of `serve`, and in the links")
    sms: str = _setting(
        "CRM_SMS", "console", readers.sms_provider, "who sends SMS: console, turbosms or http"
    )
    sms_token: str = _setting("CRM_SMS_TOKEN", "", readers.word, "key of TurboSMS", secret=True)
    sms_sender: str = _setting("CRM_SMS_SENDER", "", readers.line, "the sender's name at TurboSMS")
    sms_url: str = _setting(
        "CRM_SMS_URL", "", readers.gateway, "gateway of http, with {phone} and {text}", secret=True
    )
    sms_headers: dict[str, str] = _setting(
        "CRM_SMS_HEADERS", "", readers.headers, "headers for http, as a JSON object", secret=True
    )
    sms_body: str = _setting(
        "CRM_SMS_BODY", "", str.strip, "body for http, with {phone} and {text}", secret=True
    )
    sms_limits: dict[str, int] = _setting(
        "CRM_SMS_LIMITS", "", readers.sms_limits, "how many SMS may be sent: day=1000,tenant=100,…"
    )
    mail: MailServer | None = _setting(
        "CRM_MAIL", "console", readers.mail, "who takes e-mail: console or smtp://…", secret=True
    )
    mail_from: Address | None = _setting(
        "CRM_MAIL_FROM", "", readers.mail_from, "the sender of e-mails, with CRM_MAIL"
    )
    log: str = _setting(
        "CRM_LOG", "requests", readers.log, "lines of `serve`: requests, or warnings alone"
    )

    def __post_init__(self) -> None:
        if self.tenant:
            object.__setattr__(self, "signup", False)  # no other tenant could be reached
        if self.sms == "turbosms" and not (self.sms_token and self.sms_sender):
            raise ConfigError("CRM_SMS=turbosms: it needs CRM_SMS_TOKEN and CRM_SMS_SENDER")
        if self.sms == "http":
            self._check_gateway()
        if self.mail and not self.mail_from:
            raise ConfigError("CRM_MAIL=smtp: it needs CRM_MAIL_FROM")
        if self.limits and not _is_installed("redis"):
            raise ConfigError("CRM_LIMITS needs the extra `redis`: pip install 'crm[redis]'")

    def _check_gateway(self) -> None:
        if not self.sms_url:
            raise ConfigError("CRM_SMS=http: it needs CRM_SMS_URL")
        placeholders = set(
            PLACEHOLDER.findall("".join((self.sms_url, *self.sms_headers.values(), self.sms_body)))
        )
        if "text" not in placeholders or not placeholders & {"phone", "digits"}:
            raise ConfigError(
                "CRM_SMS=http: it needs {phone} and {text} in CRM_SMS_URL or CRM_SMS_BODY"
            )
        content_type = body_type(self.sms_headers, self.sms_body)
        if content_type not in (JSON, FORM, *XML):
            raise ConfigError("CRM_SMS_HEADERS: its Content-Type is neither JSON, a form nor XML")
        if self.sms_body and content_type == JSON:
            try:
                json.loads(
                    fill_template(self.sms_body, {"phone": "+1", "digits": "1", "text": "a"})
                )
            except (ValueError, RecursionError):
                raise ConfigError(
                    "CRM_SMS_BODY: it is no JSON once {phone} and {text} are filled in: quote them"
                ) from None

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
        values = {name: value for name, value in overrides.items() if value is not None}
        origins = {
            setting.metadata["env"]: (str(values[setting.name]), "command line")
            for setting in fields(cls)
            if setting.name in values
        }

        def add_values(texts: Mapping[str, str], source: str) -> None:
            for setting in fields(cls):
                env = setting.metadata["env"]
                if setting.name not in values and env in texts:
                    name = env if source == ENVIRONMENT else f"{source}: {env}"
                    values[setting.name] = _read(setting.metadata, name, texts[env])
                    origins[env] = texts[env], source

        add_values(environ, ENVIRONMENT)
        named_file = config or environ.get("CRM_CONFIG")
        path = Path(named_file).expanduser().absolute() if named_file else None
        defaults = defaults or {}
        folder = values.get("data") or defaults.get("data") or cls().data
        if path is None and file.exists(folder / file.NAME):
            path = folder / file.NAME
        if path is not None:
            texts = file.read(path, [setting.metadata["env"] for setting in fields(cls)])
            names_data = not named_file and "CRM_DATA" in texts
            if names_data and readers.folder(texts["CRM_DATA"]) != folder:
                raise ConfigError(
                    f"{path}: CRM_DATA names another folder than the one that this file is in"
                )
            add_values(texts, str(path))
        settings = cls(**{**defaults, **values})
        object.__setattr__(settings, "file", path)
        object.__setattr__(settings, "origins", origins)
        return settings

    @classmethod
    def read(cls, **values: Any) -> dict[str, Any]:
        """Return settings given in Python code; texts are read as in the environment.

        Raises ConfigError for an unknown name or an invalid text.
        """
        known = {setting.name: setting.metadata for setting in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise ConfigError(f"{name}: it is none of {', '.join(known)}")
            if isinstance(value, str):
                values[name] = _read(known[name], name, value)
        return values

    def describe(self) -> list[SettingStatus]:
        """Return every setting with its value and source, in the order above."""
        statuses = []
        for setting in fields(self):
            metadata = setting.metadata
            text, source = self.origins.get(metadata["env"], (metadata["default"], "default"))
            if metadata["env"] == "CRM_DATA":
                text = str(self.data)
            hidden = metadata["secret"] and text != metadata["default"]
            statuses.append(
                SettingStatus(metadata["env"], text, source, metadata["meaning"], hidden)
            )
        return statuses

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
