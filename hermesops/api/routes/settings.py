"""``/api/hermes/settings``: what users may set of their agent."""

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, Field

from hermesops.api.parts import CurrentUser, Parts
from hermesops.api.routes.shapes import Strict, Text
from hermesops.errors import UsageError
from hermesops.model.billing.user_request import RequestKind
from hermesops.users.agent_settings.service import UserSettings
from hermesops.users.user_requests.refusals import raise_refused

router = APIRouter(tags=["settings"])

_TOOL = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Tag = Annotated[str, Header(alias="If-Match", pattern=r'^"[0-9a-f]{32}"$')]


class SettingsAnswer(BaseModel):
    """Settings of the agent.

    Attributes:
        model: Name of a route; empty for the default.
        models: Names that ``model`` can have.
        stale: Whether newer settings were saved, which are not shown yet: look again in some seconds.
    """

    model: str
    personality: str
    disabled_tools: list[str]
    models: list[str]
    stale: bool


class SettingsRequest(Strict):
    """Settings to change; those that are left out stay as they are."""

    model: Annotated[Text, Field(max_length=64)] | None = None
    personality: Annotated[Text, Field(max_length=8_000)] | None = None
    disabled_tools: Annotated[list[Annotated[str, Field(pattern=_TOOL)]], Field(max_length=64)] | None = None


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
    await parts.chat.account(user)
    content = {"changes": changes, "tag": if_match.strip('"')}
    view = await parts.requests.ask(user, RequestKind.SETTINGS, f"settings-{uuid4()}", content)
    raise_refused(view.request)
    return SettingsChangeAnswer(request=view.request.id, operation=view.request.operation_id)


def _answer(settings: UserSettings) -> SettingsAnswer:
    return SettingsAnswer(
        model=settings.model,
        personality=settings.personality,
        disabled_tools=list(settings.disabled_tools),
        models=list(settings.models),
        stale=settings.is_stale,
    )
