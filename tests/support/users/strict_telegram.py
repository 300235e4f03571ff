"""The local Telegram, with a look at the entities of what is sent: each wrong one counts as a broken limit."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from hermesops.localcloud.vendors.telegram import LocalTelegram
from hermesops.users.messaging.messengers.telegram.write import MOST_ENTITIES

_KINDS = {"bold", "italic", "strikethrough", "code", "pre", "text_link"}


class StrictTelegram(LocalTelegram):
    """A Telegram that keeps the entities of messages.

    Attributes:
        entities: Of each message that was taken, by its text.
    """

    def __init__(self, *, webhook: str = "", secret: str = "") -> None:
        super().__init__(webhook=webhook, secret=secret)
        self.entities: dict[str, list[dict[str, Any]]] = {}

    def _to_chat(self, method: str, body: Mapping[str, Any]) -> Response:
        if method == "sendMessage":
            entities = body.get("entities", [])
            self.broken.update(wrong_entities(str(body["text"]), entities))
            self.entities[str(body["text"])] = entities
        return super()._to_chat(method, body)


def wrong_entities(text: str, entities: list[dict[str, Any]]) -> list[str]:
    """What is wrong with a message's entities, a word each.

    Source: Telegram Bot API, "MessageEntity".
    """
    units = text.encode("utf-16-le")
    wrong = ["entities"] * (len(entities) > MOST_ENTITIES) + ["blank"] * (text != text.rstrip())
    for entity in entities:
        start, length = entity["offset"], entity["length"]
        stretch = units[2 * start : 2 * (start + length)]
        try:
            stretch.decode("utf-16-le")
        except UnicodeDecodeError:
            wrong.append("surrogate")
        if entity["type"] not in _KINDS or length <= 0 or start < 0 or len(stretch) != 2 * length:
            wrong.append("stretch")
        wrong += ["url"] * ((entity["type"] == "text_link") != ("url" in entity))
    codes = [each for each in entities if each["type"] in {"code", "pre"}]
    others = [each for each in entities if each["type"] not in {"code", "pre"}]
    wrong += ["nested" for code in codes for other in others if _overlap(code, other)]
    return wrong


def _overlap(entity: Mapping[str, int], other: Mapping[str, int]) -> bool:
    end, other_end = (each["offset"] + each["length"] for each in (entity, other))
    return entity["offset"] < other_end and other["offset"] < end
