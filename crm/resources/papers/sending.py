"""Papers by e-mail: a link to the paper, and its PDF where that can be made."""

from contextlib import suppress
from functools import partial

from crm.errors import Conflict, CRMError, Invalid, NotFound
from crm.json import loads
from crm.messages import MAX_ATTACHMENT_BYTES, Attachment
from crm.messages.queue import MessageQueue
from crm.papers import layout
from crm.resources import notes
from crm.resources.papers import links, record
from crm.storage.session import after_commit, transaction
from crm.values import InvalidValue, email


def send(id: int | str, to: str, queue: MessageQueue) -> None:
    """Send a paper to an e-mail address, in the language of the paper; a note of the deal says so.

    It has a link that is valid for DEFAULT_DAYS. Raises NotFound, Invalid (`to`), and Conflict:
    `mail_not_set`, `paper_voided`, `too_many_links`.
    """
    if not queue.sends_mail:
        raise Conflict("CRM_MAIL is not set: e-mails are not sent here", "mail_not_set")
    try:
        address = email(to)
    except InvalidValue as error:
        raise Invalid.field("to", error.code, error.detail) from None
    if address is None:
        raise Invalid.field("to", "required", "to whom is needed")
    paper = record.Paper.find(id)
    attachments = []
    with suppress(CRMError):
        file = record.pdf_of(paper)
        if file.size <= MAX_ATTACHMENT_BYTES:
            attachments.append(Attachment(file.name, file.content_type, file.read()))
    with transaction():
        _, url = links.create(paper.id, {})
        subject, text = layout.letter(loads(paper.snapshot), url, links.DEFAULT_DAYS)
        with suppress(NotFound):  # a paper outlives its deal
            note = notes.NOTE_IN.parse({"text": f"{subject} → {address}"})
            notes.create("deal", paper.deal_id, note)
        after_commit(partial(queue.enqueue_mail, address, subject, text, *attachments))
