-- The logo of the company.

CREATE TABLE logo (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    content_type TEXT NOT NULL,
    digest       TEXT NOT NULL, -- in the address, which may be cached for good
    data         BLOB NOT NULL
) STRICT;
