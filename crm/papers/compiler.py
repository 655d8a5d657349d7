"""The process that makes a PDF by Typst: of the files in a folder, to stdout, within limits.

`pdf.py` starts this file as a process of its own. It imports nothing of the CRM.
"""

import os
import resource
import sys
from pathlib import Path

LIMITS = {
    resource.RLIMIT_AS: 2 << 30,  # bytes of addresses; Typst itself uses 150 MB of memory
    resource.RLIMIT_CPU: 20,  # seconds
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
}


def main(folder: str, kind: str, date: str, packages: str) -> None:
    """Write the PDF/A-3b of `<kind>.typ` in the folder, made on that date (a Unix time).

    packages: the folder that has Typst's module. PDF/A must not have text without a glyph: with
    such text, as in Chinese, it is a plain PDF.
    """
    for limit, most in LIMITS.items():
        resource.setrlimit(limit, (most, most))
    os.putenv("RAYON_NUM_THREADS", "2")  # with a thread for each core the memory would not do
    sys.path.append(packages)
    import typst

    # Files are read below `root` alone. The same folder is that of packages: there are none.
    compiler = typst.Compiler(
        *(Path(folder, f"{kind}.typ"), folder),
        ignore_system_fonts=True,
        package_path=folder,
        package_cache_path=folder,
    )
    try:
        pdf = compiler.compile(
            format="pdf", timestamp=int(date), pdf_standards="a-3b", pdf_tags=False
        )
    except typst.TypstError as error:
        if "could not be displayed" not in str(error):
            raise
        pdf = compiler.compile(format="pdf", timestamp=int(date))
    assert isinstance(pdf, bytes)
    sys.stdout.buffer.write(pdf)


if __name__ == "__main__":
    main(*sys.argv[1:])
