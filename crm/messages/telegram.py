"""Telegram, by the HTTP API of bots: https://core.telegram.org/bots/api

The bot asks for what it was sent (getUpdates), so that nothing needs to reach this machine. The
token is a part of every URL: no error names one.
"""

from typing import Any

from crm.json import dumps, loads
from crm.messages import Undelivered
from crm.messages.deadline_connection import send_request

POLL_SECONDS = 25  # for which Telegram waits for an update
ANSWER_SECONDS = 10.0
MAX_UPDATES = 20
MAX_ANSWER_BYTES = 1 << 20
MAX_TEXT_CHARACTERS = 4096
FINAL_STATUSES = {400, 403}  # there is no such chat, or its user has blocked the bot


class Telegram:
    """A bot of Telegram."""

    def __init__(self, token: str, url: str):
        """`url` is that of the API."""
        self._url = f"{url}/bot{token}"

    def send(self, chat_id: str, subject: str, text: str) -> None:
        """Send a text to a chat; the subject is for other channels. Raises Undelivered."""
        # Without parse_mode a name in it can make no link, and no preview is fetched.
        preview = {"is_disabled": True}
        text = text[:MAX_TEXT_CHARACTERS]
        self._call("sendMessage", chat_id=chat_id, text=text, link_preview_options=preview)

    def get_updates(self, offset: int) -> list[dict[str, Any]]:
        """Wait for messages to the bot, those from the id `offset` on. Raises Undelivered.

        Those before it are not returned again, to nobody.
        """
        return self._call(
            "getUpdates",
            POLL_SECONDS + ANSWER_SECONDS,
            offset=offset,
            timeout=POLL_SECONDS,
            limit=MAX_UPDATES,
            allowed_updates=["message"],
        )

    def get_username(self) -> str:
        """Return the name of the bot. Raises Undelivered."""
        return str(self._call("getMe")["username"])

    def _call(self, method: str, seconds: float = ANSWER_SECONDS, **parameters: Any) -> Any:
        status, body, _ = send_request(
            "POST",
            f"{self._url}/{method}",
            {"Content-Type": "application/json"},
            dumps(parameters),
            MAX_ANSWER_BYTES,
            seconds,
        )
        if status != 200:
            raise Undelivered(f"Telegram answered {status}", final=status in FINAL_STATUSES)
        try:
            return loads(body)["result"]
        except (ValueError, TypeError, KeyError):
            raise Undelivered("Telegram answered something else than its JSON") from None
