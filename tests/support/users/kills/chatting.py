"""A user who chats: each message until its end, over streams that break off and resume behind the last event."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hermesops.base.waiting import pause
from tests.support.users.api import Event, events_in
from tests.support.users.kills.asking import Asking, AwayError, RefusedError
from tests.support.users.kills.echo_agents import is_answer_to

_PATIENCE_S = 900.0
"""Seconds after which a message without an end counts as lost: a lease for each of many processes that may die."""

_CUT_SHARE = 0.2
_MESSAGES_OF_A_CONVERSATION = 12
_LAST = frozenset({"done", "failed", "stopped"})


@dataclass
class Message:
    """A message and what its readers got.

    Attributes:
        key: The client's; the text has it, too.
        began: Seconds of a clock that never goes back, as ``ended``, which is 0 until the end.
        end: Kind of the last event; empty for none.
        pieces: Of the answer, as they came.
        wrong: What must not be.
    """

    key: str
    text: str
    began: float
    ended: float = 0.0
    turn: str = ""
    end: str = ""
    detail: str = ""
    last_id: str = ""
    pieces: str = ""
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
        answer = str(event.data.get("text", ""))
        if event.kind == "done" and not is_answer_to(self.text, answer):
            self.wrong.append(f"the answer is {answer!r}")
        if event.kind == "done" and not answer.strip().startswith(self.pieces.strip()):
            self.wrong.append(f"pieces {self.pieces!r} are no begin of {answer!r}")


def _position(cursor: str) -> int:
    return int(cursor.rpartition(":")[2] or 0)


@dataclass
class Chatting:
    """A user who chats.

    Attributes:
        name: Unique among users: keys begin with it.
        every_s: Seconds between two messages on average.
        messages: All that were sent.
    """

    name: str
    asking: Asking
    every_s: float
    messages: list[Message] = field(default_factory=list)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Chat until it is over; the last message is waited for."""
        await pause(self.chance.uniform(0, self.every_s))
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
            await pause(self.chance.uniform(0, 2 * self.every_s))

    @property
    def chance(self) -> random.Random:
        """The user's choices."""
        return self.asking.chance

    def _message(self) -> Message:
        key = f"{self.name}-{len(self.messages)}"
        return Message(key, f"word {key} end", time.monotonic())

    async def _say(self, message: Message) -> None:
        """Send, and resume until the last event."""
        conversation = f"c{(len(self.messages) - 1) // _MESSAGES_OF_A_CONVERSATION}"
        body = {"message": message.text, "conversation": conversation, "client_key": message.key, "files": []}
        while not message.end:
            try:
                if message.turn:
                    message.resumes += 1
                    path, headers = f"/chat/turns/{message.turn}/events", {"last-event-id": message.last_id}
                    await self._read(message, "GET", path, headers if message.last_id else {}, None)
                else:
                    await self._read(message, "POST", "/chat", {}, body)
            except AwayError:
                await self.asking.wait()

    async def _read(self, message: Message, method: str, path: str, headers: Mapping[str, str], body: object) -> None:
        """Read a stream to its end, or until this reader leaves it."""
        left = self.chance.randint(1, 8) if self.chance.random() < _CUT_SHARE else 0
        async with self.asking.stream(method, path, headers=headers, body=body) as response:
            async for event in events_in(response):
                message.take(event)
                left -= 1
                if message.end or left == 0:
                    break
        if not message.end:  # cut here or there: another process may have the rest
            self.asking.first = self.chance.randrange(len(self.asking.urls))
