"""100,000 generated texts of agents for each messenger: none over its limit, every one back from its parts."""

import pytest

from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.texts.parts import WRITINGS
from tests.support.users.text_trial import try_texts

NUMBER = 100_000

pytestmark = [pytest.mark.turns(900, each=True), pytest.mark.timeout(7200)]


@pytest.mark.parametrize("messenger", WRITINGS)
def test_no_text_is_over_a_limit_or_changed(messenger: Messenger) -> None:
    parts = try_texts(messenger, NUMBER, seed=2)
    print(f"\n{messenger}: {NUMBER} texts, {parts} parts, none over the limit")  # noqa: T201 - the figure
