"""The languages of the pages: which one a reader gets, and the texts in it, by gettext catalogs.

The texts in code, in templates and in `texts.toml`, which has those that are found by a code, are
English; `translations/uk/*.po` have the Ukrainian ones, a page of them for each subject. They are
read as they stand: no compiled file lies beside them.

Babel is used directly: some packages (Flask-Admin) change their behaviour as soon as flask_babel
can be imported, so installing the CRM into a site must not bring it.
"""

import io
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from babel import Locale, support
from babel.messages import Catalog, mofile, pofile
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
    translated = _catalog().ugettext(text)
    return (Markup(translated) if template.autoescape else translated) % values


@cache
def _translate_constant(language: str, text: str) -> Markup:
    return Markup(catalog(language).ugettext(text) % ())


@pass_eval_context
def _translate_plural(
    template: EvalContext, singular: str, plural: str, num: int, **values: Any
) -> str:
    translated = _catalog().ungettext(singular, plural, num)
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
    translated = _catalog().ugettext(text)
    return translated % values if values else translated


def coded_text(table: str, code: str) -> str:
    """Return the text that a table of `texts.toml` has for a code; the empty text for none."""
    text = TEXTS[table].get(code)
    return gettext(text) if text else ""


def ngettext(singular: str, plural: str, num: int, **values: Any) -> str:
    """The text for `num` things in the reader's language; `%(num)d` is a place too."""
    return _catalog().ungettext(singular, plural, num) % {"num": num, **values}


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


@cache
def catalog(language: str) -> support.NullTranslations:
    """Return all translations into a language, compiled once per process."""
    folder = resources.files("crm.cabinet") / "translations" / language
    messages, compiled = Catalog(locale=language), io.BytesIO()
    for page in folder.iterdir() if folder.is_dir() else ():
        if page.name.endswith(".po"):
            with page.open("rb") as text:
                for message in pofile.read_po(text, locale=language):
                    if message.id:  # the first entry of a file is its header
                        messages[message.id] = message
    mofile.write_mo(compiled, messages)
    compiled.seek(0)
    return support.Translations(compiled)


def _current() -> str:
    if not has_app_context():
        return DEFAULT
    current = g.get("current_language")
    if current is None:  # it is the same for all texts of a page
        current = g.current_language = language() if has_request_context() else DEFAULT
    return current


def _catalog() -> support.NullTranslations:
    return catalog(_current())
