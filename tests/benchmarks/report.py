"""Tables and plots of measured figures: `python -m tests.benchmarks.report` updates speed.md."""

import json
import math
import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import plot

HERE = Path(__file__).resolve().parent
GUIDE = HERE.parent.parent / "crm" / "docs" / "speed.md"
FIGURES, PLOTS = HERE / "figures", HERE / "plots"
BEGIN, END = "<!-- figures: python -m tests.benchmarks.report -->", "<!-- end of figures -->"
OURS, THEIRS = "CRM", "PocketBase"

# Against PocketBase in the same run, the CRM as it starts by default: at 8 connections requests per
# second at least, CPU per request at most.
RATE_AIMS = {"GET one": 1.5, "list of 50": 3, "with total": 3, "search": 1.5, "create": 1}
CPU_AIMS = {"GET one": 0.6, "list of 50": 0.4, "with total": 0.5, "search": 0.9, "create": 1}
P99_AIM = 1  # at 64 connections, at most
MEMORY_AIM_MB = 160  # of two processes
START_AIM_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Aim:
    """One line of the table of aims."""

    measure: str
    limit: float
    value: float
    at_least: bool = False
    unit: str = ""

    def is_reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def aims(figures: dict[str, Any]) -> Iterator[Aim]:
    """Each aim of the CRM with the value that was measured."""
    for operation, limit in CPU_AIMS.items():
        yield Aim(f"CPU per request, {operation}", limit, _ratio(figures, operation, "8", "cpu_us"))
    for operation, limit in RATE_AIMS.items():
        value = _ratio(figures, operation, "8", "requests_per_second")
        yield Aim(f"requests per second, {operation}", limit, value, at_least=True)
    for operation in CPU_AIMS:
        value = _ratio(figures, operation, "64", "p99_ms")
        yield Aim(f"p99 at 64 connections, {operation}", P99_AIM, value)
    server = figures["servers"][OURS]
    yield Aim("memory", MEMORY_AIM_MB, server["memory_mb"], unit=" MB")
    yield Aim("start to first answer", START_AIM_SECONDS, server["start_seconds"], unit=" s")


def _ratio(figures: dict[str, Any], operation: str, connections: str, measure: str) -> float:
    """Ours divided by theirs; not a number if answers failed, so that no aim counts as reached."""
    ours, theirs = (
        figures["servers"][name]["operations"][operation][connections] for name in (OURS, THEIRS)
    )
    if ours["errors"] or theirs["errors"]:
        return math.nan
    return ours[measure] / theirs[measure]


def count_errors(figures: dict[str, Any]) -> int:
    """Requests of all servers that were refused, cut, late or not answered with 2xx."""
    return sum(
        run["errors"]
        for server in figures["servers"].values()
        for operation in server["operations"].values()
        for run in operation.values()
    )


def aims_table(figures: dict[str, Any]) -> str:
    """Aim and reached, for people at a terminal."""
    lines = [f"{OURS} against {THEIRS}{' ' * 24}aim   reached"]
    for aim in aims(figures):
        sign = "≥" if aim.at_least else "≤"
        verdict = "" if aim.is_reached() else "   not reached"
        limit, value = f"{sign} {aim.limit:g}{aim.unit}", f"{aim.value:.2f}{aim.unit}"
        lines.append(f"    {aim.measure:34}{limit:>9} {value:>9}{verdict}")
    return "\n".join(lines)


def console_table(figures: dict[str, Any]) -> str:
    """All figures, for people at a terminal."""
    lines = [
        figures["origin"],
        f"{figures['rows']} leads, medians of {figures['rounds']} rounds of"
        f" {figures['seconds']} s a run; meanwhile other processes used"
        f" {figures['other_cores']:.2f} cores (best below 0.1)",
        "",
    ]
    for name, server in figures["servers"].items():
        lines.append(
            f"{name:20} {server['version']}, synchronous={server['synchronous']},"
            f" {server['memory_mb']:.0f} MB, first answer after {server['start_seconds']:.2f} s"
        )
    head = f"{'requests/s':>10} {'CPU µs':>8} {'p50 ms':>8} {'p99 ms':>8}"
    for operation in figures["servers"][OURS]["operations"]:
        for connections in ("8", "64"):
            title = f"{operation}, {connections} connections"
            lines += ["", f"{title:32} {head}"]
            for name, server in figures["servers"].items():
                if operation not in server["operations"]:
                    continue
                item = server["operations"][operation][connections]
                if item["errors"]:
                    lines.append(f"    {name:28}  ERROR: {item['errors']} answers failed")
                    continue
                lines.append(
                    f"    {name:28} {item['requests_per_second']:10.0f} {item['cpu_us']:8.0f}"
                    f" {item['p50_ms']:8.2f} {item['p99_ms']:8.2f}"
                )
    return "\n".join([*lines, ""])


# speed.md


def guide_block(folder: Path = FIGURES) -> str:
    """What stands between BEGIN and END: the tables and the plots of the figures in the folder."""
    parts = []
    if served := load(folder / "served.json"):
        alt = "Requests per second and CPU per request, as in the first table"
        parts += [*_guide_tables(served), _picture("served", alt)]
    if growth := load(folder / "growth.json"):
        parts += [_picture("growth", plot.describe_growth(growth))]
    return "\n\n".join(parts)


def _guide_tables(figures: dict[str, Any]) -> Iterator[str]:
    yield _guide_table(figures, "8", "cpu_us", "CPU per request, µs")
    yield _guide_table(figures, "64", "p99_ms", "p99, ms")
    servers = figures["servers"]
    sizes = "; ".join(
        f"{name} {server['memory_mb']:.0f} MB, {server['start_seconds']:.2f} s"
        for name, server in servers.items()
    )
    text = (
        f"Memory after that, and time from the start to the first answer: {sizes}. The CRM and c"
        f" write with `synchronous=FULL`, PocketBase with `{servers[THEIRS]['synchronous']}`, its"
        f" default, where nothing else is said. Medians of {figures['rounds']} rounds on"
        f" {figures['origin']}, {servers['c']['version']}; other processes used"
        f" {figures['other_cores']:.2f} cores meanwhile."
    )
    yield textwrap.fill(text, 100, break_on_hyphens=False)


def _guide_table(figures: dict[str, Any], connections: str, measure: str, title: str) -> str:
    """A row for each server with requests per second and one more measure, and their ratios."""
    servers = figures["servers"]
    operations = list(servers[OURS]["operations"])
    lines = [
        f"| {connections} connections: requests/s · {title} | {' | '.join(operations)} |",
        f"|---|{'---|' * len(operations)}",
    ]
    for name, server in servers.items():
        version = f" {server['version']}" if name == THEIRS else ""
        cells = [
            _cell(server["operations"].get(operation, {}).get(connections), measure)
            for operation in operations
        ]
        lines.append(f"| {name}{version} | {' | '.join(cells)} |")
    ratios = [
        " · ".join(
            f"{_ratio(figures, operation, connections, item):.2f}"
            for item in ("requests_per_second", measure)
        )
        for operation in operations
    ]
    return "\n".join([*lines, f"| **{OURS} / {THEIRS}** | {' | '.join(ratios)} |"])


def _cell(run: dict[str, float] | None, measure: str) -> str:
    if not run:
        return ""
    if run["errors"]:
        return "failed"
    return f"{run['requests_per_second']:,.0f} · {run[measure]:,.0f}"


def _picture(name: str, text: str) -> str:
    folder = os.path.relpath(PLOTS, GUIDE.parent)
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.svg">'
        f'<img alt="{text}" src="{folder}/{name}-light.svg"></picture>'
    )


def guide_with(block: str, text: str) -> str:
    """The guide's text with the block in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"speed.md has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def plots(folder: Path = FIGURES) -> dict[str, str]:
    """The SVG files of the figures in the folder, by name."""
    drawn = {}
    for name, draw in (("served", plot.draw_served), ("growth", plot.draw_growth)):
        if figures := load(folder / f"{name}.json"):
            for theme in plot.THEMES:
                drawn[f"{name}-{theme}.svg"] = draw(figures, theme)
    return drawn


def load(file: Path) -> dict[str, Any] | None:
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def main() -> None:
    for name in ("served", "growth"):
        if not (FIGURES / f"{name}.json").exists():
            print(f"skipped: figures/{name}.json is missing", file=sys.stderr)
    PLOTS.mkdir(exist_ok=True)
    for name, svg in plots().items():
        (PLOTS / name).write_text(svg, "utf-8")
    GUIDE.write_text(guide_with(guide_block(), GUIDE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
