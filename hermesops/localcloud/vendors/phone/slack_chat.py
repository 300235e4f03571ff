"""The chat in Slack, for the phone.

Source: Slack, "Formatting text for app surfaces".
"""

from hermesops.localcloud.vendors.phone.chats import ChatView, PhoneChat
from hermesops.localcloud.vendors.phone.log_bubbles import bubbles
from hermesops.localcloud.vendors.phone.marked_spans import MARKS
from hermesops.localcloud.vendors.slack import APP, LocalSlack

PERSON = "111111"
"""Id of the person whose phone it is, without its first letter."""


def slack_chat(slack: LocalSlack) -> PhoneChat:
    """The person's chat with the app; nobody can block one at Slack."""

    def read() -> ChatView:
        return ChatView(slack.changes.number, bubbles(slack.channel(PERSON).log, MARKS, _shown))

    return PhoneChat(
        key="slack",
        title="Slack",
        bot=APP,
        read=read,
        changed=slack.changes.after,
        say=lambda text: slack.post(slack.message(PERSON, text)),
        start=lambda code: slack.post(slack.message(PERSON, f"link {code}".strip())),
        press=lambda _, data: slack.press(PERSON, data),
    )


def _shown(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
