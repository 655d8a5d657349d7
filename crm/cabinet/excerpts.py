"""Excerpts of texts that match a search: the part around a word, with the word marked."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from crm.records import search
from crm.records.search import Word

LETTERS_BEFORE, LETTERS_AFTER = 40, 100  # of an excerpt, around the beginning of the first match

Span = tuple[int, int]  # from a place of a text until before another


def marked(text: str | None, words: Sequence[Word]) -> Markup:
    """The text with all matches of the words marked."""
    text = text or ""
    return _marked(text, _spans(text, words))


def marked_phone(number: str, written: str, words: Sequence[Word]) -> Markup:
    """A phone as people write it, with what matched of its E.164 form `number` marked.

    The digits of both agree from their ends: `067…` has a part of `+38067…` alone.
    """
    places = [at for at, character in enumerate(written) if character in "+0123456789"]
    missing = len(number) - len(places)
    inside = [(max(start - missing, 0), end - missing) for start, end in _spans(number, words)]
    return _marked(written, [(places[s], places[e - 1] + 1) for s, e in inside if s < e])


def excerpt(text: str | None, words: Sequence[Word]) -> Markup | None:
    """The part of a text around the first match, with all matches in it marked; None if none is."""
    text = " ".join((text or "").split())
    spans = _spans(text, words)
    if not spans:
        return None
    first, first_end = spans[0]
    begins = max(0, first - LETTERS_BEFORE)
    ends = min(len(text), max(first + LETTERS_AFTER, first_end))
    # Cut at the ends of words if there is a space in reach.
    if begins:
        begins = text.find(" ", begins, first) + 1 or begins
    if ends < len(text) and (space := text.rfind(" ", first_end, ends)) > 0:
        ends = space
    inside = [(max(start, begins), min(end, ends)) for start, end in spans]
    shifted = [(start - begins, end - begins) for start, end in inside if start < end]
    part = _marked(text[begins:ends].rstrip(), shifted)
    return Markup("{}{}{}").format("…" if begins else "", part, "…" if ends < len(text) else "")


def has_all(texts: Sequence[str | None], words: Sequence[Word]) -> bool:
    """Whether every word is in one of the texts."""
    folded = search.fold(*texts)
    return all(any(form in folded for form in word) for word in words)


def _spans(text: str, words: Sequence[Word]) -> list[Span]:
    """Where the words are, in order; what overlaps is one."""
    # The search compares folded texts, whose letters are at other places than in the original.
    folded, places = search.fold_letters(text)
    matches = []
    for form in {form for word in words for form in word}:
        at = folded.find(form)
        while at >= 0:
            matches.append((places[at], places[at + len(form) - 1] + 1))
            at = folded.find(form, at + len(form))
    joined: list[Span] = []
    for start, end in sorted(matches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _marked(text: str, spans: Sequence[Span]) -> Markup:
    parts, at = [], 0
    for start, end in spans:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
