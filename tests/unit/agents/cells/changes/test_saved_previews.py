"""What is signed of the platform depends on everything that its settings say, and on nothing that comes by chance."""

from dataclasses import replace
from pathlib import Path

from hermesops.agents.cells.changes.preview import SavedPreview
from hermesops.agents.cells.changes.saved_previews import SavedPreviews
from hermesops.model.fleet.cell import PLATFORM
from hermesops.model.stack import Preview, StackRef
from hermesops.platform.aws.program import aws_program
from hermesops.settings.environment import Environment

ENVIRONMENTS = Path(__file__).parents[5] / ".github" / "environments"
UNCHANGED = Preview(StackRef(PLATFORM, "production"), ())


def environment(name: str) -> Environment:
    return Environment.load(name, {"HOME": "/nonexistent", "HERMESOPS_HOME": str(ENVIRONMENTS)})


def preview(name: str, **place: str) -> SavedPreview:
    env = environment(name)
    program = aws_program(env, env.settings.pulumi.backend)
    spec = program.spec  # type: ignore[attr-defined] # a program is any callable to its users
    moved = replace(program, spec=replace(spec, place=replace(spec.place, **place)))  # type: ignore[type-var] # as above
    return SavedPreviews(env, lambda: "cli").of_platform(moved, {}, UNCHANGED, ())


def test_the_same_settings_are_the_same_preview() -> None:
    first, two = preview("production"), preview("production")
    assert (first.rows, first.versions) == (two.rows, two.versions)
    assert first.rows != preview("staging").rows
    assert first.rows != preview("production", region="eu-west-1").rows


def test_what_made_a_preview_is_named() -> None:
    versions = preview("production").versions
    assert versions["engine"] == "cli"
    assert set(versions) == {"hermesops", "engine", "program"}
