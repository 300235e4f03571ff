"""What is recorded of a part that a messenger took, and of which it reports later that it failed. Pure."""

from collections.abc import Callable, Mapping

from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.whatsapp import errors
from hermesops.users.messaging.outbound.delivery import Delivery, Record, Refused, record_of_report

_MEANINGS: Mapping[Messenger, Callable[[int, str, int], Delivery]] = {Messenger.WHATSAPP: errors.delivery_of_code}
"""Of codes, by messenger: with words, and how often the part was sent before."""


def failure_of(part: Outgoing, code: str) -> tuple[Record, bool]:
    """What is recorded of a part, and whether its user has blocked the bot.

    Args:
        code: The messenger's word for why, as its reader gave it.
    """
    meaning, words = _MEANINGS.get(part.messenger), f"code {code}"
    known = meaning is not None and code.isdecimal() and len(code) <= 9  # noqa: PLR2004 - no longer code is documented
    delivery = meaning(int(code), words, part.tries - 1) if known and meaning else Refused(words)
    return record_of_report(part, delivery), isinstance(delivery, Refused) and delivery.is_blocked
