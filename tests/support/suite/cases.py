"""Many cases in one test: each test costs a worker milliseconds to collect, to set up and to report, before it runs.

``@each_case(names, values)`` takes what ``pytest.mark.parametrize`` takes, for tests that need no fixture of their own
for each case. It runs all cases and raises the first failure, with a note for each case that failed.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

_NAME = 120
"""Characters of a case's name; values can be long."""

Ids = Callable[[Any], object] | Iterable[str]


def each_case(
    names: str | Sequence[str], values: Iterable[Any] | Callable[[], Iterable[Any]], *, ids: Ids | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test once for each case, as one test.

    Args:
        names: The arguments that a case fills.
        values: A value for each case, or a tuple where there are several names; or a function that finds them when the
            test runs, where finding them takes time.
        ids: Names of the cases, or a function that names a value; else they are shown as they are.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def named() -> Iterator[tuple[str, dict[str, Any]]]:
            cases = list(values if isinstance(values, Iterable) else values())
            assert cases, "there is no case"
            for number, value in enumerate(cases):
                parts = _parts(value, len(arguments))
                yield _name(number, parts, ids), dict(zip(arguments, parts, strict=True))

        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failures = _Failures()
            for name, case in named():
                with failures.of(name):
                    test(**case, **fixtures)
            failures.tell()

        @functools.wraps(test)
        async def run_async(**fixtures: object) -> None:
            failures = _Failures()
            for name, case in named():
                with failures.of(name):
                    await test(**case, **fixtures)
            failures.tell()

        chosen: Any = run_async if inspect.iscoroutinefunction(test) else run
        chosen.__signature__ = _without(inspect.signature(test), arguments)
        return chosen  # type: ignore[no-any-return]

    return decorate


class _Failures:
    """The cases that failed."""

    def __init__(self) -> None:
        self._by_name: dict[str, BaseException] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Keep what a case raises; the end of the test's time is no case's failure."""
        try:
            yield
        except pytest.fail.Exception as failure:  # no Exception: also of a pytest.raises that saw nothing raised
            if str(failure).startswith("Timeout"):
                failure.add_note(f"in case {name}")
                raise
            self._by_name[name] = failure
        except Exception as failure:  # noqa: BLE001 - whatever a test raises
            self._by_name[name] = failure

    def tell(self) -> None:
        """Raise the first failure, with all cases that failed as notes."""
        if not self._by_name:
            return
        first, *_ = self._by_name.values()
        notes = [f"failed: {name}: {_line(failure)}" for name, failure in self._by_name.items()]
        for note in notes:
            first.add_note(note)
        raise first


def _line(failure: BaseException) -> str:
    """A failure in a line; with its cases, where it is one of several of an inner ``each_case``."""
    lines = [str(failure).partition("\n")[0], *getattr(failure, "__notes__", ())]
    return f"{type(failure).__name__}: {'; '.join(lines)}"


def _parts(value: Any, count: int) -> tuple[Any, ...]:  # noqa: ANN401 - whatever a case is
    if isinstance(value, type(pytest.param())):
        return tuple(value.values)
    return (value,) if count == 1 else tuple(value)


def _name(number: int, parts: tuple[Any, ...], ids: Ids | None) -> str:
    if ids is None:
        return ", ".join(map(repr, parts))[:_NAME]
    return ", ".join(str(ids(part)) for part in parts)[:_NAME] if callable(ids) else list(ids)[number]


def _without(signature: inspect.Signature, names: Iterable[str]) -> inspect.Signature:
    """The signature that is left for fixtures."""
    parameters: Mapping[str, inspect.Parameter] = signature.parameters
    remaining = [parameter for name, parameter in parameters.items() if name not in set(names)]
    return signature.replace(parameters=remaining)
