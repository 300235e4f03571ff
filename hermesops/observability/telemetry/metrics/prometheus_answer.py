"""Reads answers of Prometheus's query API: a part of an answer is none, and one bad series costs no other. Pure.

Source: Prometheus HTTP API v1, "Format overview": ``warnings`` is what an answer may lack for, ``infos`` what does not
change it; with several stores behind one address (Thanos, ``partial_response``) a lost one is a warning.
VictoriaMetrics says ``isPartial``. Native histograms have ``histogram`` in the place of ``value``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.errors import Hint, UnavailableError
from hermesops.wire.foreign_text import quoted

WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError, OSError)
"""What reading an answer of another shape raises."""

_TEXT = 1024
"""Characters of a label."""

_SENTENCE = 200
"""Characters of a sentence of the server's."""


@dataclass(frozen=True)
class Sample:
    """One figure.

    Attributes:
        value: Not finite where the series has no figure.
    """

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Figures:
    """Figures by the value of one label.

    Attributes:
        ambiguous: Values of the label that several series have: which of them is meant is not known.
    """

    values: Mapping[str, float]
    ambiguous: frozenset[str] = frozenset()


def whole(answer: Any, *, whom: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Extract ``data`` from a Prometheus answer.

    Raises:
        UnavailableError: The answer is an error, lacks a part, or has another shape.
    """
    if not isinstance(answer, Mapping) or "data" not in answer:
        if isinstance(answer, Mapping) and answer.get("status") == "error":
            raise _failed(answer, whom)
        raise unreadable("figures", whom=whom)
    if answer.get("status", "success") != "success":
        raise _failed(answer, whom)
    if gap := missing_part(answer):
        raise UnavailableError(
            f"{whom} answers in part only: {gap}",
            hint="figures of a part are not used; every store behind it has to answer",
        )
    return answer["data"]


def missing_part(answer: Mapping[str, Any]) -> str:
    """Why an answer lacks a part; empty for a whole one. Loki's answers have ``warnings`` as Prometheus's have."""
    warnings = answer.get("warnings") or ("isPartial" if answer.get("isPartial") else "")
    return _sentence(warnings) if warnings else ""


def vector(data: Any, *, whom: str, most: int) -> tuple[Sample, ...]:  # noqa: ANN401 - as above
    """The series of a vector; one that cannot be read is left out, one without a figure has none.

    Args:
        data: As ``whole`` returns it.
        most: Series that are read.

    Raises:
        UnavailableError: It is no vector, has more series, or none of its series can be read.
    """
    try:
        if data["resultType"] != "vector" or len(data["result"]) > most:
            raise ValueError("another result, or more than is read")
        return readable(data["result"], whom=whom)
    except WRONG as error:
        raise unreadable("figures", error, whom=whom) from error


def readable(series: Iterable[Any], *, whom: str) -> tuple[Sample, ...]:
    """Parse series into samples; skips unreadable series.

    Raises:
        UnavailableError: There are series, and none can be read.
    """
    samples: list[Sample] = []
    problem: Exception | None = None
    for raw in series:
        try:
            samples.append(_sample(raw))
        except WRONG as error:
            problem = error
    if problem and not samples:
        raise unreadable("figures", problem, whom=whom) from problem
    return tuple(samples)


def by_label(samples: Iterable[Sample], label: str) -> Figures:
    """The finite figures by a label; of two series with the same value of it none counts."""
    values: dict[str, float] = {}
    ambiguous: set[str] = set()
    for sample in samples:
        name = sample.labels.get(label, "")
        if name in values:
            ambiguous.add(name)
        values[name] = sample.value
    finite = {name: value for name, value in values.items() if name not in ambiguous and math.isfinite(value)}
    return Figures(finite, frozenset(ambiguous))


def labels_of(raw: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """The labels of a series; raises one of ``WRONG``."""
    return {text(name): text(value) for name, value in raw.items()}


def text(raw: object) -> str:
    """A name or value of a label; raises ``ValueError`` for another thing, or a long one."""
    if not isinstance(raw, str) or len(raw) > _TEXT:
        raise ValueError("no text, or too long")
    return raw


def unreadable(what: str, error: Exception | None = None, *, whom: str = "Prometheus") -> UnavailableError:
    """The error for an answer of another shape."""
    why = f" ({type(error).__name__})" if error else ""
    return UnavailableError(
        f"{whom} answers with something else than {what}{why}",
        hint=Hint(("settings", "show"), "names its address: prometheus_url or monitoring.url"),
    )


def _sample(raw: Any) -> Sample:  # noqa: ANN401 - as above
    has_figure = "value" in raw or "histogram" not in raw
    return Sample(labels_of(raw["metric"]), float(raw["value"][1]) if has_figure else math.nan)


def _failed(answer: Mapping[str, Any], whom: str) -> UnavailableError:
    return UnavailableError(f"{whom} answers with an error: {_sentence(answer.get('error') or 'without a reason')}")


def _sentence(error: object) -> str:
    first = error[0] if isinstance(error, list) and error else error
    return quoted(str(first)[: 4 * _SENTENCE], longest=_SENTENCE)
