"""The A2A protocol in the process of the users' API: one application over the same turns, and its notifications."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse

from hermesops.a2a.application import A2A, A2AParts
from hermesops.a2a.handler import Handler
from hermesops.a2a.pushes import notification
from hermesops.api import problems
from hermesops.base.network.public_hosts import PublicNetwork
from hermesops.model.chat.caller import Caller
from hermesops.serving.limits import Limits, TooManyError
from hermesops.users.callers.pushes import PushSender, TaskNotices
from hermesops.users.callers.service import Callers, CallingRows
from hermesops.users.callers.tasks import AgentTasks
from hermesops.users.chat.service import Chat


@dataclass(frozen=True)
class Calling:
    """The application of calls, and the work beside it."""

    application: A2A
    sender: PushSender


def calling(
    origin: str, callers: Callers, rows: CallingRows, chat: Chat, limits: Limits, network: PublicNetwork
) -> Calling:
    """Build the application of calls.

    Args:
        origin: Of the platform's pages.
        network: By which notifications are sent.
    """
    tasks = AgentTasks(chat, rows.tasks)

    async def check(caller: Caller) -> object:
        return await chat.running(caller.user_id)

    handler = Handler(callers, tasks, TaskNotices(rows.pushes), limits)
    parts = A2AParts(origin, callers, limits, handler, _refused, check)
    return Calling(A2A(parts), PushSender(rows.pushes, rows.callers, tasks, notification, network))


def _refused(request: Request, error: Exception) -> JSONResponse:
    """The refusal of a call that reaches no route of the protocol, as the API refuses."""
    return problems.of_limit(request, error) if isinstance(error, TooManyError) else problems.of_ours(request, error)
