"""Many generated texts of agents through a messenger's writing: none over its limit, each back from its parts."""

import random
from collections.abc import Callable, Mapping

from hermesops.model.messaging.messenger import LIMITS, Messenger
from hermesops.users.messaging.messengers.telegram import write as telegram
from hermesops.users.messaging.texts import markdown
from hermesops.users.messaging.texts.parts import WRITINGS
from hermesops.users.messaging.texts.splitting import split
from hermesops.users.messaging.texts.styled_text import StyledText
from tests.support.users.agent_texts import text_of
from tests.support.users.strict_telegram import wrong_entities


def try_texts(messenger: Messenger, number: int, seed: int = 1) -> int:
    """Try texts; returns the number of their parts."""
    rng, parts = random.Random(seed), 0  # noqa: S311 - repeatable
    for _ in range(number):
        parts += _try(messenger, text_of(rng))
    return parts


def _try(messenger: Messenger, text: str) -> int:
    styled, writing, limit = markdown.read(text), WRITINGS[messenger], LIMITS[messenger]
    parts = split(styled, limit, writing.measure)
    assert StyledText.joined(run for part in parts for run in part.runs) == styled, text
    for part in parts:
        written = writing.write(part)
        assert not PROBLEMS[messenger](written), (text, written)
        assert writing.measure(part) <= limit.most, text
    return len(parts)


def _of_telegram(written: str) -> list[str]:
    parameters = telegram.parse(written)
    text = parameters["text"]
    too_long = ["length"] * (len(text.encode("utf-16-le")) > 2 * 4096)
    return [*too_long, *wrong_entities(text, parameters.get("entities", []))]


def _of_slack(written: str) -> list[str]:
    mentions = [word for word in ("<!", "<@", "<#") if word in written]
    return mentions + ["length"] * (len(written) > 4000) + ["fence"] * (written.count("```") % 2)


def _of_whatsapp(written: str) -> list[str]:
    return ["length"] * (len(written.encode("utf-16-le")) > 2 * 4096) + ["fence"] * (written.count("```") % 2)


def _of_discord(written: str) -> list[str]:
    return ["length"] * (len(written.encode("utf-16-le")) > 2 * 2000) + ["fence"] * (written.count("```") % 2)


PROBLEMS: Mapping[Messenger, Callable[[str], list[str]]] = {
    Messenger.TELEGRAM: _of_telegram,
    Messenger.SLACK: _of_slack,
    Messenger.WHATSAPP: _of_whatsapp,
    Messenger.DISCORD: _of_discord,
}
"""What is wrong with a part as it is sent, by messenger."""
