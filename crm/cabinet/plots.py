"""Plots of counts: horizontal bars for names, vertical bars for days and months.

`reports/_plots.html` draws them. For screen readers a plot has a title and a description, and the
page has a table with the same numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """The bars of one name, one for each series of the plot.

    `counts` and `paths` are in the order of the series, `paths` being the pages that the bars link
    to. `texts` are what is written for counts that are no numbers of records. Horizontal bars have
    the `note` below. `mark` is the short name on the axis of vertical bars.
    """

    name: str
    counts: Sequence[int]
    paths: Sequence[str] = ()
    note: str = ""
    mark: str = ""
    texts: Sequence[str] = ()


class Plot(NamedTuple):
    """A plot.

    `series` are (name, CSS class) of vertical bars, with a legend if there are several; without
    any the bars are horizontal.
    """

    id: str
    name: str
    about: str
    bars: Sequence[Bar]
    series: Sequence[tuple[str, str]] = ()

    @property
    def max_count(self) -> int:
        return max((count for bar in self.bars for count in bar.counts), default=0)

    @property
    def has_notes(self) -> bool:
        return any(bar.note for bar in self.bars)
