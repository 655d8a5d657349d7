"""Search: how `q` matches records, and the text that it is compared with.

D3 `q`: every word must match somewhere in the record, in any case, as a part of a word, Cyrillic
too; digits match phones; `%` and `_` are ordinary characters. A searchable table keeps the folded
texts of each row in `search_text` and an index of its three-letter pieces (search_index.py).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from crm.records.conditions import Condition
from crm.storage import search_index
from crm.storage.dialect import among, without_index
from crm.storage.search_index import Word
from crm.values.folding import fold

Run = Callable[[str, Sequence[Any]], Sequence[tuple[Any, ...]]]

# The newest matches that are looked at first. Fewer than this are all there is: they are fetched.
# Nothing else tells how common a word is: sorting every row of a common word takes 100 ms, walking
# the table for a rare one 100 to 400.
PROBE_ROWS = 1000
# Up to so many rows per match are looked at instead of asking the index.
MAX_ROWS_PER_MATCH = 25
# A word is common if of SAMPLE_ROWS rows, which begin so many ids below the first of the page, each
# time SAMPLE_MATCHES have it: then the rows of a page are near, and need no look into the index.
SAMPLE_PARTS, SAMPLE_ROWS, SAMPLE_MATCHES = (0, 1000, 2000), 64, 3
# Without a word of three letters the index cannot help: so many of the newest rows are looked at.
MAX_SCANNED_ROWS = 20_000
PHONE_CHARACTERS = frozenset("0123456789+()-.")
# Marks between words, or around one, whatever the record has there. Inside a word a dot, a
# hyphen or a decimal comma is a part of it; `%` and `_` always are.
BETWEEN_WORDS = re.compile(r'[\s"«»“”„‟‹›‚…;!?(){}\[\]<>]+|,(?!\d)|(?<!\d),')
AROUND_WORDS = ".,:'-/\\|"


def condition(
    table: str,
    q: str,
    run: Run,
    *,
    by_id: bool = True,
    counts: bool = False,
    below: int | None = None,
) -> Condition:
    """Make the condition for the rows of `table` that match `q` (D3); it is true of live rows only.

    by_id: whether the list is in order of id, not of another column. counts: whether all matches
    are counted too. below: of a page in descending order of id, the id below which it begins. They
    change the speed, not the rows. run(sql, parameters): queries the tenant's database.
    """
    query_words = words(q)
    forms: list[Any] = [form for word in query_words for form in word]
    if not forms:
        return Condition(f"{table}.search_text IS NOT NULL", reads_row=True)
    matches = search_index.any_form(query_words, search_index.contains(table))
    near = Condition(matches, forms, reads_row=True)
    if by_index := search_index.matching_ids(table, query_words):
        of_these = f"{table}.id IN ({by_index[0]}) AND {matches}"
        params_of_these = [*by_index[1], *forms]
        for_all = Condition(of_these, params_of_these, by_index[0], names_ids=True)
        near = near._replace(for_all=for_all)
    if below is not None:
        sample = search_index.is_common(table, matches, SAMPLE_PARTS, SAMPLE_ROWS, SAMPLE_MATCHES)
        if run(sample, [below, *forms * len(SAMPLE_PARTS)]):  # the rows of a page are near
            return near
    candidates: list[tuple[str, Sequence[Any]]] = []  # SELECTs of their ids, with parameters
    if by_index:
        candidates.append(by_index)
    else:
        matches += f" AND {table}.id > (SELECT max(id) FROM {table}) - {MAX_SCANNED_ROWS}"
    # For a word of two letters a list and a count would each look at all rows.
    if not all(map(search_index.is_indexed, query_words)) and (counts or not by_id):
        candidates.append((f"SELECT id FROM {table} WHERE {matches}", forms))
    ends = []
    for select, params in candidates:
        probe = search_index.newest_ids(table, select, PROBE_ROWS)
        ((ids, count, *ends_of_these),) = run(probe, params)
        if count < PROBE_ROWS:
            are_these = f"{among(f'{table}.id')} AND {matches}"
            return Condition(are_these, [ids, *forms], names_ids=True, reads_row=True)
        ends.append(ends_of_these)
    if candidates:
        (select, params), (lowest, highest, newest) = candidates[0], ends[0]
        if below is not None and highest - lowest < PROBE_ROWS * MAX_ROWS_PER_MATCH:
            # The page begins at the highest id: newer rows are not looked at.
            from_highest = f"{matches} AND {table}.id <= ?"
            return near._replace(sql=from_highest, params=[*forms, min(highest, below)])
        # Every second row where matches may stand together at the end of the order.
        if newest - lowest >= PROBE_ROWS * (MAX_ROWS_PER_MATCH if by_id else 2):
            # Many but scattered. Without the ids' index the order's own is walked, checking ids,
            # reading no row.
            id = f"{table}.id" if by_id else without_index(f"{table}.id")
            sql = f"{id} IN ({select}) AND {matches}"
            return near._replace(sql=sql, params=[*params, *forms], names_ids=by_id)
    return near._replace(sql=matches)


def words(q: str) -> list[Word]:
    """Split a query into its words, each once: `12-34` has the forms `12-34` and `1234`.

    Punctuation is none of them, unless there is nothing else.
    """
    written = fold(q).split()
    forms = [form for word in written for form in _forms(word)]
    return list(dict.fromkeys(forms or [(word,) for word in written]))


def _forms(word: str) -> list[Word]:
    digits = "".join(filter(str.isdigit, word)) if PHONE_CHARACTERS.issuperset(word) else ""
    if digits:
        return [(digits,) if digits in word else (word, digits)]
    parts = (part.strip(AROUND_WORDS) for part in BETWEEN_WORDS.split(word))
    return [(part,) for part in parts if part]
