"""A user's own model provider, as its operator reads it."""

from typing import TYPE_CHECKING

from hermesops.cli.printing.fields import field_lines
from hermesops.views.agents.model_providers import chosen

if TYPE_CHECKING:
    from hermesops.model.providers.choice import ProviderChoice


def provider_lines(choice: "ProviderChoice | None") -> list[str]:
    """The provider without its key, or that there is none."""
    if choice is None:
        return ["the platform's models: the user has no model provider of their own"]
    return [*field_lines(chosen(choice)), "the key is set; the platform counts and limits nothing of this provider"]
