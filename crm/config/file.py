"""The file of settings: `NAME=value` lines as systemd's EnvironmentFile has them.

python-dotenv reads them: comments, quotes, values of several lines; nothing is put in for `$NAME`.
What it says is never ignored: a line that is none and an unknown name are errors.
"""

import io
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from dotenv.parser import parse_stream

NAME = "crm.env"  # in the data folder, unless another file is named


class ConfigError(Exception):
    """A setting has a value that cannot work. The text is one line for the operator."""


def exists(path: Path) -> bool:
    """Is it there? One that cannot be seen is: to read it tells why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read(path: Path, known: Collection[str]) -> dict[str, str]:
    """The settings of a file by their names. Raises ConfigError, which shows no value."""
    found: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(_text(path))):
        blank = len(binding.original.string) - len(binding.original.string.lstrip())
        number = binding.original.line + binding.original.string.count("\n", 0, blank)
        place = f"{path}, line {number}"
        if binding.error or (binding.key is not None and binding.value is None):
            raise ConfigError(f"{place}: it is no NAME=value, or its quote does not end")
        if binding.key is None or binding.value is None:
            continue
        if binding.key not in known:
            raise ConfigError(f"{place}: {_unknown(binding.key, known)}")
        if binding.key in found:
            raise ConfigError(f"{place}: {binding.key} is there twice")
        found[binding.key] = binding.value
    return found


def quote(text: str) -> str:
    """A value as it stands in such a file; nearly always as a shell takes it, too."""
    if text and text.isascii() and not set(text) - _PLAIN:
        return text
    if not text:
        return ""
    if any(sign in text for sign in _ESCAPES) or ("'" in text and not set("$`") & set(text)):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        for sign, letter in _ESCAPES.items():
            escaped = escaped.replace(sign, f"\\{letter}")
        return f'"{escaped}"'
    if "\\\\" in text or "\\'" in text or text.endswith("\\"):
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "\\'") + "'"


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%")
_ESCAPES = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}


def _text(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no file"
        raise ConfigError(f"{path}: it cannot be read: {why}") from None
    if "\0" in text:
        raise ConfigError(f"{path}: it is no text")
    return text


def _unknown(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name.upper(), known, 1, 0.75)
    more = f", did you mean {near[0]}?" if near else ""
    shown = name if name.isidentifier() and name.isupper() else "this"  # it may be a lost secret
    return f"{shown} is no setting{more}"
