"""The languages of the pages: which one a reader gets, and the texts in it, by gettext catalogs.

The texts in code, in templates and in `texts.toml`, which has those that are found by a code, are
English; `translations/uk/*.po` have the Ukrainian ones, a page of them for each subject. They are
read as they stand: no compiled file lies beside them.

Babel is used directly: some packages (Flask-Admin) change their behaviour as soon as flask_babel
can be imported, so installing the CRM into a site must not bring it.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from gettext import c2py
from importlib import resources
from typing import Any
from urllib.parse import quote

import orjson
from babel import Locale, dates
from flask import Flask, g, has_app_context, has_request_context, request
from jinja2 import pass_eval_context
from jinja2.nodes import EvalContext
from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.records.columns import N_ as N_  # pages import it from here, beside gettext()

TEXTS: dict[str, Any] = tomllib.loads(
    (resources.files("crm.cabinet") / "texts.toml").read_text("utf-8")
)
LANGUAGES = {"uk": "Українська", "en": "English"}
DEFAULT = "uk"
COOKIE = "crm_language"
PO_STRING = re.compile(r'^(msgid|msgid_plural|msgstr(?:\[\d\])?) (".*")', re.M)
A_YEAR = 365 * 86_400  # seconds


def install(app: Flask) -> None:
    """Translate the texts of the app's templates: `_()`, `gettext()`, `ngettext()`, `trans`."""
    environment: Any = app.jinja_env  # the extension adds methods to it
    environment.add_extension("jinja2.ext.i18n")
    # Not by the extension: what it installs copies the context for each text in a loop.
    environment.newstyle_gettext = True
    functions = {"_": _translate, "gettext": _translate, "ngettext": _translate_plural}
    environment.globals.update(functions, LANGUAGES=LANGUAGES, language=language)


@pass_eval_context
def _translate(template: EvalContext, text: str, **values: Any) -> str:
    if not values:
        return _translate_constant(_current(), text)
    translated = _catalog().gettext(text)
    return (Markup(translated) if template.autoescape else translated) % values


@cache
def _translate_constant(language: str, text: str) -> Markup:
    return Markup(catalog(language).gettext(text) % ())


@pass_eval_context
def _translate_plural(
    template: EvalContext, singular: str, plural: str, num: int, **values: Any
) -> str:
    translated = _catalog().ngettext(singular, plural, num)
    return (Markup(translated) if template.autoescape else translated) % {"num": num, **values}


def language() -> str:
    """Return the language of the logged-in user, else what was chosen in this browser, else the
    first one that it asks for and we have, else Ukrainian."""
    session = g.get("session")
    preferred = (session and session.language) or request.cookies.get(COOKIE)
    if preferred not in LANGUAGES:
        preferred = request.accept_languages.best_match(LANGUAGES)
    return preferred or DEFAULT


def remember(response: Response, language: str) -> None:
    """Store the language in a cookie of this browser."""
    options: dict[str, Any] = {"httponly": True, "samesite": "Lax", "secure": request.is_secure}
    path = quote(request.root_path) or "/"
    response.set_cookie(COOKIE, language, max_age=A_YEAR, path=path, **options)


def gettext(text: str, **values: Any) -> str:
    """The text in the reader's language, with `values` in its places `%(name)s`."""
    translated = _catalog().gettext(text)
    return translated % values if values else translated


def coded_text(table: str, code: str) -> str:
    """Return the text that a table of `texts.toml` has for a code; the empty text for none."""
    text = TEXTS[table].get(code)
    return gettext(text) if text else ""


def ngettext(singular: str, plural: str, num: int, **values: Any) -> str:
    """The text for `num` things in the reader's language; `%(num)d` is a place too."""
    return _catalog().ngettext(singular, plural, num) % {"num": num, **values}


def get_locale() -> Locale:
    """Return the locale of the reader, for dates and numbers."""
    return _locale(_current())


_locale = cache(Locale.parse)


@contextmanager
def force_locale(language: str) -> Iterator[None]:
    """Translate the texts in the block into this language: they are for another user."""
    before = g.get("current_language")
    g.current_language = language
    try:
        yield
    finally:
        g.current_language = before


plural_rule = cache(c2py)  # all files of a language have the same


class Texts:
    """The texts of a language by the English ones; texts that it does not have stay English.

    `plural` returns which of the forms of a text is that of a number.
    """

    def __init__(self, language: str):
        folder = resources.files("crm.cabinet") / "translations" / language
        self._texts: dict[str, str] = {}
        self._plurals: dict[str, list[str]] = {}
        self.plural: Callable[[int], int] = lambda num: num != 1
        for page in folder.iterdir() if folder.is_dir() else ():
            if page.name.endswith(".po"):
                self._read(page.read_text("utf-8"))

    def _read(self, page: str) -> None:
        # Babel's reader makes an object of each text with its comments, which takes four times as
        # long; the first page of a process waits for this.
        for keyword, quoted in PO_STRING.findall(page.replace('"\n"', "")):
            text = orjson.loads(quoted)  # its escapes are those of JSON, too
            if keyword == "msgid":
                english = text
            elif keyword.startswith("msgstr["):
                self._plurals.setdefault(english, []).append(text)
            elif keyword == "msgstr" and english:
                self._texts[english] = text
            elif keyword == "msgstr":  # the first entry of a file is its header
                self.plural = plural_rule(text.partition("plural=")[2].partition(";")[0])

    def gettext(self, text: str) -> str:
        return self._texts.get(text) or text

    def ngettext(self, singular: str, plural: str, num: int) -> str:
        return self._plurals.get(singular, (singular, plural))[self.plural(num)]


catalog = cache(Texts)  # read once per process


def load_default() -> None:
    """Read the texts of the default language and its names of days: processes that are forked after
    that share them, and show their first page sooner."""
    catalog(DEFAULT)
    dates.get_day_names(locale=_locale(DEFAULT))


def _current() -> str:
    if not has_app_context():
        return DEFAULT
    current = g.get("current_language")
    if current is None:  # it is the same for all texts of a page
        current = g.current_language = language() if has_request_context() else DEFAULT
    return current


def _catalog() -> Texts:
    return catalog(_current())
