"""What became of a part that was sent to a messenger, and what is recorded of it."""

from dataclasses import dataclass
from datetime import timedelta

from hermesops.model.messaging.message import TOKEN_REFUSED, Outgoing, OutgoingState

MOST_TRIES = 1_440
"""Attempts of one part that a messenger does not take for now: about a day, one a minute in the end."""

_LONGEST_WAIT_S = 60.0
_UNCERTAIN_WAIT_S = 5.0


@dataclass(frozen=True)
class Sent:
    """The messenger has it.

    Attributes:
        vendor_id: Its id there.
    """

    vendor_id: str


@dataclass(frozen=True)
class Limited:
    """The messenger takes nothing of this chat for some time.

    Attributes:
        after_s: Seconds, as the messenger says.
        is_for_all: Whether it takes nothing of other chats either.
    """

    after_s: float
    is_for_all: bool = False


@dataclass(frozen=True)
class Away:
    """The messenger was not reached, is broken or does not take the bot's token: it does not have the part.

    Attributes:
        is_of_token: Whether an operator has to mend the token.
    """

    why: str
    is_of_token: bool = False


@dataclass(frozen=True)
class Uncertain:
    """No answer came: the messenger may have it."""

    why: str


@dataclass(frozen=True)
class Closed:
    """The messenger takes nothing of this chat until the user writes again: the part waits for that."""

    why: str


@dataclass(frozen=True)
class Refused:
    """The messenger will never take it.

    Attributes:
        is_blocked: Whether the user has blocked the bot.
    """

    why: str
    is_blocked: bool = False


Delivery = Sent | Limited | Away | Uncertain | Closed | Refused


@dataclass(frozen=True)
class Record:
    """What is recorded of a part.

    Attributes:
        state: ``QUEUED`` and ``UNCERTAIN`` are tried again after ``after``, ``WAITING`` after the user's next message;
            others end.
    """

    state: OutgoingState
    after: timedelta = timedelta()
    vendor_id: str = ""
    detail: str = ""

    @property
    def is_end(self) -> bool:
        """Whether the part is not sent any more."""
        return self.state in {OutgoingState.SENT, OutgoingState.REFUSED}


def record_of(outgoing: Outgoing, delivery: Delivery) -> Record:
    """What to record of a part after an attempt. Pure.

    Args:
        outgoing: As it was before the attempt.
    """
    match delivery:
        case Sent(vendor_id):
            return Record(OutgoingState.SENT, vendor_id=vendor_id)
        case Limited(after_s):
            return Record(outgoing.state, timedelta(seconds=max(0.0, after_s)), detail="limited")
        case Uncertain(why) if outgoing.state is OutgoingState.UNCERTAIN:
            # It was sent twice and may be there twice: a third time helps nobody.
            return Record(OutgoingState.SENT, detail=f"uncertain twice: {why}")
        case Uncertain(why):
            return Record(OutgoingState.UNCERTAIN, timedelta(seconds=_UNCERTAIN_WAIT_S), detail=why)
        case Away(why) if outgoing.tries >= MOST_TRIES:
            return Record(OutgoingState.REFUSED, detail=f"given up: {why}")
        case Away(why, is_of_token):
            after = timedelta(seconds=min(_LONGEST_WAIT_S, 2.0 ** min(outgoing.tries, 6)))
            return Record(outgoing.state, after, detail=f"{TOKEN_REFUSED}: {why}" if is_of_token else f"away: {why}")
        case Closed(why):
            return Record(OutgoingState.WAITING, detail=why)
        case Refused(why):
            return Record(OutgoingState.REFUSED, detail=why)


MOST_REPORTS = 6
"""How often a part may be sent of which the messenger reports that it failed."""


def record_of_report(outgoing: Outgoing, delivery: Delivery) -> Record:
    """What to record of a part that a messenger took, and of which it reports that it failed. Pure."""
    if outgoing.tries >= MOST_REPORTS and not isinstance(delivery, Closed):
        return Record(OutgoingState.REFUSED, detail="failed too often")
    match delivery:
        case Limited(after_s):
            return Record(OutgoingState.QUEUED, timedelta(seconds=after_s), detail="too many messages")
        case Away(why):
            return Record(OutgoingState.QUEUED, timedelta(seconds=_LONGEST_WAIT_S), detail=why)
    return record_of(outgoing, delivery)
