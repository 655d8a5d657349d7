"""Senders of e-mail, chosen by `CRM_MAIL`.

`console` writes to the standard output, `smtp://` and `smtps://` send by a mail server. A password
is only sent encrypted, except to a server on this machine.
"""

import smtplib
import socket
import ssl
from contextlib import closing, suppress
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import localtime, make_msgid
from typing import Any, Protocol

from crm import values
from crm.config import Config, MailServer
from crm.messages import Attachment, Undelivered
from crm.messages.deadline_connection import open_connection
from crm.networks import parse_address

SESSION_TIMEOUT_SECONDS = 30.0  # each step of it has STEP_TIMEOUT_SECONDS


class MailSender(Protocol):
    """Sends e-mails of plain text."""

    def send(self, to: str, subject: str, text: str, attachment: Attachment | None = None) -> None:
        """Send one e-mail to one address. Raises Undelivered."""


def create_mail_sender(config: Config) -> MailSender:
    """Return the sender that CRM_MAIL chooses."""
    if config.mail and config.mail_from:
        return SMTPMailSender(config.mail, config.mail_from)
    return ConsoleMailSender()


class ConsoleMailSender:
    """Writes e-mails to the standard output."""

    def send(self, to: str, subject: str, text: str, attachment: Attachment | None = None) -> None:
        file = f"[{_one_line(attachment.name)}]\n" if attachment else ""
        # In one write: another thread may print, too.
        print(f"MAIL to {to}: {_one_line(subject)}\n{text}\n{file}", end="", flush=True)


class SMTPMailSender:
    """Sends e-mails by a mail server."""

    def __init__(self, server: MailServer, sender: Address):
        self._server, self._sender = server, sender

    def send(self, to: str, subject: str, text: str, attachment: Attachment | None = None) -> None:
        server = self._server
        message = self._make_message(_parse_address(to), _one_line(subject), text)
        if attachment:
            main, _, sub = attachment.content_type.partition("/")
            message.add_attachment(
                attachment.content, maintype=main, subtype=sub, filename=attachment.name
            )
        with open_connection(
            server.host, server.port, server.tls, SESSION_TIMEOUT_SECONDS
        ) as connected:
            try:
                with closing(_Session(connected, server, self._sender.domain)) as session:
                    self._log_in(session)
                    session.send_message(message)
                    with suppress(OSError):  # the message is accepted, whatever happens now
                        session.quit()
            except smtplib.SMTPServerDisconnected:
                raise
            except smtplib.SMTPException as error:
                raise _describe_refusal(error) from None

    def _make_message(self, to: Address, subject: str, text: str) -> EmailMessage:
        message = EmailMessage(policy.SMTP)
        message["From"], message["To"], message["Subject"] = self._sender, to, subject
        message["Date"] = localtime()
        # Neither this nor the session looks up this machine's host name, which may take long.
        message["Message-ID"] = make_msgid(domain=self._sender.domain)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text, cte="base64")
        return message

    def _log_in(self, session: "_Session") -> None:
        server = self._server
        session.ehlo_or_helo_if_needed()
        address = parse_address(server.host)
        is_local = address.is_loopback if address else server.host == "localhost"
        # A local server without a password gains nothing by TLS, and few have a certificate.
        if not server.tls and (server.user or not is_local):
            if session.has_extn("starttls"):
                session.starttls(context=ssl.create_default_context())
            elif server.user and not is_local:
                raise Undelivered(
                    "the mail server offers no TLS, so the password was not sent", final=True
                )
        if server.user:
            session.login(server.user, server.password)


class _Session(smtplib.SMTP):
    """An SMTP session on a connected socket."""

    def __init__(self, connected: socket.socket, server: MailServer, local_hostname: str):
        self._connected = connected
        # By the host its certificate is checked after STARTTLS; connect() is called from there.
        super().__init__(server.host, server.port, local_hostname=local_hostname)

    def connect(self, *_: Any) -> tuple[int, bytes]:
        """Take the connected socket, and read the greeting of the server."""
        self.sock, self.file = self._connected, None
        return self.getreply()


def _parse_address(text: str) -> Address:
    try:
        name, domain = (values.email(text) or "").split("@")
        return Address(username=name, domain=domain.encode("idna").decode("ascii"))
    except (values.InvalidValue, ValueError):
        raise Undelivered("the address is no e-mail address", final=True) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _describe_refusal(error: smtplib.SMTPException) -> Undelivered:
    """Return the error without the server's own words, which tend to repeat the address."""
    code, what = getattr(error, "smtp_code", None), "the message"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        ((code, _),), what = error.recipients.values(), "the recipient"
    elif isinstance(error, smtplib.SMTPAuthenticationError):
        what = "the login"
    if code is None:
        return Undelivered("the mail server lacks the login or letters it needs", final=True)
    return Undelivered(f"the mail server refused {what} ({code})", final=code >= 500)
