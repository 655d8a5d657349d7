"""Pages of imports and exports, the same for every resource that has files.

What differs is declared by the resources themselves, and in words by resource_pages.py.
"""

from crm.cabinet.spreadsheets import batches, columns, exports, imports

BLUEPRINTS = (columns, imports, exports, batches)
