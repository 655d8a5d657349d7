"""Plots as SVG: horizontal bars for names, vertical bars for days and months.

A plot names classes for its colours and no style; it is as wide as the page allows, so texts stay
large enough at 360 units on a phone. For screen readers it has a title and a description, and the
page has a table made of the same rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

WIDTH = 360
LETTER = 7  # units that a letter takes, roughly
LINE = 17
LONGEST = WIDTH // LETTER  # letters of a line
ROW, BAR = 52, 12  # heights of a horizontal bar with its texts, and of the bar itself
HEIGHT, FOOT, HEAD = 190, 20, 10  # of a plot with vertical bars


@dataclass(frozen=True, slots=True)
class Bar:
    """One horizontal bar: its name and length, a note below it, and the page it links to."""

    name: str
    count: int
    note: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The vertical bars of one day or month, one bar for each series.

    `mark` is the short name on the axis, empty for none; `counts` and `paths` are in the order of
    the series, `paths` being the pages that the bars link to.
    """

    name: str
    mark: str
    counts: tuple[int, ...]
    paths: tuple[str, ...] = ()


def draw_horizontal_bars(
    id: str, title: str, about: str, bars: Sequence[Bar], format_number: Callable
) -> Markup:
    """Draw horizontal bars, one below the other. `format_number` turns a count into a text."""
    height = ROW if any(bar.note for bar in bars) else ROW - LINE
    svg = _plot(id, title, about, height * len(bars), any(bar.path for bar in bars))
    max_count = max([bar.count for bar in bars], default=0) or 1
    for place, bar in enumerate(bars):
        top, count = place * height, format_number(bar.count)
        group = _group(svg, f"{bar.name}: {count}", bar.path)
        if bar.path:
            _box(group, "plot-hit", 0, top, WIDTH, height - 2)
        name = _cut(bar.name, LONGEST - len(count) - 2)
        _write(group, name, 0, top + 11)
        _write(group, count, WIDTH, top + 11, "plot-count", "end")
        _box(group, "plot-ground", 0, top + 15, WIDTH, BAR)
        _box(group, "plot-bar", 0, top + 15, WIDTH * bar.count / max_count, BAR)
        if bar.note:
            _write(group, _cut(bar.note, LONGEST), 0, top + 39, "plot-note")
    return _drawn(svg)


def draw_vertical_bars(
    id: str,
    title: str,
    about: str,
    series: Sequence[tuple[str, str]],
    columns: Sequence[Column],
    format_number: Callable,
) -> Markup:
    """Draw vertical bars; `series` are (name, CSS class), with a legend if there are several.

    `format_number` turns a count into a text.
    """
    several = len(series) > 1
    height = HEIGHT + (LINE + 4 if several else 0)
    svg = _plot(id, title, about, height, any(column.paths for column in columns))
    top = _round(max((count for column in columns for count in column.counts), default=0))
    left = LETTER * len(format_number(top)) + 6
    floor, tall = HEIGHT - FOOT, HEIGHT - FOOT - HEAD
    for mark in (0, top // 2, top) if top % 2 == 0 else (0, top):
        y = floor - tall * mark / top
        ends = {"x1": left, "x2": WIDTH, "y1": y, "y2": y}
        SubElement(svg, "line", {"class": "plot-line", **_texts(ends)})
        _write(svg, format_number(mark), left - 6, y + 4, "plot-mark", "end")
    step = (WIDTH - left) / max(1, len(columns))
    thick = step * 0.76 / len(series)
    # The last mark ends where the plot does, so half a mark more is kept free before it.
    longest = max([len(column.mark) for column in columns], default=1)
    apart = math.ceil(longest * LETTER * 1.5 / step)
    for place, column in enumerate(columns):
        begin = left + place * step + step * 0.12
        for nth, ((name, kind), count) in enumerate(zip(series, column.counts, strict=False)):
            label = f"{name}, {column.name}" if several else column.name
            path = column.paths[nth] if column.paths else ""
            group = _group(svg, f"{label}: {format_number(count)}", path, in_tab_order=False)
            high = tall * count / top
            if path:  # a low bar alone is no place to click
                _box(group, "plot-hit", begin + nth * thick, HEAD, thick, tall)
            _box(group, kind, begin + nth * thick, floor - high, thick, high)
        if (len(columns) - 1 - place) % apart == 0:
            is_last = place == len(columns) - 1
            at, anchor = (WIDTH, "end") if is_last else (begin + step * 0.38, "middle")
            _write(svg, column.mark, at, HEIGHT - 5, "plot-mark", anchor)
    if several:
        begin = left
        for name, kind in series:
            _box(svg, kind, begin, HEIGHT + 5, 11, 11)
            _write(svg, name, begin + 17, HEIGHT + 15)
            begin += 17 + LETTER * (len(name) + 3)
    return _drawn(svg)


def _plot(id: str, title: str, about: str, height: int, has_links: bool) -> Element:
    svg = Element(
        "svg",
        {
            "class": "plot",
            "viewBox": f"0 0 {WIDTH} {height}",
            "role": "group" if has_links else "img",  # what is in an image is hidden from readers
            "aria-labelledby": f"{id}-title {id}-about",
        },
    )
    SubElement(svg, "title", {"id": f"{id}-title"}).text = title
    SubElement(svg, "desc", {"id": f"{id}-about"}).text = about
    return svg


def _group(svg: Element, text: str, path: str, in_tab_order: bool = True) -> Element:
    """The parts of a bar, which is a link if it has a path.

    `in_tab_order=False` spares people at a keyboard thirty stops: the table has the same links.
    """
    parent = svg
    if path:
        about = {"href": path, "aria-label": text, **({} if in_tab_order else {"tabindex": "-1"})}
        parent = SubElement(svg, "a", about)
    group = SubElement(parent, "g")
    SubElement(group, "title").text = text
    return group


def _write(
    parent: Element, text: str, x: float, y: float, kind: str = "plot-text", anchor: str = "start"
) -> None:
    place = {"x": x, "y": y, "class": kind, "text-anchor": anchor}
    SubElement(parent, "text", _texts(place)).text = text


def _box(parent: Element, kind: str, x: float, y: float, width: float, height: float) -> None:
    place = {"class": kind, "x": x, "y": y, "width": width, "height": height}
    SubElement(parent, "rect", _texts(place))


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else f"{round(value, 2):g}"
        for name, value in values.items()
    }


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"


def _round(most: int) -> int:
    """A round number not below it: 1, 2, 4, 6, 10, 20, 40, 60, 100 …"""
    unit = 1
    while most > 10 * unit:
        unit *= 10
    return next(unit * step for step in (1, 2, 4, 6, 10) if unit * step >= most)


def _drawn(svg: Element) -> Markup:
    # tostring has escaped every text; XML's own control characters were refused when stored.
    return Markup(tostring(svg, encoding="unicode"))
