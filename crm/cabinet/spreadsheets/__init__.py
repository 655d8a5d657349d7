"""Pages of imports and exports, the same for every resource that has files.

What differs is declared by the resources themselves, and in words by labels.py and column_help.py.
"""

from crm.cabinet.spreadsheets import exports, imports

BLUEPRINTS = (imports, exports)
