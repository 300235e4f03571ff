"""A user who chats: each message until its end, over streams that break off and resume behind the last event.

Some messages make the agent ask for approval, which the user gives, refuses or forgets.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hermesops.base.waiting import cancel, pause
from tests.support.users.api import Event
from tests.support.users.kills.asking import Asking, AwayError, RefusedError
from tests.support.users.kills.deciding import Decision, Decisions
from tests.support.users.kills.outside.echo_agents import is_answer_to, message_of
from tests.support.users.kills.streams import Stream, Way

_PATIENCE_S = 900.0
"""Seconds after which a message without an end counts as lost: a lease for each of many processes that may die."""

_CUT_SHARE = 0.2
_MESSAGES_OF_A_CONVERSATION = 12
_MOST_REQUESTS = 2
_LAST = frozenset({"done", "failed", "stopped"})


@dataclass
class Message:
    """A message and what its readers got.

    Attributes:
        key: The client's; the text has it, too.
        began: Seconds of a clock that never goes back, as ``ended``, which is 0 until the end.
        end: Kind of the last event; empty for none.
        pieces: Of the answer, as they came.
        answer: The whole one, of the last event.
        decisions: About the agent's requests for approval.
        wrong: What must not be.
    """

    key: str
    text: str
    conversation: str
    began: float
    decisions: Decisions
    ended: float = 0.0
    turn: str = ""
    end: str = ""
    detail: str = ""
    last_id: str = ""
    pieces: str = ""
    answer: str = ""
    resumes: int = 0
    wrong: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Take an event of the stream, and check its place in it."""
        if event.kind == "turn":
            self._begin(event)
            return
        self._advance(event)
        if event.kind == "delta":
            self.pieces += event.data["text"]
        elif event.kind in _LAST:
            self._finish(event)

    def _begin(self, event: Event) -> None:
        if self.turn not in {"", event.data["id"]}:
            self.wrong.append(f"turn {self.turn} is turn {event.data['id']} now")
        if event.data["client_key"] != self.key:
            self.wrong.append(f"another message's turn: {event.data['client_key']}")
        self.turn = event.data["id"]

    def _advance(self, event: Event) -> None:
        before, now = _position(self.last_id), _position(event.id)
        if now <= before:
            self.wrong.append(f"event {event.id} came after {self.last_id}")
        self.last_id = event.id

    def _finish(self, event: Event) -> None:
        self.end, self.ended = event.kind, time.monotonic()
        self.detail = str(event.data.get("detail", ""))
        self.answer = str(event.data.get("text", ""))
        if event.kind == "done" and not is_answer_to(self.text, self.answer):
            self.wrong.append(f"the answer is {self.answer!r}")
        if event.kind == "done" and not self.answer.strip().startswith(self.pieces.strip()):
            self.wrong.append(f"pieces {self.pieces!r} are no begin of {self.answer!r}")


def _position(cursor: str) -> int:
    return int(cursor.rpartition(":")[2] or 0)


@dataclass(frozen=True)
class Habits:
    """What a user does.

    Attributes:
        every_s: Seconds between two messages on average.
        asks_share: Share of messages for which the agent asks for approval.
        slow_share: Share of the requests that are answered late or never.
    """

    every_s: float = 20.0
    asks_share: float = 0.2
    slow_share: float = 0.15


@dataclass
class Chatting:
    """A user who chats.

    Attributes:
        name: Unique among users: keys begin with it.
        way: In which this user's page reads.
        messages: All that were sent.
    """

    name: str
    asking: Asking
    way: Way
    habits: Habits
    messages: list[Message] = field(default_factory=list)
    _stream: Stream | None = field(default=None, repr=False)
    _deciding: list[asyncio.Future[None]] = field(default_factory=list, repr=False)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Chat until it is over; the last message is waited for."""
        every_s = self.habits.every_s
        await pause(self.chance.uniform(0, every_s))
        while not is_over():
            message = self._message()
            self.messages.append(message)
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._say(message)
            except TimeoutError:
                message.wrong.append(f"no end after {_PATIENCE_S:g} s")
            except RefusedError as refused:
                message.wrong.append(str(refused))
            finally:
                await cancel(*self._deciding)
                self._deciding.clear()
            await pause(self.chance.uniform(0, 2 * every_s))

    @property
    def chance(self) -> random.Random:
        """The user's choices."""
        return self.asking.chance

    def _message(self) -> Message:
        number = len(self.messages)
        key, conversation = f"{self.name}-{number}", f"c{number // _MESSAGES_OF_A_CONVERSATION}"
        asks = self.chance.random() < self.habits.asks_share
        text = message_of(key, self.chance.randint(1, _MOST_REQUESTS) if asks else 0)
        return Message(key, text, conversation, time.monotonic(), Decisions(self.chance, self.habits.slow_share))

    async def _say(self, message: Message) -> None:
        """Send, and resume until the last event."""
        body = {
            "message": message.text,
            "conversation": message.conversation,
            "client_key": message.key,
            "files": [],
        }
        while not message.end:
            message.resumes += bool(message.turn)
            try:
                await self._read(message, body)
            except AwayError:
                await self.asking.wait()

    async def _read(self, message: Message, body: Mapping[str, object]) -> None:
        """Read a stream to its end, or until this reader leaves it."""
        left = self.chance.randint(1, 8) if self.chance.random() < _CUT_SHARE else 0
        async with self.way(self.asking, body, message.turn, message.last_id) as stream:
            self._stream = stream
            async for event in stream.events:
                message.take(event)
                self._decide(message, event)
                left -= 1
                if message.end or left == 0:
                    break
        if not message.end:  # cut here or there: another process may have the rest
            self.asking.first = self.chance.randrange(len(self.asking.urls))

    def _decide(self, message: Message, event: Event) -> None:
        """Begin to think about a request for approval, while events go on."""
        if event.kind not in {"approval", "resolved"}:
            return
        if decision := message.decisions.take(event):
            number = str(event.data["id"])
            answering = decision.answer(lambda: self._approve(message, number, decision))
            self._deciding.append(asyncio.ensure_future(answering))

    async def _approve(self, message: Message, number: str, decision: Decision) -> bool:
        if self._stream is None:
            raise AwayError("no stream is open")
        return await self._stream.approve(message.turn, number, decision.choice)
