"""Save the pictures of the page of pieces in a folder."""

import sys
import tempfile
from pathlib import Path

from tests.chromium import browsing
from tests.pieces import shown


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        browsing() as browser,
        shown(Path(data), browser) as pages,
    ):
        for name, page in pages:
            page.screenshot(path=folder / f"pieces-{name}.png", full_page=True)
            print(folder / f"pieces-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
