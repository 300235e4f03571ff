"""Signs that an agent is at work: each four seconds in a chat, none while the messenger takes none."""

from typing import TYPE_CHECKING, cast

from hermesops.errors import UnavailableError
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Sent
from hermesops.users.messaging.outbound.typing_signs import PACE, TypingSigns

if TYPE_CHECKING:
    from hermesops.store.message_rows.incoming import IncomingMessages

CHATS = tuple(f"{number}" for number in range(30))


class Rows:
    """Chats at work."""

    def __init__(self, chats: tuple[str, ...]) -> None:
        self.chats = chats
        self.is_away = False

    def chats_at_work(self, messenger: Messenger) -> tuple[tuple[str, str], ...]:
        assert messenger is Messenger.TELEGRAM
        if self.is_away:
            raise UnavailableError("the database does not answer")
        return tuple((chat, f"m{chat}") for chat in self.chats)


def signs(rows: Rows, *deliveries: Delivery) -> tuple[TypingSigns, list[str]]:
    shown: list[str] = []

    async def show(chat: str, message: str) -> Delivery:
        assert message == f"m{chat}"
        shown.append(chat)
        return deliveries[len(shown) - 1] if len(shown) <= len(deliveries) else Sent("")

    return TypingSigns(Messenger.TELEGRAM, cast("IncomingMessages", rows), show), shown


async def test_a_chat_gets_a_sign_and_no_second_one_at_once() -> None:
    part, shown = signs(Rows(("1", "2")))
    assert [await part.show_due(), await part.show_due()] == [0.0, 0.0]
    assert shown == ["1", "2"]


async def test_many_chats_get_no_more_signs_than_the_budget_of_a_second() -> None:
    part, shown = signs(Rows(CHATS))
    await part.show_due()
    assert len(shown) == PACE.a_second


async def test_a_limit_is_waited_for_and_an_outage_is_not_worth_a_word() -> None:
    part, _ = signs(Rows(("1", "2", "3")), Away("x"), Limited(17.0), Limited(3.0))
    assert await part.show_due() == 17.0
    rows = Rows(("1",))
    rows.is_away = True
    assert await signs(rows)[0].show_due() == 0.0
