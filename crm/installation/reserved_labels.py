"""Labels that no new tenant gets (D18); one that has such a label keeps it."""

# fmt: off
RESERVED = frozenset({
    "www", "www1", "www2", "web", "api", "app", "apps", "admin", "administrator", "mail", "static",
    # Hosts that programs look up by themselves in any domain: their owner could act for all of it.
    "wpad", "isatap", "autodiscover", "autoconfig", "mta-sts", "openpgpkey", "localhost",
    # Servers beside the service.
    "smtp", "smtps", "imap", "imaps", "pop", "pop3", "webmail", "email", "mx", "mx1", "mx2",
    "relay", "lists", "ns", "ns1", "ns2", "ns3", "ns4", "dns", "dns1", "dns2", "ftp", "sftp",
    "ssh", "vpn", "proxy", "gateway", "ldap", "ntp", "git", "ci", "metrics", "monitoring",
    "grafana", "backup", "backups", "staging", "stage", "beta", "preview", "sandbox", "internal",
    "intranet", "system", "root", "health", "ws", "graphql", "webhook", "webhooks",
    "cdn", "assets", "media", "img", "image", "images", "file", "files", "download", "downloads",
    "upload", "uploads",
    # Names under which a tenant could pose as the operator of the service.
    "login", "logout", "signin", "signup", "register", "auth", "sso", "oauth", "oidc", "id",
    "account", "accounts", "password", "reset", "dashboard", "console", "panel", "cpanel",
    "portal", "control", "manage", "operator", "official", "support", "help", "helpdesk",
    "status", "docs", "doc", "developer", "developers", "wiki", "faq", "kb", "forum", "community",
    "chat", "blog", "news", "about", "contact", "legal", "privacy", "terms", "security", "abuse",
    "careers", "jobs", "press", "partners", "billing", "pay", "payment", "payments", "invoice",
    "invoices", "checkout", "pricing", "plans", "noreply", "no-reply", "postmaster", "hostmaster",
    "webmaster",
})
# fmt: on
