"""The README's lines, run as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
APP = f"{sys.executable} {ROOT / 'app.py'}"
PATIENT = "curl -sS --retry 20 --retry-connrefused --retry-delay 1 "  # a server needs a moment
SECONDS = 60


def section(title: str) -> str:
    """The text below a heading of the second level."""
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text: str, language: str = "sh") -> list[str]:
    """What stands between ``` of that language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def run(lines: str, folder: Path, port: int = 8000, **environ: str) -> str:
    """What the lines print, in a folder of their own, with `folder / "data"` as the data folder.

    A server that they start listens on `port` and is stopped at the end. They must succeed. What is
    empty in `environ` is not there.
    """
    lines = lines.replace(".venv/bin/python app.py", APP).replace("curl ", PATIENT)
    lines = lines.replace(":8000/", f":{port}/")
    if "serve &" in lines:
        lines = lines.replace("serve &", f"serve --port {port} & SERVER=$!")
        lines += "\necho\nkill $SERVER\nwait $SERVER\n"
    known = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "CRM_DATA": str(folder / "data")}
    ran = subprocess.run(
        ["bash", "-c", f"set -e\n{lines}"],
        cwd=folder,
        env={name: value for name, value in (known | environ).items() if value},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
