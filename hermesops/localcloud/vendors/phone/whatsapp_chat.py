"""The chat in WhatsApp, for the phone."""

from hermesops.localcloud.vendors.phone.chats import NAME, ChatView, PhoneChat
from hermesops.localcloud.vendors.phone.log_bubbles import bubbles
from hermesops.localcloud.vendors.whatsapp import NUMBER, LocalWhatsApp

PERSON = "15551111111"
"""Telephone number of the person whose phone it is."""


def whatsapp_chat(whatsapp: LocalWhatsApp) -> PhoneChat:
    """The person's chat with the number."""

    def read() -> ChatView:
        person = whatsapp.person(PERSON, NAME)
        typing_s = max(0.0, person.typing_until - whatsapp.clock())
        return ChatView(whatsapp.changes.number, bubbles(person.log), typing_s, person.is_blocked)

    def block(is_blocked: bool) -> bool:  # noqa: FBT001 - a switch of the page
        whatsapp.person(PERSON, NAME).is_blocked = is_blocked
        whatsapp.changes.add()
        return True

    return PhoneChat(
        key="whatsapp",
        title="WhatsApp",
        bot=f"+{NUMBER}",
        read=read,
        changed=whatsapp.changes.after,
        say=lambda text: whatsapp.post(whatsapp.message(PERSON, text)),
        start=lambda code: whatsapp.post(whatsapp.message(PERSON, f"link {code}".strip())),
        press=lambda _, data: whatsapp.post(whatsapp.pressing(PERSON, data, data)),
        block=block,
    )
