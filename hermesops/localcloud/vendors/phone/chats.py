"""Chats that the phone can show, whatever messenger they are in. A messenger needs one function that makes its chat."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

PERSON = 111_111
"""Number of the person whose phone it is, where a messenger numbers people."""

NAME = "Ada"


@dataclass(frozen=True)
class Span:
    """A range of a text with a format.

    Attributes:
        start: First unit of UTF-16; ``length`` are as many.
        kind: ``bold``, ``italic``, ``underline``, ``strike``, ``code``, ``pre``, ``quote``, ``spoiler`` or ``link``.
        url: Of a link.
    """

    start: int
    length: int
    kind: str
    url: str = ""


@dataclass(frozen=True)
class Button:
    """A button below a message; ``data`` is the bot's name of it."""

    label: str
    data: str


@dataclass(frozen=True)
class Bubble:
    """A message as the phone shows it."""

    id: int
    is_of_bot: bool
    text: str = field(repr=False)
    spans: Sequence[Span] = ()
    buttons: Sequence[Sequence[Button]] = ()
    is_edited: bool = False


@dataclass(frozen=True)
class ChatView:
    """A chat at one moment.

    Attributes:
        version: Differs after each change.
        typing_s: Seconds for which the bot is still shown as writing; 0 for not at all.
    """

    version: int
    bubbles: Sequence[Bubble]
    typing_s: float = 0.0
    is_blocked: bool = False


@dataclass(frozen=True)
class PhoneChat:
    """The person's chat with the bot of one messenger.

    Attributes:
        key: Name of the messenger in addresses.
        title: Name of the messenger for people.
        bot: Name of the bot.
        read: The chat as it is.
        changed: Waits until the chat has another version than this, or for so many seconds.
        say: Writes as the person; ``False`` where too much waits.
        start: Presses start with a code, as an address that opens the chat does; ``False`` as of ``say``.
        press: Presses a button of a message; ``None`` where the bot shows none.
        block: Blocks the bot, or does so no more; ``None`` where the messenger's people cannot.
    """

    key: str
    title: str
    bot: str
    read: Callable[[], ChatView]
    changed: Callable[[int, float], Awaitable[None]]
    say: Callable[[str], bool]
    start: Callable[[str], bool]
    press: Callable[[int, str], bool] | None = None
    block: Callable[[bool], bool] | None = None
