"""The chat in Telegram, for the phone.

Source: Telegram Bot API, "MessageEntity", "InlineKeyboardButton", "Deep linking".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermesops.localcloud.vendors.phone.chats import NAME, PERSON, Bubble, Button, ChatView, PhoneChat, Span
from hermesops.localcloud.vendors.telegram import BOT, LocalTelegram
from hermesops.localcloud.vendors.telegram_chats import Entry

_KINDS: Mapping[str, str] = {
    "bold": "bold",
    "italic": "italic",
    "underline": "underline",
    "strikethrough": "strike",
    "code": "code",
    "pre": "pre",
    "blockquote": "quote",
    "expandable_blockquote": "quote",
    "spoiler": "spoiler",
    "text_link": "link",
}


def telegram_chat(telegram: LocalTelegram) -> PhoneChat:
    """The person's chat with the bot at Telegram."""

    def read() -> ChatView:
        chat = telegram.chat(PERSON, NAME)
        typing_s = max(0.0, chat.typing_until - telegram.clock())
        return ChatView(telegram.changes, [_bubble(entry) for entry in chat.entries], typing_s, chat.is_blocked)

    return PhoneChat(
        key="telegram",
        title="Telegram",
        bot=f"@{BOT}",
        read=read,
        changed=telegram.changed,
        say=lambda text: telegram.post(telegram.message(PERSON, text)),
        start=lambda code: telegram.post(telegram.message(PERSON, f"/start {code}".strip())),
        press=lambda message, data: telegram.post(telegram.pressing(PERSON, message, data)),
        block=lambda is_blocked: telegram.post(telegram.blocking(PERSON, is_blocked=is_blocked)),
    )


def _bubble(entry: Entry) -> Bubble:
    buttons = [list(_buttons(row)) for row in entry.keyboard]
    return Bubble(entry.id, entry.is_of_bot, entry.text, list(_spans(entry.entities)), buttons, entry.edits > 0)


def _spans(entities: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    for entity in entities:
        kind = _KINDS.get(str(entity.get("type")))
        if kind:
            yield Span(int(entity["offset"]), int(entity["length"]), kind, str(entity.get("url", "")))


def _buttons(row: Sequence[Mapping[str, Any]]) -> Iterator[Button]:
    for button in row:
        yield Button(str(button.get("text", "")), str(button.get("callback_data", "")))
