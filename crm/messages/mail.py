"""E-mail: one small port with two ways out, chosen by `CRM_MAIL`.

`console` writes to the standard output, `smtp://` and `smtps://` hand over to a mail server. A
password travels encrypted or not at all, except to a server on this very machine.
"""

import smtplib
import socket
from contextlib import closing, suppress
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import localtime, make_msgid
from ipaddress import ip_address
from typing import Any, Protocol

from crm import values
from crm.config import Config, MailServer
from crm.messages import Undelivered, write_to_stdout
from crm.messages.deadline_connection import create_tls_context, open_connection

SESSION_TIMEOUT_SECONDS = 30.0  # seconds for the whole talk; each step of it has dial.SECONDS

REFUSALS: dict[type[smtplib.SMTPResponseException], str] = {
    smtplib.SMTPAuthenticationError: "refused the login",
    smtplib.SMTPSenderRefused: "refused the sender",
    smtplib.SMTPDataError: "refused the message",
    smtplib.SMTPResponseException: "answered",
}


class MailSender(Protocol):
    """Sends one plain text to one address. Raises Undelivered."""

    def send(self, to: str, subject: str, text: str) -> None: ...


def create_mail_sender(config: Config) -> MailSender:
    """The port that the settings choose."""
    if config.mail and config.mail_from:
        return SMTPMailSender(config.mail, config.mail_from)
    return ConsoleMailSender()


class ConsoleMailSender:
    """Each e-mail on the standard output."""

    def send(self, to: str, subject: str, text: str) -> None:
        write_to_stdout(f"MAIL to {to}: {_one_line(subject)}\n{text}")


class SMTPMailSender:
    """A mail server that takes what is for others."""

    def __init__(self, server: MailServer, sender: Address):
        self._server, self._sender = server, sender

    def send(self, to: str, subject: str, text: str) -> None:
        server = self._server
        message = self._message(_address(to), _one_line(subject), text)
        with open_connection(
            server.host, server.port, server.tls, SESSION_TIMEOUT_SECONDS
        ) as given:
            try:
                with closing(_Session(given, server, self._sender.domain)) as session:
                    self._log_in(session)
                    session.send_message(message)
                    with suppress(OSError):  # it has been taken, whatever comes now
                        session.quit()
            except smtplib.SMTPServerDisconnected:
                raise
            except smtplib.SMTPException as refusal:
                raise _refused(refusal) from None

    def _message(self, to: Address, subject: str, text: str) -> EmailMessage:
        message = EmailMessage(policy.SMTP)
        message["From"], message["To"], message["Subject"] = self._sender, to, subject
        message["Date"] = localtime()
        # Neither this nor the session asks for the name of this machine, which may take long.
        message["Message-ID"] = make_msgid(domain=self._sender.domain)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text, cte="base64")
        return message

    def _log_in(self, session: "_Session") -> None:
        server = self._server
        session.ehlo_or_helo_if_needed()
        here = _is_this_machine(server.host)
        # A server here without a password gains nothing by TLS, and few have a certificate for it.
        if not server.tls and (server.user or not here):
            if session.has_extn("starttls"):
                session.starttls(context=create_tls_context())
            elif server.user and not here:
                raise Undelivered(
                    "the mail server offers no TLS, so the password was not sent", final=True
                )
        if server.user:
            session.login(server.user, server.password)


class _Session(smtplib.SMTP):
    """Talks on the connection it is given."""

    def __init__(self, given: socket.socket, server: MailServer, name: str):
        self._given = given
        super().__init__(server.host, server.port, local_hostname=name)

    def _get_socket(self, *_: Any) -> socket.socket:
        return self._given


def _address(to: str) -> Address:
    try:
        name, _, domain = (values.email(to) or "").partition("@")
        if name:
            return Address(username=name, domain=domain.encode("idna").decode("ascii"))
    except (values.InvalidValue, UnicodeError):
        pass
    raise Undelivered("the address is no e-mail address", final=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(refusal: smtplib.SMTPException) -> Undelivered:
    """The server's own words stay out: they tend to repeat the address."""
    if isinstance(refusal, smtplib.SMTPRecipientsRefused):
        ((code, _),) = refusal.recipients.values()
        did = "refused the recipient"
    elif isinstance(refusal, smtplib.SMTPResponseException):
        code = refusal.smtp_code
        did = next(did for kind, did in REFUSALS.items() if isinstance(refusal, kind))
    else:
        return Undelivered("the mail server lacks the login or letters it needs", final=True)
    return Undelivered(f"the mail server {did} ({code})", final=code >= 500)
