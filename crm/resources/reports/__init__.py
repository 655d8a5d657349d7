"""Reports: how deals go through their stages, what is expected, won and lost, and who does what.

Each number of a report counts the records of a list with certain filters, so that the list with the
same filters has exactly those records.
"""
