"""Records as tables in files: one reader, importer, report and exporter for all resources (D9).

A resource declares its columns and registers itself. To import is to read a file, which touches no
database, and then to run what was read:

    file = read_file(data, find_resource("leads"))
    result = import_file(file)
"""

from crm.spreadsheets.exporter import export_csv
from crm.spreadsheets.import_run import import_file
from crm.spreadsheets.reader import ParsedFile, read_file
from crm.spreadsheets.resource import Result, all_resources, find_resource

__all__ = ["ParsedFile", "Result", "all_resources", "export_csv", "find_resource"]
__all__ += ["import_file", "read_file"]
