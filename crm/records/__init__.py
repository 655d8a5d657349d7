"""What all records share: fields, views, queries, search, the audit trail, retention."""
