"""Plots of counts: horizontal bars for names, vertical bars for days and months.

`reports/_plots.html` draws them. For screen readers a plot has a title and a description, and the
page has a table made of the same bars.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """The bars of one name, one for each series of the plot, and a row of its table.

    `counts` and `paths` are in the order of the series, `paths` being the pages that the bars link
    to. `notes` are further cells of the row; horizontal bars have the first one below. `mark` is
    the short name on the axis of vertical bars.
    """

    name: str
    counts: Sequence[int]
    paths: Sequence[str] = ()
    notes: Sequence[str] = ()
    mark: str = ""


class Plot(NamedTuple):
    """A plot and its table, whose columns have the headings `heads`.

    `series` are (name, CSS class) of vertical bars, with a legend if there are several; without
    any the bars are horizontal.
    """

    id: str
    name: str
    about: str
    heads: Sequence[str]
    bars: Sequence[Bar]
    series: Sequence[tuple[str, str]] = ()

    @property
    def max_count(self) -> int:
        return max((count for bar in self.bars for count in bar.counts), default=0)

    @property
    def round_top(self) -> int:
        """A round number not below any count: 1, 2, 4, 6, 10, 20, 40, 60, 100 …"""
        unit = 1
        while self.max_count > 10 * unit:
            unit *= 10
        return next(unit * step for step in (1, 2, 4, 6, 10) if unit * step >= self.max_count)

    @property
    def has_notes(self) -> bool:
        return any(note for bar in self.bars for note in bar.notes)
