"""The labels of webhooks, their events and their deliveries."""

from crm.cabinet.languages import gettext
from crm.outbox import deliveries, events


def kinds() -> dict[str, str]:
    """The kinds of events, in the specification's order, and the test."""
    called = {
        events.LEAD_CREATED: gettext("A new lead"),
        events.LEAD_CONVERTED: gettext("A lead became a deal"),
        events.DEAL_CREATED: gettext("A new deal"),
        events.DEAL_STAGE_CHANGED: gettext("A deal went to another stage"),
        events.DEAL_WON: gettext("A deal is won"),
        events.DEAL_LOST: gettext("A deal is lost"),
        events.DEAL_ITEMS_CHANGED: gettext("The items of a deal changed"),
        events.PRODUCT_CREATED: gettext("A new product"),
        events.PRODUCT_UPDATED: gettext("A product changed"),
        events.PRODUCT_IMPORTED: gettext("A price list was imported"),
        events.CLIENT_CREATED: gettext("A new client"),
        events.CLIENT_UPDATED: gettext("A client changed"),
        events.TASK_CREATED: gettext("A new task"),
        events.TASK_COMPLETED: gettext("A task is done"),
    }
    return {
        **{kind: called[kind] for kind in events.KINDS},
        deliveries.TEST_KIND: gettext("A test"),
    }


def states() -> dict[str, tuple[str, str]]:
    """How an endpoint does: {state: (words, kind of badge)}."""
    return {
        "active": (gettext("Active"), "success"),
        "unused": (gettext("Ready, nothing was sent yet"), "success"),
        "retrying": (gettext("Some deliveries are being retried"), "warning"),
        "failed": (gettext("The last delivery failed"), "warning"),
        "failing": (gettext("Failing"), "warning"),
        "paused": (gettext("Paused after five days of failures"), "danger"),
        "disabled": (gettext("Turned off: the receiver answered 410"), "danger"),
        "inactive": (gettext("Turned off"), "danger"),
    }


def statuses() -> dict[str, tuple[str, str]]:
    """How a delivery does: {status: (words, kind of badge)}."""
    return {
        "pending": (gettext("Sending"), "info"),
        "delivered": (gettext("Delivered"), "success"),
        "failed": (gettext("Failed"), "danger"),
        "held": (gettext("Waiting"), "secondary"),
    }


def notices() -> dict[str, str]:
    return {
        "paused": gettext("Nothing could be delivered for five days, so sending has stopped."),
        "gone": gettext("The receiver answered 410 Gone, so sending has stopped."),
    }


def causes() -> dict[str, str]:
    return {
        "event": gettext("automatically"),
        "resend": gettext("resent manually"),
        "recover": gettext("recovered"),
        "test": gettext("test"),
    }


def errors() -> dict[str, str]:
    """Why there was no good answer."""
    return {
        "timeout": gettext("no answer within 15 seconds"),
        "name_not_resolved": gettext("the name has no address"),
        "forbidden_address": gettext("the address is not public"),
        "invalid_url": gettext("the address cannot be called"),
        "connection_refused": gettext("connection refused"),
        "connection_failed": gettext("the connection broke"),
        "tls_failed": gettext("the certificate or encryption does not fit"),
        "bad_answer": gettext("the answer is not HTTP"),
    }
