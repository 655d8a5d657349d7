"""What a paper shows, in its language: the texts that its page and its PDF have in common."""

from typing import Any


def show(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The texts of a paper."""
    raise NotImplementedError
