"""Provisions many users at once: all requests are checked before the first row is written, then each runs alone."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from hermesops.agents.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight, parse_plan
from hermesops.agents.instances.requests.user_list import parse_user_list
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.narration import Reporter, about
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.user import parse_user
from hermesops.model.operation import Operation
from hermesops.model.plan import Plan

_SLOW_S, _LONGEST_S = 300.0, 3600.0
"""Seconds for which one provision may delay others, and its end is awaited; a worker continues it."""

_TOLD = 10
"""Problems that an error lists; the next show once those are fixed."""


@dataclass(frozen=True)
class ProvisionRequest:
    """One line of a file.

    Attributes:
        line: Its number, from 1.
        region: Where its machine is rented; empty: where the settings say.
    """

    line: int
    user: str
    plan: Plan
    region: str = ""


@dataclass(frozen=True)
class ProvisionResult:
    """The result of a request.

    Attributes:
        instance: ``None`` if no row was written.
        failure: ``None`` when it has ended, or was left to the workers.
    """

    request: ProvisionRequest
    instance: Instance | None
    operation: Operation | None
    outcome: str
    failure: HermesError | None = None


def parse_requests(text: str, *, plan: str, region: str) -> tuple[ProvisionRequest, ...]:
    """Read a file of requests: a table whose first line names ``user`` and the other columns, or one user a line.

    Args:
        plan: Of lines that name none; if empty, every line must name one.
        region: The same; if empty, the settings' region.

    Raises:
        UsageError: Some lines are invalid; the message names each.
    """
    users = parse_user_list(text)
    problems: list[str] = []
    requests: dict[str, ProvisionRequest] = {}
    for number, cells in users.rows:
        try:
            request = _request(number, cells, users.columns, plan, region)
            first = requests.setdefault(parse_user(request.user).id, request)
        except UsageError as error:
            problems.append(f"line {number}: {error.message}")
            continue
        if first is not request:
            problems.append(f"line {number}: {request.user} stands in line {first.line} already")
    if problems:
        raise UsageError(_told(problems), hint="a first line user,plan,region names columns; nothing was begun")
    if not requests:
        heading = f"; line {users.heading} was read as the heading" if users.heading else ""
        raise UsageError(f"nothing to provision: no line names a user{heading}")
    return tuple(requests.values())


def _request(number: int, cells: Sequence[str], columns: Sequence[str], plan: str, region: str) -> ProvisionRequest:
    if len(cells) > len(columns):
        raise UsageError(f"{len(cells)} fields where there are {len(columns)}")
    values = dict(zip(columns, cells, strict=False))
    chosen = values.get("plan") or plan
    if not chosen:
        raise UsageError("missing plan: the line names none, and none is given for all lines")
    return ProvisionRequest(number, values.get("user", ""), parse_plan(chosen), values.get("region") or region)


@dataclass
class BulkProvision:
    """Provisions many users, a few at a time.

    Attributes:
        report: Takes a line of narration when one has ended.
    """

    admission: ProvisionAdmission
    preflight: ProvisionPreflight
    policy: Policy
    at_once: int
    report: Reporter

    async def judge(self, requests: Sequence[ProvisionRequest]) -> None:
        """Let requests be written down only if none of them is known to fail.

        Machines that wait in pools count as if they had to be ordered: pools are filled again.

        Raises:
            RefusedError: Some would be refused, or all together pass the budget; nothing was written.
            UnavailableError: JustAVPS does not answer.
        """
        problems = []
        rented = []
        for request in requests:
            try:
                if self.preflight.known(request.user, request.plan) is None:
                    rented.append((request.plan, request.region or self.policy.region_of(request.plan)))
            except RefusedError as refused:
                problems.append(f"line {request.line}: {refused.message}")
        if problems:
            raise RefusedError(_told(problems), hint="nothing was begun; leave those lines out, or resume them first")
        if rented:
            await self.preflight.refuse_unrentable(*rented)

    async def run(
        self, requests: Sequence[ProvisionRequest], finish: Callable[[Operation], Awaitable[str]]
    ) -> tuple[ProvisionResult, ...]:
        """Write all requests as rows, then run each operation; one that fails stops no other.

        All rows first: a cell's stack then makes all its new machines in one run.
        """
        admitted = [await self._admit(request) for request in requests]
        ends = count(1)

        async def one(provision_result: ProvisionResult) -> ProvisionResult:
            if provision_result.operation is None:
                return provision_result
            with about(provision_result.request.user):
                try:
                    outcome = await finish(provision_result.operation)
                except HermesError as error:
                    self.report(f"failed: {error.message} ({next(ends)} of {len(admitted)})")
                    raise
                self.report(f"done ({next(ends)} of {len(admitted)})")
                return replace(provision_result, outcome=outcome)

        limits = Limits(self.at_once, slow_after_s=_SLOW_S, within_s=_LONGEST_S)
        ended = await fan_out(admitted, one, limits)
        return tuple(
            replace(provision_result, failure=end) if isinstance(end, HermesError) else end
            for provision_result, end in zip(admitted, ended, strict=True)
        )

    async def _admit(self, request: ProvisionRequest) -> ProvisionResult:
        try:
            instance, operation = await self.admission.admit(request.user, request.plan, region=request.region)
        except HermesError as failure:
            return ProvisionResult(request, None, None, "", failure)
        return ProvisionResult(request, instance, operation, "")


def _told(problems: Sequence[str]) -> str:
    more = len(problems) - _TOLD
    return "; ".join([*problems[:_TOLD], *([f"and {more} more"] if more > 0 else [])])
