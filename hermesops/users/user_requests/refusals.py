"""Refusals of users' requests as errors, by the code of their outcome."""

from collections.abc import Mapping

from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.billing.user_request import RequestState, UserRequest
from hermesops.users.agent_settings.service import ChangedMeanwhileError


class HasPlanError(RefusedError):
    """The user has a plan already."""


class NoPlanError(RefusedError):
    """The user has no plan that pays for an agent."""


class NotSoldError(RefusedError):
    """The plan cannot be bought here."""


class KeyUnverifiedError(RefusedError):
    """Nobody knows whether the model provider accepts the user's key."""


class RequestRefusedError(RefusedError):
    """The request was refused for another reason, which its words say."""


_BY_CODE: Mapping[str, type[HermesError]] = {
    "changed-meanwhile": ChangedMeanwhileError,
    "has-plan": HasPlanError,
    "invalid": UsageError,
    "no-plan": NoPlanError,
    "not-sold": NotSoldError,
    "unverified": KeyUnverifiedError,
}


def raise_refused(request: UserRequest) -> None:
    """Raise the error of a refused request; a request in another state passes.

    Raises:
        HermesError: It was refused.
    """
    if request.state is RequestState.REFUSED:
        raise _BY_CODE.get(request.code, RequestRefusedError)(request.detail)
