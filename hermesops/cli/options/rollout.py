"""Options that name a rollout and choose how it goes. Defaults are those of ``Spec``: a test compares them."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hermesops.base.typed_values import one_of, seconds, share

if TYPE_CHECKING:
    from hermesops.model.rollout.spec import Spec

R = TypeVar("R")

_SHARE, _DURATION, _REASON = "SHARE", "DURATION", "REASON"

Id = Annotated[str, typer.Argument(help="Id of the rollout, or its beginning; by default the one under way.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave it to the workers; rollout status --follow shows its progress.")
]
Where = Annotated[
    str, typer.Option("--where", help="Only instances that match, for example plan=heavy,cell=cell1 or user=ada.")
]
Everybody = Annotated[bool, typer.Option("--all", help="All running instances.")]
Vitals = Annotated[
    str,
    typer.Option(
        help="Vitals that the health gate compares, comma-separated, for example memory,restarts; none: no health "
        "gate.",
        show_default="all vitals",
    ),
]
RecordedVitals = Annotated[
    str, typer.Option("--vitals", help="Vitals of the health gate; none: no health gate.", show_default="as recorded")
]
ActionOption = Annotated[
    str, typer.Option("--action", help="slot: another release on the same machine; machine: another machine.")
]


def spec_of(
    *,
    stages: Annotated[
        str,
        typer.Option(help="Share of the instances that have the release at the end of each stage.", metavar="SHARES"),
    ] = "5%,25%,100%",
    max_unavailable: Annotated[
        str,
        typer.Option("--max-unavailable", help="Share of the instances that may change at once.", metavar=_SHARE),
    ] = "10%",
    at_once: Annotated[
        int,
        typer.Option(
            "--at-once", help="Limit of instances that change at once, whatever the share.", min=1, metavar="N"
        ),
    ] = 50,
    soak: Annotated[
        str,
        typer.Option(
            help="Time for which each instance runs the release before its stage ends, for example 30m.",
            metavar=_DURATION,
        ),
    ] = "10m",
    settle: Annotated[str, typer.Option(help="Time between two batches, for example 30s.", metavar=_DURATION)] = "10s",
    confirm_within: Annotated[
        str,
        typer.Option(
            "--confirm-within",
            help="Time after which a machine rolls back by itself, unless it is confirmed.",
            metavar=_DURATION,
        ),
    ] = "60s",
    drain: Annotated[
        str, typer.Option(help="Time that running turns get before the gateway stops.", metavar=_DURATION)
    ] = "60s",
    attempt_within: Annotated[
        str,
        typer.Option(
            "--attempt-within",
            help="Time for the change of one instance, download to confirmation; then it counts as failed.",
            metavar=_DURATION,
        ),
    ] = "600s",
    defer: Annotated[
        str,
        typer.Option(
            help="Time for which a busy instance, or one in quiet hours, is deferred at most.", metavar=_DURATION
        ),
    ] = "24h",
    windows: Annotated[
        list[str] | None,
        typer.Option(
            "--window",
            help="Maintenance window, for example 'Mon-Fri 09:00-17:00 Europe/Berlin'; may be repeated.",
            show_default="always",
        ),
    ] = None,
    emergency: Annotated[
        str,
        typer.Option(
            help="Ignore windows, freezes, open alerts and quiet hours, for this reason.",
            metavar=_REASON,
            show_default=False,
        ),
    ] = "",
    despite_alerts: Annotated[
        str,
        typer.Option(
            "--despite-alerts",
            help="Ignore open page-severity alerts of cells and the fleet, and an unreachable Alertmanager, for this "
            "reason.",
            metavar=_REASON,
            show_default=False,
        ),
    ] = "",
    manual_before: Annotated[
        list[int] | None,
        typer.Option(
            "--manual-before",
            help="Number of a stage, from 1, that waits for rollout promote; may be repeated.",
            show_default="none",
        ),
    ] = None,
    hooks: Annotated[
        list[str] | None,
        typer.Option(
            "--hook",
            help="Gate of your own: NAME of [rollout.hooks] in settings.toml, or NAME=https://…; may be repeated.",
            show_default="none",
        ),
    ] = None,
    vitals: Vitals = "",
    on_halt: Annotated[
        str,
        typer.Option("--on-halt", help="Instances that are rolled back after a halt: failed, all or none."),
    ] = "failed",
    drill: Annotated[
        str,
        typer.Option(
            help="Rehearsal of upgrade and rollback on a warm-pool machine before stage 2: required, if_possible or no."
        ),
    ] = "required",
    two_person_above: Annotated[
        float,
        typer.Option(
            "--two-person-above",
            help="Blast radius above which a second operator approves a stage; at most that of the setting.",
            show_default="setting two_person_above",
        ),
    ] = -1.0,
) -> "Spec":
    """The spec of a rollout from the options of a command.

    Raises:
        UsageError: A value cannot be read, or no rollout can be carried out with it.
    """
    from hermesops.agents.rollout.plan.specs import chosen_spec
    from hermesops.cli.context import environment
    from hermesops.model.rollout.spec import DrillPolicy, HaltRollback, Spec

    spec = Spec(
        stages=tuple(share(part, "--stages") for part in stages.split(",")),
        max_unavailable=share(max_unavailable, "--max-unavailable"),
        most_unavailable=at_once,
        settle_s=seconds(settle, "--settle"),
        soak_s=seconds(soak, "--soak"),
        confirm_s=seconds(confirm_within, "--confirm-within"),
        drain_s=seconds(drain, "--drain"),
        attempt_s=seconds(attempt_within, "--attempt-within"),
        defer_s=seconds(defer, "--defer"),
        windows=tuple(windows or ()),
        on_halt=one_of(HaltRollback, on_halt, "--on-halt"),
        drill=one_of(DrillPolicy, drill, "--drill"),
        two_person_above=two_person_above if two_person_above >= 0 else environment().settings.two_person_above,
        emergency=emergency,
        despite_alerts=despite_alerts,
    )
    return chosen_spec(spec, vitals=vitals, hooks=hooks or (), manual_before=manual_before or ())


def takes_spec(*without: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the options of ``spec_of``, but for some, instead of its parameter ``spec``."""
    options = [
        parameter for parameter in inspect.signature(spec_of).parameters.values() if parameter.name not in without
    ]

    def add(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def call(**arguments: Any) -> R:  # noqa: ANN401 - the command's own arguments
            chosen = {option.name: arguments.pop(option.name) for option in options}
            return command(**arguments, spec=spec_of(**chosen))

        signature = inspect.signature(command)
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
        at = next(number for number, parameter in enumerate(own) if parameter.name == "spec")
        parameters = [*own[:at], *options, *own[at + 1 :]]
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return add
