"""Which users have connected a chat of Telegram, and how they connect it: by a one-time code.

The profile shows the code, and the user sends it to the bot as `/start LABEL_CODE`. Only a chat
with one person is connected: others would read there what only the user may see.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crm.access import links
from crm.errors import CRMError
from crm.installation.tenants import Tenants
from crm.messages.telegram import Telegram
from crm.storage.session import execute, row, transaction

START = re.compile(r"/start ([a-z0-9-]{1,63})_([\w-]{1,64})\Z", re.ASCII)
RETRY_SECONDS = 5.0

Answer = Callable[[str | None, bool], str]  # (language, is connected) -> text

log = logging.getLogger("crm")


def is_connected(user_id: int) -> bool:
    """Whether a user has connected a chat."""
    return row("SELECT 1 FROM telegram_chat WHERE user_id = ?", (user_id,)) is not None


def disconnect(user_id: int) -> None:
    """Send a user nothing more by Telegram."""
    with transaction():
        execute("DELETE FROM telegram_chat WHERE user_id = ?", (user_id,))


def disconnect_all() -> None:
    """Send nobody anything more by Telegram; inside a transaction."""
    execute("DELETE FROM telegram_chat")


def connect(token: str, chat_id: str) -> bool:
    """Connect a chat to the user whose code this is; False if the code is not good."""
    with transaction():
        if link := links.use(links.TELEGRAM, token):
            disconnect(link.user_id)
            params = link.user_id, chat_id
            execute("INSERT INTO telegram_chat (user_id, chat_id) VALUES (?, ?)", params)
    return link is not None


class TelegramReceiver:
    """Reads what is sent to the bot, and connects the chats of good codes."""

    def __init__(self, tenants: Tenants, telegram: Telegram, answer: Answer):
        self._tenants, self._telegram, self._answer = tenants, telegram, answer

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Read in a `with` block, by a thread."""
        stopped = threading.Event()
        threading.Thread(target=self._run, args=(stopped,), name="telegram", daemon=True).start()
        try:
            yield
        finally:
            stopped.set()

    def _run(self, stopped: threading.Event) -> None:
        offset, level = 0, logging.WARNING
        while not stopped.is_set():
            try:
                for update in self._telegram.get_updates(offset):
                    offset = update["update_id"] + 1
                    self._receive(update.get("message") or {})
                level = logging.WARNING
            except Exception as error:  # its text may contain the message
                reason = getattr(error, "reason", type(error).__name__)
                log.log(level, "messages to the bot of Telegram cannot be read: %s", reason)
                level = logging.DEBUG  # once, until it works again
                stopped.wait(RETRY_SECONDS)

    def _receive(self, message: dict[str, Any]) -> None:
        chat = message.get("chat") or {}
        match = START.match(message.get("text") or "")
        if chat.get("type") != "private" or not match:
            return
        label, token = match.groups()
        try:
            with self._tenants.session(label, sweeps_expired=False):
                has_connected = connect(token, str(chat["id"]))
        except CRMError:  # there is no such tenant, or it cannot be read now
            has_connected = False
        language = (message.get("from") or {}).get("language_code")
        self._telegram.send(str(chat["id"]), "", self._answer(language, has_connected))
