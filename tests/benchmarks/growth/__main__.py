"""The milliseconds of every request in both tenants: `python -m tests.benchmarks.growth`."""

import argparse
import tempfile
from pathlib import Path

from tests.benchmarks.growth.data import SIZES, make_tenants, open_folder
from tests.benchmarks.growth.walk import Tenant, measure
from tests.benchmarks.processes import describe_machine

HEADER = ("role", "kind", "request", "small ms", "large ms", "ratio", "small shown", "large shown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder to make the tenants in, or with them")
    parser.add_argument(
        "--tsv", type=Path, help="write the table to this file, not to the terminal"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.data or Path(name)
        crm = open_folder(folder) if (folder / "tenants").exists() else make_tenants(folder)
        small, large = (measure(Tenant(crm, label)) for label in SIZES)
        crm.tenants.forget_idle()
    lines = [f"# CPU; {describe_machine()}", "\t".join((*HEADER, "status"))]
    # The ratio is of equally many records shown.
    for key in small.keys() & large.keys():
        (few, few_shown, status), (many, many_shown, of_large) = small[key], large[key]
        ratio = many / few * min(1, max(1, few_shown) / max(1, many_shown))
        figures = (f"{few:.2f}", f"{many:.2f}", f"{ratio:.2f}", few_shown, many_shown)
        lines.append("\t".join(map(str, (*key, *figures, status or of_large))))
    lines[2:] = sorted(lines[2:], key=lambda line: -float(line.split("\t")[5]))
    text = "\n".join(lines) + "\n"
    if options.tsv:
        options.tsv.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
