"""What another writer waits during an import: `python -m tests.benchmarks.import_waits`.

Another process creates a lead every 30 ms while 20,000 leads are imported: in one transaction, as a
file of up to 10,000 rows is, and in short ones, as a larger file is. The last line is the ratio of
the two worst waits. DATABASE=postgresql://… measures it there.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from crm.config import Config
from crm.errors import Busy
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create
from crm.spreadsheets import find_resource, import_file, read_file

ROWS = int(os.environ.get("ROWS", 20_000))
PAUSE_SECONDS = 0.03  # of the other writer
ROOT = Path(__file__).resolve().parent.parent.parent


def open_installation(data: str) -> Any:
    url = os.environ.get("DATABASE", "")
    return Tenants(Config(data=Path(data), database=url))


def write_beside(data: str, label: str) -> None:
    """Create leads until there is a file `stop`; print how long each took, refused ones too."""
    tenants, seconds, folder = open_installation(data), [], Path(data)
    (folder / "ready").touch()
    while not (folder / "stop").exists():
        began = time.perf_counter()
        try:
            with tenants.session(label):
                create({"name": "Інша", "phone": "+380671234567"})
        except Busy:
            pass
        seconds.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    print(json.dumps(seconds))


def measure(name: str, max_rows: int) -> float:
    """Import beside the other writer; print its waits and return the worst one."""
    lines = (f"Олена Коваль {n},+38067{n:07},l{n}@example.com,site\n" for n in range(ROWS))
    data = ("name,phone,email,source\n" + "".join(lines)).encode()
    with tempfile.TemporaryDirectory() as folder:
        tenants, label = open_installation(folder), f"{name}{os.getpid()}"
        tenant.open_tenant(tenants, label, plan="business")
        words = [sys.executable, "-m", "tests.benchmarks.import_waits", folder, label]
        other = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        while not (Path(folder) / "ready").exists():
            time.sleep(0.05)
        with tenants.session(label):
            file = read_file(data, find_resource("leads"))
            file.resource.max_rows = max_rows
            began = time.perf_counter()
            result = import_file(file)
            took = time.perf_counter() - began
        (Path(folder) / "stop").touch()
        waits = sorted(json.loads(other.communicate()[0]))
        tenants.forget_idle()
    assert result.created == ROWS
    median = statistics.median(waits)
    print(f"{name}: {took:.1f} s; other writer: {len(waits)} leads, median {median * 1e3:.0f} ms,"
          f" worst {waits[-1] * 1e3:.0f} ms", flush=True)  # fmt: skip
    return waits[-1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_beside(*sys.argv[1:])
    else:
        at_once, in_chunks = measure("once", ROWS), measure("chunks", ROWS - 1)
        print(f"worst wait in one transaction / in short ones: {at_once / in_chunks:.1f}")
