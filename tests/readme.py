"""Commands of README.md and of the guides in crm/docs, run as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

from tests.installations import environ_for

ROOT = Path(__file__).parent.parent
GUIDES = ROOT / "crm" / "docs"
APP = f"{sys.executable} {ROOT / 'app.py'}"
PATIENT = "curl -sS --retry 20 --retry-connrefused --retry-delay 1 "  # a server needs a moment
SECONDS = 60


def read(guide: str) -> str:
    """Return the text of a guide in crm/docs, or of the project's README.md for "README"."""
    path = ROOT / "README.md" if guide == "README" else GUIDES / f"{guide}.md"
    return path.read_text("utf-8")


def section(guide: str, title: str) -> str:
    """Return the text below a heading of the second level."""
    return read(guide).split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text: str, language: str = "sh") -> list[str]:
    """Return the code blocks of that language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def run(lines: str, folder: Path, port: int = 8000, **environ: str) -> str:
    """Run the lines in bash, in `folder`, and return what they print. They must succeed.

    The data folder is `folder / "data"`. A server that they start listens on `port` and is stopped
    at the end. A variable that is empty in `environ` is not set.
    """
    lines = lines.replace(".venv/bin/python app.py", APP).replace("curl ", PATIENT)
    lines = lines.replace(":8000/", f":{port}/")
    if "serve &" in lines:
        lines = lines.replace("serve &", f"serve --port {port} & SERVER=$!")
        lines += "\necho\nkill $SERVER\nwait $SERVER\n"
    known = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "CRM_DATA": str(folder / "data")}
    known |= environ_for(folder / "data")
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
