"""The container makes every part, and a session has a workflow for each kind of operation."""

from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.keyring.ring import Ring
from hermesops.app import Container
from hermesops.app.adapters import SimulatedAdapters, adapters_of
from hermesops.app.connected import Connected
from hermesops.errors import UsageError
from hermesops.localcloud.world.files import SIMULATED, WorldFiles
from hermesops.model.operation import OperationKind
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part

VENDOR = {
    "API_URL": "https://api.example.org/api/v1",
    "API_KEY": "key",
    "SECRETS_HOME": "environment",
    "SECRET_ROUTER_KEY": "r" * 32,
    "SECRET_MESSAGES_KEY": Ring.fresh().to_text(),
}


def container(home: Path, name: str, **variables: str) -> Container:
    given = {f"HERMESOPS_{key}": value for key, value in ({"PULUMI_ENGINE": "embedded"} | variables).items()}
    environ = {"HOME": str(home), "HERMESOPS_HOME": str(home)} | given
    return Container(Environment.load(name, environ), lambda _: None)


def parts_of(cls: type) -> list[str]:
    """The names of all parts that a class of the container makes."""
    return [
        name
        for each in cls.__mro__
        for name, member in vars(each).items()
        if isinstance(member, cached_property | property)
    ]


@pytest.fixture
def app(tmp_path: Path) -> Container:
    app = container(tmp_path, "staging", **VENDOR)
    images = part(latest=lambda _: None)
    vars(app)["registry"] = part(cells=part(list=list), images=images, audit=part(), now=lambda: None)
    return app


@pytest.mark.parametrize("name", sorted({*parts_of(Container)} - {"world_purge"}))
def test_every_part_is_made_without_a_connection(app: Container, name: str) -> None:
    assert getattr(app, name, None) is not None or name == "approved_list"


@pytest.mark.parametrize("name", parts_of(Connected))
def test_every_part_of_a_session_is_made_of_others(app: Container, name: str) -> None:
    client: Any = part()
    connected = Connected(app, client, part())
    assert getattr(connected, name) is not None


def test_each_kind_of_operation_has_a_workflow(app: Container) -> None:
    client: Any = part()
    assert set(Connected(app, client, part()).handlers()) == set(OperationKind)


def test_a_worker_starts_without_the_key_of_the_model_router(tmp_path: Path) -> None:
    """Operations on machines need it, and each says so itself."""
    app = container(tmp_path, "staging", **{key: VENDOR[key] for key in VENDOR if key != "SECRET_ROUTER_KEY"})
    vars(app)["registry"] = part(now=None)
    client: Any = part()
    connected = Connected(app, client, part())
    assert connected.make_worker(concurrency=1, grace_s=1.0)
    assert connected.jobs.scheduler(grace_s=1.0)
    configure: Any = part(kind=OperationKind.CONFIGURE, instance_id="i-1", id="o-1")
    with pytest.raises(UsageError, match=r"router\.key"):
        connected.operations.handlers[OperationKind.CONFIGURE](configure, part())


def test_a_world_is_asked_once_what_its_machines_are(tmp_path: Path) -> None:
    local = container(tmp_path, "local")
    assert not local.adapters.is_simulated
    places = WorldFiles(local.env.world)
    places.base.parent.mkdir(parents=True)
    places.base.write_text(SIMULATED)
    assert not local.adapters.is_simulated
    assert isinstance(container(tmp_path, "local").adapters, SimulatedAdapters)
    assert not container(tmp_path, "staging", **VENDOR).adapters.is_simulated


def test_a_world_that_was_never_up_is_what_its_driver_will_make_it(tmp_path: Path) -> None:
    local = container(tmp_path, "local", LOCAL_DRIVER="sim")
    assert adapters_of(local.env).is_simulated
    WorldFiles(local.env.world).base.parent.mkdir(parents=True)
    WorldFiles(local.env.world).base.write_text("debian-13")
    assert not adapters_of(local.env).is_simulated
