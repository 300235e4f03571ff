"""The services that an agent can be connected to.

Source: Composio's list of toolkits; a service has the slug of its toolkit.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Service:
    """A service.

    Attributes:
        slug: In paths, rows and at the vendor.
        title: For people.
        purpose: What the agent can do there, in a few words.
    """

    slug: str
    title: str
    purpose: str


SERVICES = (
    Service("gmail", "Gmail", "read and send mail"),
    Service("googlecalendar", "Google Calendar", "read and change events"),
    Service("googledrive", "Google Drive", "find and read files"),
    Service("googledocs", "Google Docs", "read and write documents"),
    Service("googlesheets", "Google Sheets", "read and change tables"),
    Service("outlook", "Outlook", "read and send mail, read and change events"),
    Service("slack", "Slack", "read and write messages"),
    Service("notion", "Notion", "read and write pages"),
    Service("github", "GitHub", "read repositories, write issues"),
    Service("linear", "Linear", "read and write issues"),
    Service("trello", "Trello", "read and change boards"),
    Service("dropbox", "Dropbox", "find and read files"),
    Service("airtable", "Airtable", "read and change tables"),
    Service("hubspot", "HubSpot", "read and change contacts"),
)

BY_SLUG = {service.slug: service for service in SERVICES}
