"""Cards of agents: how to call one. A card names no user and nothing that a user said.

Source: A2A specification 1.0, sections 4.4 and 8.
"""

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

CARD_VERSION = "1"
TEXTS = ("text/plain", "text/markdown")
"""Media types that agents take and give; files, they take alone."""

DATA = "application/json"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

OLDER = "/v0.3"
"""Below it, callers of 0.3 find a card in their form, which 1.0 does not allow; the routes are the same."""

_BINDINGS = tuple(
    (binding, version, base) for version, base in (("1.0", ""), ("0.3", OLDER)) for binding in ("JSONRPC", "HTTP+JSON")
)
_SCHEME = "key"


def card_of(url: str) -> AgentCard:
    """The card of the agent that is called at this address; with and without a key it is the same. Pure."""
    return AgentCard(
        name="Personal agent",
        description="A personal agent on its own machine. Only callers that its user has allowed may call it.",
        version=CARD_VERSION,
        supported_interfaces=[
            AgentInterface(url=f"{url}{base}", protocol_binding=binding, protocol_version=version)
            for binding, version, base in _BINDINGS
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        security_schemes={
            _SCHEME: SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(
                    scheme="bearer",
                    description="A key that the agent's user creates in the section Callers of the chat page.",
                )
            )
        },
        security_requirements=[SecurityRequirement(schemes={_SCHEME: StringList()})],
        default_input_modes=[*TEXTS, DATA, *IMAGES],
        default_output_modes=list(TEXTS),
        skills=[
            AgentSkill(
                id="ask",
                name="Ask",
                description="Answers questions and carries out tasks with the tools of its user.",
                tags=["assistant"],
            )
        ],
    )
