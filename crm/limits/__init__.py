"""Counts that limits are decided by: of requests, failed tries, pages, e-mails and SMS.

`counters` keeps them for all processes of a machine in a file. What is limited, and how much of it,
is for the callers in `crm.access` to say.

The package `limits` of PyPI does not do: it has no store that the processes of a machine share, and
no operation that adds to several counts or to none.
"""
