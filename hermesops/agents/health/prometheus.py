"""Reads figures from Prometheus. Figures that it lacks, or has twice, are absent; no answer, or a part, is an error.

Source: Prometheus HTTP API v1, ``/query``; prometheus-api-client 0.7.2, which without a timeout waits for ever.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from hermesops.agents.health.promql import DEFAULTS, LABEL, Query, is_metric
from hermesops.base import blocking
from hermesops.base.network import sessions
from hermesops.base.network.variables import NetworkVariables, proxy_hint
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.vitals import Source, Vital, Vitals
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics import prometheus_answer
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.observability.telemetry.metrics.prometheus_answer import Figures
from hermesops.wire import strict_json

if TYPE_CHECKING:
    from prometheus_api_client import PrometheusConnect
    from requests import Response, Session

_TIMEOUT_S = 10
_LARGEST = 16 << 20
"""Bytes of an answer: some hundred for each instance that a question names."""

_WRONG = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions of the library for JSON that is no answer of Prometheus."""

_AT_ONCE = 200
"""How many instances a query names: an address holds some thousands of characters."""


class Prometheus:
    """One server.

    Args:
        timeout_s: Seconds that one answer may take.
    """

    def __init__(self, url: str, queries: Mapping[Vital, Query] = DEFAULTS, *, timeout_s: int = _TIMEOUT_S) -> None:
        self._url = url
        self._name = f"Prometheus at {url}"
        self._queries = queries
        self._timeout_s = timeout_s
        self._opened: PrometheusConnect | None = None

    async def require(self, metric: str) -> None:
        """Refuse a metric of which it had no series within the last hour.

        Raises:
            RefusedError: A gate on it would never pass.
            UnavailableError: It does not answer.
        """
        known = is_metric(metric) and await self._has(f"count(last_over_time({metric}[1h]))")
        if not known:
            raise RefusedError(
                f"{self._name} has no metric {metric}: a gate on it would never pass",
                hint="correct the gate's metric, or take that gate out",
            )

    async def require_vital(self, vital: Vital) -> None:
        """Refuse a vital that is read from Prometheus but whose metric it lacks.

        Raises:
            RefusedError: A gate on it would never pass.
            UnavailableError: It does not answer.
        """
        if vital in self._queries:
            await self.require(self._queries[vital].metric)

    async def vitals(
        self, instances: Collection[InstanceId], *, since: datetime, until: datetime
    ) -> dict[InstanceId, Vitals]:
        """The figures of these instances over a stretch of time; an instance without figures is not left out.

        Raises:
            UnavailableError: It does not answer.
        """
        window_s = int((until - since).total_seconds())
        ordered = sorted(instances)
        figures: dict[InstanceId, dict[Vital, float]] = {each: {} for each in ordered}
        twice: set[tuple[InstanceId, Vital]] = set()
        for begin in range(0, len(ordered), _AT_ONCE):
            some = ordered[begin : begin + _AT_ONCE]
            for vital, query in self._queries.items():
                answer = await self._by_instance(query.promql(some, window_s), until)
                twice.update((each, vital) for each in some if each in answer.ambiguous)
                for each in (each for each in some if each in answer.values):
                    figures[each][vital] = answer.values[each]
        return {each: self._vitals(each, figures[each], twice, since, until) for each in ordered}

    def _vitals(
        self,
        instance_id: InstanceId,
        figures: Mapping[Vital, float],
        twice: Collection[tuple[InstanceId, Vital]],
        since: datetime,
        until: datetime,
    ) -> Vitals:
        def why(vital: Vital) -> str:
            if vital not in self._queries:
                return "not asked"
            has = "several series" if (instance_id, vital) in twice else "no figure"
            return f"Prometheus has {has} of {self._queries[vital].metric} for it"

        missing = {vital: why(vital) for vital in Vital if vital not in figures}
        return Vitals(instance_id, since, until, Source.PROMETHEUS, figures, missing=missing)

    async def _has(self, promql: str) -> bool:
        """Whether an expression amounts to anything now."""
        return bool(await self._ask(promql, None))

    async def _by_instance(self, promql: str, at: datetime) -> Figures:
        """The finite figures of an expression at a moment, by instance."""
        return by_instance(await self._ask(promql, at), whom=self._name)

    async def _ask(self, promql: str, at: datetime | None) -> list[dict[str, Any]]:
        params = {"time": f"{at.timestamp():.3f}"} if at else {}
        return await blocking.call(partial(self._asked, promql, params), whom=self._name, within_s=self._timeout_s)

    def _asked(self, promql: str, params: dict[str, str]) -> list[dict[str, Any]]:
        # Lazily: a command that asks no Prometheus must not pay for it.
        from prometheus_api_client.exceptions import PrometheusApiClientException  # noqa: PLC0415
        from requests import RequestException  # noqa: PLC0415
        from requests.exceptions import ProxyError  # noqa: PLC0415

        try:
            result: list[dict[str, Any]] = self._server().custom_query(promql, params=params, timeout=self._timeout_s)
        except ProxyError as error:
            raise self._unreached(error) from error
        except (RequestException, PrometheusApiClientException, *_WRONG) as error:
            raise UnavailableError(
                f"{self._name} gives no answer: {str(error)[:300]}",
                hint="gates take their figures from the instances' nodes while the setting prometheus_url is empty",
            ) from error
        return result

    def _unreached(self, error: Exception) -> UnavailableError:
        proxy = NetworkVariables.of_process().proxy_for(self._url)
        if proxy is None:  # the variable has just gone
            return UnavailableError(f"{self._name} gives no answer: {str(error)[:300]}")
        named = f"the proxy {proxy.shown}, which {proxy.variable} names"
        message = f"{self._name} was not asked: {named}, does not answer, or refuses"
        return UnavailableError(message, hint=proxy_hint(proxy))

    def _server(self) -> "PrometheusConnect":
        from prometheus_api_client import PrometheusConnect  # noqa: PLC0415
        from urllib3.util.retry import Retry  # noqa: PLC0415

        if self._opened is None:
            session = _session(self._name, self._url)
            session.hooks["response"].append(self._refuse_part)  # the library drops what says that it is one
            # Without: three tries, and each may take the whole time.
            self._opened = PrometheusConnect(
                url=self._url, retry=Retry(total=0), timeout=self._timeout_s, session=session
            )
        return self._opened

    def _refuse_part(self, response: "Response", **_: object) -> None:
        """Raise ``UnavailableError`` for an answer that is an error, or lacks a part."""
        if response.ok:
            prometheus_answer.whole(strict_json.parse(response.content, largest=_LARGEST), whom=self._name)


class PlatformPrometheus(Prometheus):
    """The platform's own, behind its monitoring."""

    def __init__(
        self, client: MonitoringClient, queries: Mapping[Vital, Query] = DEFAULTS, *, timeout_s: int = _TIMEOUT_S
    ) -> None:
        super().__init__(f"{client.base_url}/prometheus", queries, timeout_s=timeout_s)
        self._metrics = Metrics(client)

    async def require_vital(self, vital: Vital) -> None:
        """Accept every vital: nobody chose this Prometheus for gates, and what it lacks nodes have."""

    async def _has(self, promql: str) -> bool:
        return bool(await self._metrics.instant(promql, within_s=self._timeout_s))

    async def _by_instance(self, promql: str, at: datetime) -> Figures:
        return await self._metrics.by_label(promql, LABEL, at=at, within_s=self._timeout_s)


def _session(whom: str, url: str) -> "Session":
    """A session of requests with bounded answers and without redirects."""
    from requests import ConnectionError as BrokenOffError  # noqa: PLC0415 - as above
    from requests import Response  # noqa: PLC0415 - as above
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

    def bounded(answer: Response, **_: object) -> None:
        try:
            # Whoever asks what an answer holds finds it there (requests.models.Response.content).
            answer._content = blocking.read(answer.raw, whom=whom, largest=_LARGEST)  # noqa: SLF001
        except HTTPError as error:
            raise BrokenOffError(error) from error

    session = sessions.session(url, whom=whom)
    session.stream = True  # the answer is read by the hook, not by the session
    session.max_redirects = 0
    session.headers["Accept-Encoding"] = "identity"
    session.hooks["response"].append(bounded)
    return session


def by_instance(samples: object, *, whom: str = "Prometheus") -> Figures:
    """The figures of a vector by instance. Pure.

    Raises:
        UnavailableError: It is no vector.
    """
    if not isinstance(samples, list):
        raise prometheus_answer.unreadable("figures", whom=whom)
    return prometheus_answer.by_label(prometheus_answer.readable(samples, whom=whom), LABEL)
