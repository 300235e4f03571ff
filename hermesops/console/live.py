"""The stream by which a page learns that its content has changed, and that the server still answers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from hermesops.base.waiting import pause
from hermesops.console.sources import Sources, Topic
from hermesops.errors import HermesError, RefusedError

EVERY_S = 1.0
"""Seconds between two events; pages are stale after four without one."""

_MOST = 32
"""Streams at once: one browser has a few tabs."""


@dataclass
class Streams:
    """Streams of events (https://html.spec.whatwg.org/multipage/server-sent-events.html) about topics.

    Attributes:
        open: Streams that are open now.
        most: Streams that may be open at a time.
    """

    sources: Sources
    open: int = 0
    most: int = _MOST

    def refuse_too_many(self) -> None:
        """Return if another stream may be opened.

        Raises:
            RefusedError: There are too many.
        """
        if self.open >= self.most:
            raise RefusedError(f"{self.most} pages are open; close some")

    async def events(self, topic: Topic, digest: str) -> AsyncIterator[bytes]:
        """Events about a topic, without end: ``change`` when its content differs, then ``beat``.

        Where the source does not answer, no event comes but ``away``, so that the page becomes stale.

        Args:
            digest: Of the content that the page shows.
        """
        self.open += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    snapshot = await self.sources.snapshot(topic)
                except HermesError:
                    yield b"event: away\ndata:\n\n"
                else:
                    if snapshot.digest != digest:
                        digest = snapshot.digest
                        yield b"event: change\ndata:\n\n"
                    yield b"event: beat\ndata:\n\n"
                await pause(EVERY_S)
        finally:
            self.open -= 1
