"""Plots of the figures as SVG, in a light and a dark version, for crm/docs/speed.md."""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

# Okabe and Ito's colours, which people with any colour vision tell apart; darker or lighter where
# the background asks for it.
THEMES = {
    "light": {
        "background": "#ffffff", "text": "#1f2328", "faint": "#59636e", "line": "#d1d9e0",
        "series": ("#0072b2", "#bf5000", "#6e7781", "#007a5a", "#aa4a86"),
    },
    "dark": {
        "background": "#0d1117", "text": "#f0f6fc", "faint": "#9198a1", "line": "#3d444d",
        "series": ("#56b4e9", "#e69f00", "#9198a1", "#2dbd8d", "#dd8dba"),
    },
}  # fmt: skip
WIDTH = 840
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
SHOWN = ("CRM", "PocketBase", "c")  # the servers of the bars, in the order of the colours
PANELS = (
    ("Requests per second, longer is better", "requests_per_second", ""),
    ("CPU per request, shorter is better", "cpu_us", " µs"),
)


class Drawing:
    """An SVG picture with title and description, in the colours of a theme."""

    def __init__(self, theme: str, height: int, title: str, description: str):
        self.colours = THEMES[theme]
        self._svg = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {WIDTH} {height}",
                "width": str(WIDTH),
                "height": str(height),
                "role": "img",
                "aria-labelledby": "title description",
                "font-family": FONT,
                "font-size": "13",
            },
        )
        SubElement(self._svg, "title", {"id": "title"}).text = title
        SubElement(self._svg, "desc", {"id": "description"}).text = description
        self.box(0, 0, WIDTH, height, self.colours["background"], rx=6)

    def box(self, x: float, y: float, width: float, height: float, fill: str, **more: Any) -> None:
        self._add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def text(self, text: str, x: float, y: float, colour: str = "text", **more: Any) -> None:
        fill = self.colours.get(colour, colour)
        self._add("text", x=x, y=y, fill=fill, **more).text = text

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=self.colours["line"])

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """A line through the points, with a dot at each."""
        steps = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._add("polyline", points=steps, fill="none", stroke=colour, stroke_width=2)
        for x, y in points:
            self._add("circle", cx=x, cy=y, r=3.5, fill=colour)

    def _add(self, tag: str, **attributes: Any) -> Element:
        texts = {
            name.replace("_", "-"): value if isinstance(value, str) else _number(value)
            for name, value in attributes.items()
        }
        return SubElement(self._svg, tag, texts)

    def svg(self) -> str:
        indent(self._svg, " ")
        return tostring(self._svg, encoding="unicode") + "\n"


# Bars: requests per second and CPU per request


def describe_served(figures: dict[str, Any]) -> str:
    """The bars in words, for those who do not see them."""
    parts = []
    for operation in figures["servers"][SHOWN[0]]["operations"]:
        values = ", ".join(
            f"{name} {_measured(figures, name, operation, 'requests_per_second')} requests/s and"
            f" {_measured(figures, name, operation, 'cpu_us')} µs"
            for name in SHOWN
        )
        parts.append(f"{operation}: {values}")
    return "8 connections, CPU per request. " + "; ".join(parts) + "."


def draw_served(figures: dict[str, Any], theme: str) -> str:
    """Two panels of lying bars, one group for each operation, one bar for each server."""
    operations = list(figures["servers"][SHOWN[0]]["operations"])
    bar, gap, left, head, foot = 17, 16, 92, 84, 16
    group = bar * len(SHOWN) + gap
    height = head + group * len(operations) - gap + foot
    title = "Requests per second and CPU per request by operation"
    drawing = Drawing(theme, height, title, describe_served(figures))
    x = left
    for nth, name in enumerate(SHOWN):
        colour = drawing.colours["series"][nth]
        version = figures["servers"][name]["version"]
        label = {
            "CRM": "CRM, one process",
            "PocketBase": f"PocketBase {version}",
            "c": "c: Flask and sqlite3 under gunicorn",
        }[name]
        drawing.box(x, 16, 12, 12, colour, rx=2)
        drawing.text(label, x + 18, 27)
        x += 18 + 7.2 * len(label) + 22
    drawing.text("8 connections", WIDTH - 16, 27, "faint", text_anchor="end")
    for row, operation in enumerate(operations):
        middle = head + row * group + bar * len(SHOWN) / 2
        drawing.text(operation, left - 10, middle + 4, text_anchor="end")
    room = (WIDTH - left - 16) / 2
    for panel, (name, measure, unit) in enumerate(PANELS):
        begin = left + panel * room
        drawing.text(name, begin, 66, "faint")
        values = [
            figures["servers"][server]["operations"][operation]["8"][measure]
            for operation in operations
            for server in SHOWN
        ]
        scale = (room - 88) / max(values)  # 88: the value behind the longest bar, and a space
        for nth, value in enumerate(values):
            row, server = divmod(nth, len(SHOWN))
            y = head + row * group + server * bar
            length = max(1, value * scale)
            drawing.box(begin, y, length, bar - 3, drawing.colours["series"][server], rx=2)
            drawing.text(f"{value:,.0f}{unit}", begin + length + 6, y + 12, font_size=12)
        drawing.line(begin - 0.5, head - 6, begin - 0.5, height - foot + 2)
    return drawing.svg()


def _measured(figures: dict[str, Any], server: str, operation: str, measure: str) -> str:
    return f"{figures['servers'][server]['operations'][operation]['8'][measure]:,.0f}"


# Lines: growth with the number of leads


def describe_growth(figures: dict[str, Any]) -> str:
    """The lines in words, for those who do not see them."""
    rows = figures["rows"]
    parts = [
        f"{name} from {_time(values[0])} to {_time(values[-1])}"
        for name, values in figures["figures"].items()
    ]
    return f"Time of one call from {rows[0]:,} to {rows[-1]:,} leads: {'; '.join(parts)}."


def draw_growth(figures: dict[str, Any], theme: str) -> str:
    """A line for each operation over the number of leads; both axes are logarithmic."""
    rows, lines = figures["rows"], figures["figures"]
    left, right, top, floor, height = 76, 200, 58, 350, 390
    title = "Time of one call by the number of leads"
    drawing = Drawing(theme, height, title, describe_growth(figures))
    drawing.text(f"{title}, both axes logarithmic", left, 30, "faint")
    every = [value for values in lines.values() for value in values]
    marks = _marks(min(every), max(every))
    low, high = marks[0], marks[-1]

    def y_of(value: float) -> float:
        span = math.log10(high / low)
        return floor - (floor - top) * math.log10(value / low) / span

    def x_of(number: int) -> float:
        span = math.log10(rows[-1] / rows[0])
        return left + 24 + (WIDTH - left - right - 48) * math.log10(number / rows[0]) / span

    for mark in marks:
        drawing.line(left, y_of(mark), WIDTH - right, y_of(mark))
        drawing.text(_time(mark), left - 10, y_of(mark) + 4, "faint", text_anchor="end")
    for number in rows:
        drawing.text(f"{number:,}", x_of(number), floor + 24, "faint", text_anchor="middle")
    ends = _apart([y_of(values[-1]) for values in lines.values()], 18)
    colours = cycle(drawing.colours["series"])
    for (name, values), y, colour in zip(lines.items(), ends, colours, strict=False):
        points = [(x_of(number), y_of(value)) for number, value in zip(rows, values, strict=True)]
        drawing.path(points, colour)
        drawing.text(f"{name} {_time(values[-1])}", WIDTH - right + 8, y + 4, colour)
    return drawing.svg()


def _marks(least: float, most: float) -> list[float]:
    """1, 2, 5, 10, 20 … from the last not above `least` to the first not below `most`."""
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    low = max(step for step in steps if step <= least)
    high = min(step for step in steps if step >= most and step > low)
    return [step for step in steps if low <= step <= high]


def _apart(heights: list[float], least: float) -> list[float]:
    """The heights in their order, moved as little as it takes for labels not to overlap."""
    moved = list(heights)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    for _ in range(100):
        for upper, lower in zip(order, order[1:], strict=False):
            overlap = least - (moved[lower] - moved[upper])
            if overlap > 0:
                moved[upper] -= overlap / 2
                moved[lower] += overlap / 2
    return moved


def _time(microseconds: float) -> str:
    if microseconds >= 1000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds:.3g} µs"


def _number(value: float) -> str:
    return f"{round(value, 2):g}"
