"""Every setting of an installation: name, default, meaning. The only reader of the environment.

A bad value stops the start with one clear line (`ConfigError`).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PLANS = {"start": 60, "base": 300, "pro": 1000, "business": 5000}  # spec: Limits, requests a minute
COUNT = re.compile(r"[0-9]{1,9}\Z")
LABEL = re.compile(r"(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")


class ConfigError(Exception):
    """A setting has a value that cannot work. The text is one line for the operator."""


def _folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("is the path of a folder")
    return Path(text).expanduser().absolute()


def _domain(text: str) -> str:
    domain = text.strip().strip(".").lower()
    if not domain or not all(LABEL.match(part) for part in domain.split(".")):
        raise ValueError("is a domain such as crm.example.ua")
    return domain


def _label(text: str) -> str | None:
    if text and not LABEL.match(text):
        raise ValueError("is a tenant's label: Latin letters, digits and hyphen")
    return text or None


def _plans(text: str) -> dict[str, int]:
    plans = dict(PLANS)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        if name.strip() not in PLANS or not COUNT.match(number.strip()):
            raise ValueError(f"looks like business=0,base=600, with plans {', '.join(PLANS)}")
        plans[name.strip()] = int(number)
    return plans


def _template(text: str) -> str:
    if text and not re.match(r"https?://(?!/|\Z)[^\s{}]*(\{label\})?[^\s{}]*\Z", text):
        raise ValueError("looks like https://{label}.crm.example.ua")
    return text.rstrip("/")


def _count(text: str) -> int:
    if not COUNT.match(text.strip()):
        raise ValueError("is a whole number, 0 or more")
    return int(text)


def _port(text: str) -> int:
    if not COUNT.match(text.strip()) or not 1 <= int(text) <= 65535:
        raise ValueError("is a whole number from 1 to 65535")
    return int(text)


def _setting(env: str, default: str, read: Callable[[str], Any], meaning: str) -> Any:
    return field(
        default_factory=lambda: read(default),
        metadata={"env": env, "default": default, "read": read, "meaning": meaning},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings. `Config.load()` reads the environment, `Config(data=…)` serves tests."""

    data: Path = _setting("CRM_DATA", "data", _folder, "folder of the tenants' files")
    base_domain: str = _setting(
        "CRM_BASE_DOMAIN", "localhost", _domain, "tenants live at <label>.<base domain>"
    )
    tenant: str | None = _setting(
        "CRM_TENANT", "", _label, "serve this one tenant on every host, for a bare address"
    )
    public_url: str = _setting(
        "CRM_PUBLIC_URL", "", _template, "template of links, with {label}; by default the base"
    )
    plans: dict[str, int] = _setting(
        "CRM_PLANS", "", _plans, "requests a minute per plan, 0 for no limit (D13)"
    )
    trusted_proxies: int = _setting(
        "CRM_TRUSTED_PROXIES", "0", _count, "how many proxies in front add X-Forwarded-*"
    )
    open_files: int = _setting(
        "CRM_OPEN_FILES", "256", _count, "connections to tenants' files kept open when idle"
    )
    port: int = _setting("CRM_PORT", "8000", _port, "port of `serve`, and in the links")

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ, **given: Any) -> "Config":
        """Settings from the environment; `given` values (the command line's) come first.

        Raises ConfigError naming the variable and what it should look like.
        """
        values = {name: value for name, value in given.items() if value is not None}
        for setting in fields(cls):
            env = setting.metadata["env"]
            if setting.name in values or env not in environ:
                continue
            try:
                values[setting.name] = setting.metadata["read"](environ[env])
            except ValueError as error:
                raise ConfigError(f"{env}={environ[env][:100]!r}: it {error}") from None
        return cls(**values)

    def url_of(self, label: str) -> str:
        """The public address of a tenant, without a slash at the end (D18)."""
        template = self.public_url or f"http://{{label}}.{self.base_domain}:{self.port}"
        return template.replace("{label}", label)
