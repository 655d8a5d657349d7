"""Moving in and out by CSV: an import in steps and files to take away, of all five nouns alike.

`/leads/import`, `/clients/import`, … are the same pages: what differs is said by `nouns.py`, by
`columns.py`, and by the nouns of `resources/moving` themselves.
"""

from crm.cabinet.moving import exports, imports

BLUEPRINTS = (imports, exports)
