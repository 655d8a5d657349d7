"""How much memory something takes."""

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """The most bytes that Python objects take at a time while the function runs."""
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
