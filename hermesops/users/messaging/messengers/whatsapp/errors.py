"""Errors of WhatsApp's Cloud API, in answers and in reports of messages that failed. Pure.

Source: WhatsApp Business Platform, "Error codes"; its pages on throughput and on pair rate limits, whose wait is four
seconds to the power of the number of attempts.
"""

from collections.abc import Mapping
from typing import Any

from hermesops.users.messaging.outbound.delivery import Away, Closed, Delivery, Limited, Refused
from hermesops.wire.foreign_text import one_line

CLOSED = "outside of the 24 hours after its user's last message"

THROUGHPUT_S = 5.0
_OF_ACCOUNT_S = 300.0
_UPGRADE_S = 60.0
_SPAM_S = 600.0
_LONGEST_PAIR_S = 1024.0
_MOST_POWER = 5

_WINDOW, _PAIR = 131047, 131056
_LIMITS_S = {
    130429: THROUGHPUT_S,  # messages of the number in a second
    131057: _UPGRADE_S,  # the number is being given more of them
    4: _OF_ACCOUNT_S,  # calls of the app in an hour
    80007: _OF_ACCOUNT_S,  # calls of the account in an hour
    131048: _SPAM_S,  # too many people have blocked the number
}
"""Seconds for which nothing is sent to anybody, by code."""

_BLOCKED = frozenset({131026, 131050})
"""The person cannot be reached: has blocked the number, has no WhatsApp any more, or wants no such messages."""

OF_TOKEN = frozenset({0, 3, 10, 190, *range(200, 300)})
_OF_OPERATOR = OF_TOKEN | {33, 368, 131005, 131031, 131042, 131045, 133010}
"""Errors that an operator mends at Meta: the message waits."""

_AWAY = frozenset({1, 2, 131000, 131016, 133004})


def delivery_of_code(code: int, words: str, tries: int) -> Delivery:
    """What an error says about a message.

    Args:
        words: Meta's, as they are recorded.
        tries: How often the part was sent before.
    """
    if code == _WINDOW:
        return Closed(CLOSED)
    if code == _PAIR:
        return Limited(min(_LONGEST_PAIR_S, 4.0 ** min(max(tries, 0) + 1, _MOST_POWER)))
    if code in _LIMITS_S:
        return Limited(_LIMITS_S[code], is_for_all=True)
    if code in _OF_OPERATOR | _AWAY:
        return Away(words, is_of_token=code in OF_TOKEN)
    return Refused(words, is_blocked=code in _BLOCKED)


def code_in(content: Mapping[str, Any]) -> int | None:
    """The code of an answer's error; ``None`` for none."""
    error = content.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def words_in(content: Mapping[str, Any]) -> str:
    """The words of an answer's error; empty for none."""
    error = content.get("error")
    return one_line(str(error.get("message") or ""), longest=120) if isinstance(error, dict) else ""
