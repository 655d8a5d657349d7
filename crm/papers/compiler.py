"""The process that makes a PDF by Typst: of the files in a folder, to stdout, within limits.

`pdf.py` starts this file as a process of its own, which imports nothing of the CRM.
"""

import os
import re
import resource
import sys
from pathlib import Path

MAX_MEMORY_BYTES = 2 << 30  # of addresses; Typst itself uses 150 MB of memory
MAX_CPU_SECONDS = 20
REFUSED = 3  # exit status: Typst does not accept the files, and says on stderr why
NO_GLYPH = re.compile("could not be displayed")


def main(folder: str, kind: str, date: str, packages: str) -> None:
    """Write the PDF/A-3b of `<kind>.typ` in the folder, made on that date (a Unix time).

    packages: the folder that has Typst's module. PDF/A must not have text without a glyph: with
    such text, as in Chinese, it is a plain PDF.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.putenv("RAYON_NUM_THREADS", "2")  # with a thread for each core the memory would not do
    sys.path.append(packages)
    import typst

    # Files are read below `root` alone; the two folders of packages have none, and fetch none.
    compiler = typst.Compiler(
        str(Path(folder, f"{kind}.typ")),
        root=folder,
        ignore_system_fonts=True,
        package_path=folder,
        package_cache_path=folder,
    )
    options = {"format": "pdf", "timestamp": int(date)}
    try:
        try:
            pdf = compiler.compile(pdf_standards="a-3b", **options)
        except typst.TypstError as error:
            if not NO_GLYPH.search(str(error)):
                raise
            pdf = compiler.compile(**options)
    except typst.TypstError as error:
        sys.stderr.write(str(error)[:2000])
        sys.exit(REFUSED)
    sys.stdout.buffer.write(pdf)


if __name__ == "__main__":
    main(*sys.argv[1:])
