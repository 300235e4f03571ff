"""Decides what became of a message that an agent got, and of which nothing was heard. Pure.

hermes-agent 0.19.0 never sends an answer that it finished while its socket was closed, and forgets a message that was
in memory when it died: its transcript alone says which (observed 2026-11-28).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.model.chat.transcript import Message, Transcript
from hermesops.model.messaging.message import NO_ANSWER, NOT_TAKEN, Incoming

SILENT = timedelta(seconds=60)
"""How long nothing may be heard of a message before the agent's transcript is read."""

LATE = timedelta(minutes=1)
"""Age of a word to an agent at work at which it is dropped: hermes-agent 0.19.0 waits for an approval for 60 s."""

MOST_TRIES = 3
"""How often a message is written to an agent that does not have it."""

LONGEST_AT_WORK = timedelta(minutes=30)
"""How long an agent may be at one message."""

LONGEST = timedelta(hours=24)
"""How long a message waits for an agent that does not answer at all."""

_SLACK = timedelta(minutes=2)
"""How far a machine's clock may be behind, and an equal text of before still be told apart from this one."""


@dataclass(frozen=True)
class Wait:
    """Nothing is decided yet: the message is looked into again later."""


@dataclass(frozen=True)
class Recover:
    """Deliver the answer that is in the transcript."""

    text: str = field(repr=False)


@dataclass(frozen=True)
class SendAgain:
    """The agent does not have the message."""


@dataclass(frozen=True)
class GiveUp:
    """Reply the user that there is no answer.

    Attributes:
        why: A word for operators.
    """

    why: str


Outcome = Wait | Recover | SendAgain | GiveUp


@dataclass(frozen=True)
class ChatView:
    """What an agent has of a chat.

    Attributes:
        is_busy: Whether the agent is at any message: one that has just begun may be missing in the transcript, on a
            slow machine for half a minute (observed 2026-11-30, hermes-agent 0.19.0).
    """

    transcript: Transcript
    is_busy: bool = False


def is_due(incoming: Incoming, fence: int, now: datetime) -> bool:
    """Whether a message under way is looked into: its socket is gone, or nothing was heard of it for a minute.

    Args:
        fence: Of the agent's present socket.
    """
    return incoming.fence != fence or incoming.sent_at is None or now - incoming.sent_at >= SILENT


def reconcile(incoming: Incoming, view: ChatView | None, now: datetime) -> Outcome:
    """What to do about a message of which nothing was heard.

    Args:
        view: Of its chat; ``None`` where the agent does not answer.
    """
    if view is None:
        return GiveUp("agent away") if now - incoming.received_at >= LONGEST else Wait()
    sent_at = incoming.sent_at or incoming.received_at
    question = _question(incoming, view.transcript)
    if question is None and (view.is_busy or now - sent_at < SILENT):
        return Wait()
    if question is None:
        return SendAgain() if incoming.tries < MOST_TRIES else GiveUp(NOT_TAKEN)
    answer = view.transcript.answer_after(question)
    if answer is not None and answer.text:
        return Recover(answer.text)
    return GiveUp(NO_ANSWER) if now - sent_at >= LONGEST_AT_WORK else Wait()


def _question(incoming: Incoming, transcript: Transcript) -> Message | None:
    """The user's message in the transcript: the last one with this text, unless it is clearly older."""
    sent_at = incoming.sent_at
    questions = [each for each in transcript.messages if each.role == "user" and _is_it(each.text, incoming)]
    newest = questions[-1] if questions else None
    is_older = newest is not None and newest.at is not None and sent_at is not None and newest.at < sent_at - _SLACK
    return None if is_older else newest


def _is_it(stored: str, incoming: Incoming) -> bool:
    """Whether a stored message is this one: agents may put a note before it, and behind one with images."""
    text = incoming.words
    if incoming.files:
        return f"\n{text}\n" in f"\n{stored}\n"
    return bool(text) and (stored == text or stored.endswith(f"\n{text}"))
