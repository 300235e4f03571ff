"""Options that name a rollout and choose how it goes; what is left out is as ``Spec`` has it."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hermesops.cli.options.values import one_of, seconds, share

if TYPE_CHECKING:
    from hermesops.model.rollout_spec import Gates, Spec

R = TypeVar("R")

Id = Annotated[str, typer.Argument(help="Id of the rollout, or its beginning; without it, the one under way.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave it to the workers; follow it with rollout status --watch.")
]
Where = Annotated[str, typer.Option("--where", help="Only to these: plan=heavy,cell=cell1,region=…,release=…,user=…")]
Everybody = Annotated[bool, typer.Option("--all", help="To every running instance.")]
Vitals = Annotated[
    str,
    typer.Option(help="What health is compared by, comma-separated; none switches that gate off.", show_default=False),
]
ActionOption = Annotated[str, typer.Option("--action", help="slot: on the machine as it is; machine: on another one.")]


def spec_of(
    *,
    stages: Annotated[str, typer.Option(help="Share of instances on it after each stage, as 5%,25%,100%.")] = "",
    max_unavailable: Annotated[
        str, typer.Option("--max-unavailable", help="Share that may be changing at once, as 10%.")
    ] = "",
    at_once: Annotated[int, typer.Option("--at-once", help="And never more than so many.", show_default=False)] = 0,
    soak: Annotated[str, typer.Option(help="How long each must have run it before a stage ends, as 10m.")] = "",
    settle: Annotated[str, typer.Option(help="Between two batches, as 10s.")] = "",
    confirm_within: Annotated[
        str, typer.Option("--confirm-within", help="A machine rolls back by itself after, as 60s.")
    ] = "",
    drain: Annotated[str, typer.Option(help="How long running turns are waited for, as 60s.")] = "",
    defer: Annotated[str, typer.Option(help="For how long busy or quiet users may be left for later, as 24h.")] = "",
    windows: Annotated[
        list[str] | None,
        typer.Option(
            "--window", help="Only then: 'Mon-Fri 09:00-17:00 Europe/Berlin'; may be repeated.", show_default=False
        ),
    ] = None,
    emergency: Annotated[
        str,
        typer.Option(
            help="Ignore windows, freezes, open alerts and quiet hours; says why.", metavar="REASON", show_default=False
        ),
    ] = "",
    despite_alerts: Annotated[
        str,
        typer.Option(
            "--despite-alerts",
            help="Ignore open pages about cells or the fleet, and that they are not known; says why.",
            metavar="REASON",
            show_default=False,
        ),
    ] = "",
    manual_before: Annotated[
        list[int] | None,
        typer.Option(
            "--manual-before",
            help="Wait for rollout promote before this stage, from 1; may be repeated.",
            show_default=False,
        ),
    ] = None,
    hooks: Annotated[
        list[str] | None,
        typer.Option(
            "--hook",
            help="A gate of yours: NAME of [rollout.hooks] in settings.toml, or NAME=https://…; may be repeated.",
            show_default=False,
        ),
    ] = None,
    vitals: Vitals = "",
    on_halt: Annotated[
        str,
        typer.Option(
            "--on-halt", help="Which instances are rolled back when a gate halts the rollout: failed, all, none."
        ),
    ] = "",
    drill: Annotated[
        str, typer.Option(help="Rehearse upgrade and rollback on a pool machine first: required, if_possible, no.")
    ] = "",
    two_person_above: Annotated[
        float,
        typer.Option(
            "--two-person-above",
            help="Blast radius above which a second operator approves; never above the setting.",
            show_default=False,
        ),
    ] = -1.0,
) -> "Spec":
    """How a rollout goes, from the options of a command.

    Raises:
        UsageError: A value cannot be read, or no rollout can go so.
    """
    from hermesops.agents.rollout.gates.hooks import parse_hook
    from hermesops.agents.rollout.plan.admission import refuse_spec
    from hermesops.cli.context import environment
    from hermesops.model.rollout_spec import DrillPolicy, Gates, HaltRollback, HealthGate, Spec

    usual = Spec()
    health = HealthGate(vitals=_vitals(vitals)) if vitals else usual.gates.health
    spec = Spec(
        stages=tuple(share(part, "--stages") for part in stages.split(",")) if stages else usual.stages,
        max_unavailable=share(max_unavailable, "--max-unavailable") if max_unavailable else usual.max_unavailable,
        most_unavailable=at_once or usual.most_unavailable,
        settle_s=seconds(settle, "--settle") if settle else usual.settle_s,
        soak_s=seconds(soak, "--soak") if soak else usual.soak_s,
        confirm_s=seconds(confirm_within, "--confirm-within") if confirm_within else usual.confirm_s,
        drain_s=seconds(drain, "--drain") if drain else usual.drain_s,
        defer_s=seconds(defer, "--defer") if defer else usual.defer_s,
        windows=tuple(windows or ()),
        gates=Gates(health=health, hooks=tuple(map(parse_hook, hooks or ())), manual_before=tuple(manual_before or ())),
        on_halt=one_of(HaltRollback, on_halt, "--on-halt") if on_halt else usual.on_halt,
        drill=one_of(DrillPolicy, drill, "--drill") if drill else usual.drill,
        two_person_above=two_person_above if two_person_above >= 0 else environment().settings.two_person_above,
        emergency=emergency,
        despite_alerts=despite_alerts,
    )
    refuse_spec(spec)
    return spec


def takes_spec(*without: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the options of ``spec_of``, but for some, instead of its parameter ``spec``."""
    options = [one for one in inspect.signature(spec_of).parameters.values() if one.name not in without]

    def add(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def call(**given: Any) -> R:  # noqa: ANN401 - the command's own arguments
            chosen = {one.name: given.pop(one.name) for one in options}
            return command(**given, spec=spec_of(**chosen))

        signature = inspect.signature(command)
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
        at = next(number for number, one in enumerate(own) if one.name == "spec")
        parameters = [*own[:at], *options, *own[at + 1 :]]
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return add


def other_gates(spec: "Spec", *, vitals: str, early_failures: int, **rates: float) -> "Gates":
    """The gates of a rollout with other figures; an empty or negative one leaves the rollout's own.

    Raises:
        UsageError: Gates cannot work with them.
    """
    from dataclasses import replace

    from hermesops.agents.rollout.plan.admission import refuse_spec

    failures = spec.gates.failures
    chosen: dict[str, Any] = {name: value for name, value in rates.items() if value >= 0}
    failures = replace(failures, early_failures=early_failures or failures.early_failures, **chosen)
    gates = replace(spec.gates, failures=failures)
    if vitals:
        gates = replace(gates, health=replace(gates.health, vitals=_vitals(vitals)))
    refuse_spec(replace(spec, gates=gates))
    return gates


def _vitals(text: str) -> tuple[str, ...]:
    from hermesops.model.vitals import Vital

    names = () if text == "none" else map(str.strip, text.split(","))
    return tuple(one_of(Vital, name, "--vitals").value for name in names)
