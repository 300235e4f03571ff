"""The list of jobs where no connection can be made: their runs are shown, and why it is not known what is due."""

from typing import Any

from hermesops.app.parts.automation import jobs_without_connection
from hermesops.errors import UnavailableError
from hermesops.settings.fields import Settings
from hermesops.store.registry import Registry
from hermesops.views.automation.jobs import job as shape
from tests.support.fakes.parts import part

AWAY = UnavailableError("the local world is not up")


def test_jobs_are_listed_with_their_last_run_and_without_their_pending_work(registry: Registry) -> None:
    container: Any = part(env=part(settings=Settings.model_validate({})), registry=registry)
    states = {state.job.name: state for state in jobs_without_connection(container, AWAY).states()}
    assert (states["backups"].due, states["backups"].problem) == ((), AWAY)
    assert (shape(states["backups"])["due"], shape(states["backups"])["next"]) == (None, "when due")
    assert states["outdated"].problem is None, "it is known from the registry alone"
    assert shape(states["outdated"])["due"] == 0
