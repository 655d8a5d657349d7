"""Labels that no new tenant gets (D18): reserved_labels.txt. One that has such a label keeps it."""

from importlib import resources

_TEXT = resources.files(__package__).joinpath("reserved_labels.txt").read_text("utf-8")
RESERVED = frozenset(
    label for line in _TEXT.splitlines() if line[:1] != "#" for label in line.split()
)
