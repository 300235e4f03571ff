"""``/api/hermes/settings``: what users may set of their agent."""

from datetime import datetime
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, Field

from hermesops.api.parts import CurrentUser, Parts
from hermesops.api.routes.shapes import Strict, Text
from hermesops.errors import UsageError
from hermesops.model.billing.user_request import RequestKind
from hermesops.model.providers.choice import LONGEST_ADDRESS, LONGEST_KEY, LONGEST_MODEL, ProviderChoice, choose
from hermesops.model.providers.table import PROVIDERS
from hermesops.users.agent_settings.service import UserSettings
from hermesops.users.user_requests.refusals import raise_refused

router = APIRouter(tags=["settings"])

_TOOL = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Tag = Annotated[str, Header(alias="If-Match", pattern=r'^"[0-9a-f]{32}"$')]


class ProviderAnswer(BaseModel):
    """The user's own model provider. Its key is never answered.

    Attributes:
        verified_at: When the provider accepted the key; ``None`` where that is not known.
    """

    id: str
    title: str
    model: str
    base_url: str | None
    verified_at: datetime | None


class ProviderOffer(BaseModel):
    """A model provider that can be chosen.

    Attributes:
        example: A model of it.
        address: Of its API; ``None`` where each account has its own, which ``base_url`` then names.
        keys: Beginnings of its keys; empty for any.
        note: What a user should know; may be empty.
    """

    id: str
    title: str
    example: str
    address: str | None
    keys: list[str]
    note: str


class SettingsAnswer(BaseModel):
    """Settings of the agent.

    Attributes:
        model: Name of a route; empty for the default. It does not count beside an own provider.
        models: Names that ``model`` can have.
        provider: The user's own model provider; ``None`` for the platform's models.
        providers: Those that can be chosen.
        stale: Whether newer settings were saved, which are not shown yet: look again in some seconds.
    """

    model: str
    personality: str
    disabled_tools: list[str]
    models: list[str]
    provider: ProviderAnswer | None
    providers: list[ProviderOffer]
    stale: bool


class ProviderRequest(Strict):
    """A model provider of the user's own.

    Attributes:
        id: One of ``providers``; empty for the platform's models.
        key: Asked of the provider before it is saved; may be left out where another model is chosen with the same key.
        base_url: Only where each account has its own.
        unverified: Whether a key is saved that the provider neither accepted nor refused.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,32}$")]
    model: Annotated[Text, Field(max_length=LONGEST_MODEL)] = ""
    key: Annotated[Text, Field(max_length=LONGEST_KEY, repr=False, json_schema_extra={"writeOnly": True})] = ""
    base_url: Annotated[Text, Field(max_length=LONGEST_ADDRESS)] = ""
    unverified: bool = False


class SettingsRequest(Strict):
    """Settings to change; those that are left out stay as they are."""

    model: Annotated[Text, Field(max_length=64)] | None = None
    personality: Annotated[Text, Field(max_length=8_000)] | None = None
    disabled_tools: Annotated[list[Annotated[str, Field(pattern=_TOOL)]], Field(max_length=64)] | None = None
    provider: ProviderRequest | None = None


class SettingsChangeAnswer(BaseModel):
    """The request to give the agent its settings, and its operation; ``None`` until that is opened."""

    request: str
    operation: str | None


@router.get("/settings")
async def get_settings(user: CurrentUser, parts: Parts, response: Response) -> SettingsAnswer:
    """Show the agent's settings; ``ETag`` names them for a change."""
    settings = await parts.settings.get(user)
    response.headers["etag"] = f'"{settings.tag}"'
    return _answer(settings)


@router.patch("/settings", status_code=202)
async def change_settings(
    body: SettingsRequest, user: CurrentUser, parts: Parts, if_match: Tag
) -> SettingsChangeAnswer:
    """Change settings that are as ``If-Match`` says; the agent has them once the operation has ended."""
    changes = {name: value for name, value in body.model_dump().items() if value is not None}
    if not changes:
        raise UsageError("no setting is named")
    if (provider := body.provider) and provider.id and provider.key:  # refused before anything is kept
        own = parts.model_provider_url
        choose(provider.id, model=provider.model, key=provider.key, base_url=provider.base_url, world_address=own)
    await parts.chat.account(user)
    content = {"changes": changes, "tag": if_match.strip('"')}
    view = await parts.requests.ask(user, RequestKind.SETTINGS, f"settings-{uuid4()}", content)
    raise_refused(view.request)
    return SettingsChangeAnswer(request=view.request.id, operation=view.request.operation_id)


_OFFERS = [
    ProviderOffer(
        id=row.id,
        title=row.title,
        example=row.example,
        address=row.base_url or None,
        keys=list(row.keys),
        note=row.note,
    )
    for row in PROVIDERS
]


def _chosen(choice: ProviderChoice) -> ProviderAnswer:
    return ProviderAnswer(
        id=choice.provider,
        title=choice.facts.title,
        model=choice.model,
        base_url=choice.base_url or None,
        verified_at=datetime.fromisoformat(choice.verified_at) if choice.verified_at else None,
    )


def _answer(settings: UserSettings) -> SettingsAnswer:
    return SettingsAnswer(
        model=settings.model,
        personality=settings.personality,
        disabled_tools=list(settings.disabled_tools),
        models=list(settings.models),
        provider=_chosen(settings.provider) if settings.provider else None,
        providers=_OFFERS,
        stale=settings.is_stale,
    )
