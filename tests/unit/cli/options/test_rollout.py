"""Options of a rollout: their defaults are those of the model, shown apart from examples."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from hermesops.agents.rollout.plan.specs import chosen_spec, other_gates
from hermesops.cli.commands.rollout.group import app
from hermesops.cli.options.rollout import spec_of
from hermesops.errors import UsageError
from hermesops.model.fleet.vitals import Vital
from hermesops.model.rollout.spec import HookGate, Spec


def test_without_options_a_rollout_goes_as_the_model_has_it() -> None:
    assert spec_of(two_person_above=Spec().two_person_above) == Spec()


def test_the_time_of_an_attempt_leaves_room_for_draining_and_confirming() -> None:
    assert spec_of(attempt_within="3m", two_person_above=Spec().two_person_above) == Spec(attempt_s=180.0)
    with pytest.raises(UsageError, match=r"attempt_s must leave room for draining and confirming: 120 s or more"):
        spec_of(attempt_within="90s", two_person_above=Spec().two_person_above)


@pytest.mark.parametrize("command", ["start", "preview"])
def test_help_shows_each_default_apart_from_examples(command: str) -> None:
    shown = " ".join(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output.split())
    for default in ("5%,25%,100%", "10%", "50", "10m", "10s", "(always)", "(all vitals)"):
        assert f"[default: {default}]" in shown, default
    assert "for example 30m. [default: 10m]" in shown
    assert f"Examples: hermesops rollout {command} 0.19.0 --all hermesops rollout {command} " in shown


@pytest.mark.parametrize("command", ["start", "preview", "explain", "abort"])
def test_help_has_examples_that_fit_a_terminal(command: str) -> None:
    lines = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output.splitlines()
    examples = [line for line in lines if line.strip().startswith(f"hermesops rollout {command}")]
    assert examples
    assert all(len(line) <= 80 for line in lines)


def test_gates_are_chosen_by_name() -> None:
    spec = chosen_spec(Spec(), vitals="memory, restarts", hooks=["smoke"], manual_before=[2])
    assert spec.gates.health.vitals == ("memory", "restarts")
    assert (spec.gates.hooks, spec.gates.manual_before) == ((HookGate("smoke"),), (2,))
    assert chosen_spec(Spec(), vitals="none").gates.health.vitals == ()
    assert chosen_spec(Spec()).gates.health.vitals == tuple(Vital)
    with pytest.raises(UsageError, match=r"'mood' is none of gateway_errors, .*, or none"):
        chosen_spec(Spec(), vitals="mood")
    with pytest.raises(UsageError, match="stages must rise"):
        chosen_spec(replace(Spec(), stages=(1.0, 0.5)))


def test_a_replay_changes_only_the_gates_that_were_named() -> None:
    recorded = Spec()
    rates = dict.fromkeys(("base_rate", "bad_rate", "alpha", "beta", "early_rate"), -1.0)
    assert other_gates(recorded, vitals="", early_failures=0, **rates) == recorded.gates
    other = other_gates(recorded, vitals="none", early_failures=4, **{**rates, "bad_rate": 0.4})
    assert (other.failures.bad_rate, other.failures.early_failures, other.health.vitals) == (0.4, 4, ())
    assert other.failures.base_rate == recorded.gates.failures.base_rate
