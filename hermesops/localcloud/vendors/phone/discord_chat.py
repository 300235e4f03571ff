"""The chat in Discord, for the phone."""

from hermesops.localcloud.vendors.discord import APP, LocalDiscord
from hermesops.localcloud.vendors.phone.chats import NAME, ChatView, PhoneChat
from hermesops.localcloud.vendors.phone.log_bubbles import bubbles

PERSON = "111111111111111111"
"""Id of the person whose phone it is."""

MARKS = {"**": "bold", "*": "italic", "_": "italic", "~~": "strike"}


def discord_chat(discord: LocalDiscord) -> PhoneChat:
    """The person's chat with the bot."""

    def read() -> ChatView:
        person = discord.person(PERSON, NAME)
        typing_s = max(0.0, person.typing_until - discord.clock())
        return ChatView(discord.changes.number, bubbles(person.log, MARKS), typing_s, person.is_blocked)

    def block(is_blocked: bool) -> bool:  # noqa: FBT001 - a switch of the page
        discord.person(PERSON, NAME).is_blocked = is_blocked
        discord.changes.add()
        return True

    return PhoneChat(
        key="discord",
        title="Discord",
        bot=APP,
        read=read,
        changed=discord.changes.after,
        say=lambda text: discord.post(discord.message(PERSON, text)),
        start=lambda code: discord.post(discord.message(PERSON, f"link {code}".strip())),
        press=lambda _, data: discord.press(PERSON, data),
        block=block,
    )
