"""Settings and commands that are gone, and what to do instead of each."""

REMOVED = {
    "CRM_DATABASE_ROLES": "remove it, all schemas belong to the user of CRM_DATABASE",
    "CRM_LIMITS": "limits are exact where the proxy sends each host always to the same node,"
    " see crm/docs/beyond-one-machine.md",
    "CRM_OPEN_FILES": "use CRM_MAX_IDLE_CONNECTIONS, an upper bound",
    "backup drill": "use `backup test-restore`",
    "batch": "use the page of the import, or GET /api/v1/batches and POST …/batches/{id}/undo",
    "litestream restore": "use Litestream's own, then `restore`: see crm/docs/server-burnt-down.md",
    "litestream systemd": "write the unit of crm/docs/server-burnt-down.md",
    "tenant move": "use `tenant suspend`, `backup create` and `restore TENANT FILE --to PLACE`",
    "user add": "use `user create`",
    "webhook create": "use Settings, Webhooks, or POST /api/v1/webhooks",
    "webhook deliveries": "use Settings, Webhooks, or GET /api/v1/webhooks/{id}/deliveries",
    "webhook list": "use Settings, Webhooks, or GET /api/v1/webhooks",
    "webhook recover": "use Settings, Webhooks, or POST /api/v1/webhooks/{id}/recover",
    "webhook resend": "use Settings, Webhooks, or POST /api/v1/deliveries/{id}/resend",
    "webhook test": "use Settings, Webhooks, or POST /api/v1/webhooks/{id}/test",
}


def describe_removed(name: str) -> str | None:
    """Return the line for the operator who uses a name that is gone, None for any other name."""
    return f"{name} is gone: {REMOVED[name]}" if name in REMOVED else None
