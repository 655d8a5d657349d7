"""The milliseconds of every request in both tenants: `python -m tests.benchmarks.growth`."""

import argparse
import json
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from tests.benchmarks.growth.data import SIZES, make_tenants, open_folder
from tests.benchmarks.growth.walk import Tenant, measure
from tests.benchmarks.processes import describe_machine

PLOTTED = {
    "GET one": ("owner", "GET", "/api/v1/leads/{id}"),
    "list, filter": ("owner", "GET", "/api/v1/leads?status=qualified"),
    "list, total": ("owner", "GET", "/api/v1/leads?total=true"),
    "search": ("owner", "GET", f"/api/v1/leads?{urlencode({'q': 'шевченко'})}"),
    "page of today": ("owner", "GET", "/"),
    "page of leads": ("owner", "GET", "/leads"),
    "seller's page": ("seller", "GET", "/leads"),
    "page of a lead": ("owner", "GET", "/leads/{id}"),
}
HEADER = ("role", "kind", "request", "small ms", "large ms", "ratio", "small shown", "large shown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder to make the tenants in, or with them")
    parser.add_argument(
        "--tsv", type=Path, help="write the table to this file, not to the terminal"
    )
    parser.add_argument("--json", type=Path, help="write the figures of the plot to this file")
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
    if options.json:
        figures = {
            name: [round(tenant[key][0] * 1000, 1) for tenant in (small, large)]
            for name, key in PLOTTED.items()
        }
        rows = [size.leads for size in SIZES.values()]
        content = {"origin": describe_machine(), "rows": rows, "figures": figures}
        options.json.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
    if options.tsv:
        options.tsv.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
