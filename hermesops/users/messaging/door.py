"""Takes what messengers report at the door: verified over its raw bytes, read, one row, and then it is ours.

Source: Telegram Bot API, "setWebhook": a report that was not answered with success is sent again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hermesops.errors import RefusedError
from hermesops.model.messaging.message import Update
from hermesops.users.messaging.messengers.telegram import read as telegram
from hermesops.wire.strict_json import MalformedJSONError


class UnsignedReportError(RefusedError):
    """The request does not prove that its messenger sent it."""


@dataclass(frozen=True)
class TelegramDoor:
    """Takes updates of Telegram's.

    Attributes:
        secrets: Read for each update: two while one is changed.
        receive: Writes an update into a row, unless it is there already.
    """

    secrets: Callable[[], Sequence[str]]
    receive: Callable[[Update], bool]

    def take(self, body: bytes, header: str) -> None:
        """Verify an update and keep it; one that concerns nobody is dropped.

        Args:
            header: ``X-Telegram-Bot-Api-Secret-Token``.

        Raises:
            UnsignedReportError: See there.
            UnavailableError: The row could not be written: Telegram sends the update again.
        """
        if len(body) > telegram.LARGEST or not telegram.is_telegrams(header, self.secrets()):
            raise UnsignedReportError("the update does not come from Telegram")
        try:
            update = telegram.read(body)
        except MalformedJSONError:
            return  # signed, and nothing that is sent again would be better
        if update is not None:
            self.receive(update)
