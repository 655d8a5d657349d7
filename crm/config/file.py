"""The settings file: `NAME=value` lines, as in systemd's EnvironmentFile.

python-dotenv parses them: quotes, values of several lines; `$NAME` is not replaced. As systemd has
it, a comment is a line of its own, and a value goes on behind a `#`. Nothing in the file is
ignored: a line that is no setting and an unknown name are errors.
"""

import io
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

from dotenv.parser import parse_stream

from crm.config.removed import describe_removed

NAME = "crm.env"  # in the data folder, unless another file is named


class ConfigError(Exception):
    """A setting has a value that cannot work. The text is one line for the operator."""


def exists(path: Path) -> bool:
    """Return whether the file is there, or may be: reading it then shows what is wrong."""
    try:
        path.stat()
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))
    return True


def read(path: Path, known: Collection[str]) -> dict[str, str]:
    """Return the settings of a file by their names, which must be among the known ones.

    Raises ConfigError, which shows no value because it may be a secret.
    """
    settings: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(_read_text(path))):
        blank = len(binding.original.string) - len(binding.original.string.lstrip())
        line = binding.original.line + binding.original.string.count("\n", 0, blank)
        place = f"{path}, line {line}"
        if binding.error or (binding.key is not None and binding.value is None):
            raise ConfigError(f"{place}: it is no NAME=value, or its quote does not end")
        if binding.key is None or binding.value is None:
            continue
        if binding.key not in known:
            reason = describe_removed(binding.key) or _describe_unknown(binding.key, known)
            raise ConfigError(f"{place}: {reason}")
        if binding.key in settings:
            raise ConfigError(f"{place}: {binding.key} is there twice")
        settings[binding.key] = _value(binding.original.string, binding.value, place)
    return settings


def _value(line: str, value: str, place: str) -> str:
    """Return the value of a line as systemd reads it, where python-dotenv ends it at a comment."""
    text = line.partition("=")[2].strip()
    if not text.startswith(("'", '"')):
        return text
    if not text.endswith(text[0]):
        raise ConfigError(f"{place}: a comment needs a line of its own")
    return value


def quote(text: str) -> str:
    """Return a value as it is written in such a file; nearly always a shell reads it alike."""
    if not set(text) - _PLAIN:
        return text
    if not set(text) & {"'", "\\"}:
        return f"'{text}'"
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%")


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ConfigError(f"{path}: it cannot be read: {reason}") from None


def find_misspelt(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return a line for each CRM_… name that is unknown and looks like a known one.

    Others may be variables of other programs.
    """
    unknown = [name for name in names if name.startswith("CRM_") and name not in known]
    lines = (_describe_unknown(name, known) for name in unknown)
    return tuple(line for line in lines if line.endswith("?"))


def _describe_unknown(name: str, known: Collection[str]) -> str:
    similar = get_close_matches(name.upper(), known, 1, 0.75)
    question = f", did you mean {similar[0]}?" if similar else ""
    # A line that is no variable may be a lost secret.
    shown_name = name if name.isidentifier() and name.isupper() else "this"
    return f"{shown_name} is no setting{question}"
