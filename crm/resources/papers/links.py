"""Links to papers: an address by which a client sees one paper without an account.

A link is shown once and stored as a hash. It ends when it expires, is revoked, or the paper is
voided.
"""

from collections.abc import Sequence
from typing import Any

from peewee import BlobField, IntegerField

from crm.access import tokens
from crm.errors import Conflict, Invalid, NotFound
from crm.json import dumps
from crm.records import columns
from crm.records.record import Record
from crm.records.views import declare_views
from crm.resources.papers.record import Paper
from crm.storage import own_rows
from crm.storage.dialect import among
from crm.storage.session import (
    current_session,
    now,
    row,
    rows,
    settings,
    time_before,
    transaction,
    try_execute,
)
from crm.storage.sweeps import DAY_SECONDS

DEFAULT_DAYS, MAX_DAYS = 30, 366
MAX_LINKS = 100  # of a paper, that are valid
VALID = "ended_at IS NULL AND expires_at > ?"
NOT_SUSPENDED = "(SELECT suspended_at FROM tenant) IS NULL"


class PaperLink(Record):
    """One link, in stored form."""

    noun = "link"

    paper_id = IntegerField()
    hash = BlobField()
    user_id = columns.Id(dump_only=True, allow_none=True, about="Who made it.")
    expires_at = columns.DateTime(
        allow_none=False,
        example="2027-01-31T00:00:00Z",
        about=f"By default after {DEFAULT_DAYS} days; at most {MAX_DAYS}.",
    )
    ended_at = columns.DateTime(dump_only=True, allow_none=True, about="When it was revoked.")
    seen_count = columns.Integer(0, 1 << 53, dump_only=True, about="How often it was opened.")
    last_seen_at = columns.DateTime(dump_only=True, allow_none=True)


own_rows.declare_parts("paper_link", "paper")
LINK, LINK_IN, _ = declare_views(PaperLink, noun="link")


def create(paper_id: int | str, data: dict[str, Any]) -> tuple[int, str]:
    """Make a link to a paper; return its id and its address, which is not shown again.

    Raises NotFound, Invalid, and Conflict `paper_voided` or `too_many_links`.
    """
    expires_at = data.get("expires_at") or time_before(-DEFAULT_DAYS * DAY_SECONDS)
    if not now() < expires_at <= time_before(-MAX_DAYS * DAY_SECONDS):
        detail = f"must be within the next {MAX_DAYS} days"
        raise Invalid.field("expires_at", "out_of_range", detail)
    token = tokens.generate_token()
    with transaction():
        paper = Paper.find(paper_id)
        if paper.voided_at is not None:
            raise Conflict("it is void", "paper_voided")
        if len(PaperLink.every(f"paper_id = ? AND {VALID}", paper.id, now())) >= MAX_LINKS:
            raise Conflict(f"a paper has at most {MAX_LINKS} links", "too_many_links")
        values = {"paper_id": paper.id, "hash": tokens.digest(token), "expires_at": expires_at}
        link = PaperLink.add({**values, "user_id": current_session().user_id, "seen_count": 0})
    return link.id, f"{settings().url_of(current_session().label)}/p/{token}"


def revoke(paper_id: int | str, id: int | str) -> None:
    """End a link. Raises NotFound."""
    with transaction():
        link = PaperLink.of(Paper.find(paper_id), id)
        if link.ended_at is None:
            link.save_changes({"ended_at": now()})


def find_paper(token: str, counts: bool = True) -> Paper:
    """The paper of the valid link with this token; raises NotFound.

    counts: whether it is counted that it was opened, unless somebody else writes at that moment.
    """
    link = row(
        f"SELECT id, paper_id FROM paper_link WHERE hash = ? AND {VALID} AND {NOT_SUSPENDED}",
        (tokens.digest(token), now()),
    )
    if link is None:
        raise NotFound
    if counts:
        seen = "UPDATE paper_link SET seen_count = seen_count + 1, last_seen_at = ? WHERE id = ?"
        try_execute(seen, (now(), link[0]))
    return Paper.find(link[1])


def count_seen(paper_ids: Sequence[str]) -> dict[str, int]:
    """How often clients have opened each of these papers, by the id of the paper."""
    ids = dumps([*map(int, paper_ids)]).decode()
    counted = f"SELECT paper_id, sum(seen_count) FROM paper_link WHERE {among('paper_id')}"
    return {str(id): count for id, count in rows(f"{counted} GROUP BY paper_id", (ids,))}


def of_paper(paper_id: int | str) -> tuple[str, list[int]]:
    """The condition of the links of a paper; raises NotFound."""
    return "paper_id = ?", [Paper.find(paper_id).id]
