"""The kinds of alerts, and the channels by which users are told of them."""

from typing import NamedTuple

from crm.records.columns import N_

BELL, EMAIL, TELEGRAM = "bell", "email", "telegram"
CHANNELS = {BELL: N_("In the workspace"), EMAIL: N_("E-mail"), TELEGRAM: N_("Telegram")}


class Kind(NamedTuple):
    """A kind of alerts.

    label: of the kind. text: of one alert, with the record's %(name)s if it is about a record.
    roles: of the users who get alerts for nobody in particular. tells_actor: who has caused it is
    told as well. channels: those that users have unless they choose others.
    """

    label: str
    text: str
    roles: tuple[str, ...] = ()
    tells_actor: bool = False
    channels: tuple[str, ...] = (BELL, EMAIL, TELEGRAM)


LEAD_NEW, ASSIGNED, TASK_DUE = "lead_new", "assigned", "task_due"
NO_NEXT_STEP, WEBHOOK_PAUSED = "no_next_step", "webhook_paused"
IMPORT_FINISHED, KEY_EXPIRING = "import_finished", "key_expiring"
HOOK_FAILED, GRANT_ENDED = "hook_failed", "grant_ended"
WITHOUT_ACCESS, MENTIONED = "without_access", "mentioned"
KINDS = {
    LEAD_NEW: Kind(N_("New lead"), N_("New lead: %(name)s"), ("owner", "manager")),
    ASSIGNED: Kind(N_("Assigned to you"), N_("Assigned to you: %(name)s")),
    MENTIONED: Kind(N_("Named in a note"), N_("You are named in a note: %(name)s")),
    TASK_DUE: Kind(N_("Reminder of a task"), N_("Reminder: %(name)s"), tells_actor=True),
    NO_NEXT_STEP: Kind(
        N_("Deals without a next step, once a day"),
        N_("You have deals without a next step"),
        tells_actor=True,
        channels=(BELL, TELEGRAM),
    ),
    WEBHOOK_PAUSED: Kind(
        N_("Webhook switched off"), N_("Webhook switched off: %(name)s"), ("owner",)
    ),
    HOOK_FAILED: Kind(
        N_("Data of another program not saved"),
        N_("Data of another program was not saved: %(name)s"),
        ("owner",),
    ),
    WITHOUT_ACCESS: Kind(
        N_("New records for a colleague without access"),
        N_("New records for %(name)s, who has no access, are nobody's"),
        ("owner",),
        tells_actor=True,
    ),
    IMPORT_FINISHED: Kind(
        N_("Import finished"),
        N_("Import finished: %(name)s"),
        tells_actor=True,
        channels=(BELL, TELEGRAM),
    ),
    KEY_EXPIRING: Kind(
        N_("API key expires within a week"),
        N_("API key expires soon: %(name)s"),
        ("owner",),
        tells_actor=True,
    ),
    GRANT_ENDED: Kind(
        N_("Access of an assistant ended"),
        N_("Access ended, because its code or token was used twice: %(name)s"),
        ("owner",),
    ),
}
