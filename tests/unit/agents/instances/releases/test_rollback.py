"""One agent goes back to what its machine says was before, and saying it twice does not send it forth again."""

from typing import TYPE_CHECKING, cast

import pytest

from hermesops.agents.instances.releases.rollback import preview_rollback, roll_back_release
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import RollbackResult, SlotsState, Switch, Switched
from hermesops.model.ids import MachineId
from hermesops.model.rollout.release import ReleaseId
from tests.support.fakes.parts import part
from tests.support.suite.cases import each_case

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.releases import ReleaseClient

OLD, NEW, OTHER = (ReleaseId(f"0.{number}.0-{number:012}") for number in (18, 19, 20))
MACHINE = MachineId("m-1")
CONFIRMED = Switched(NEW, OLD, "confirmed", "", "now")
WENT_BACK = Switched(NEW, OLD, "rolled_back", "asked for", "now")


class OneMachine:
    """A machine's releases, as far as going back asks for them."""

    def __init__(self, slots_state: SlotsState | None) -> None:
        self.seen = slots_state
        self.asked: list[tuple[str, bool]] = []
        self.installed: list[tuple[str, str]] = []

    async def observe(self, machine_id: MachineId) -> SlotsState | None:
        assert machine_id == MACHINE
        return self.seen

    async def roll_back(
        self, machine_id: MachineId, *, to: ReleaseId, loses: bool, even_revoked: bool
    ) -> RollbackResult:
        assert not even_revoked
        assert machine_id == MACHINE
        assert self.seen is not None
        self.asked.append((to, loses))
        return RollbackResult(to, self.seen.current, gap_s=1.0, migrated=0, listed=0, kept="")

    async def preview_rollback(self, machine_id: MachineId, *, to: ReleaseId) -> RollbackResult:
        assert machine_id == MACHINE
        assert self.seen is not None
        return RollbackResult(to, self.seen.current, 0, 1, 2, "", settings_lost=("model",))

    async def install(self, machine_id: MachineId, bundle: HandedOut, *, python: str) -> None:
        assert machine_id == MACHINE
        assert self.asked == []
        self.installed.append((bundle.id, python))


async def back(
    slots_state: SlotsState | None, to: str = "", *, loses: bool = False
) -> tuple[RollbackResult, list[tuple[str, bool]]]:
    machine = OneMachine(slots_state)
    client = cast("ReleaseClient", machine)
    done = await roll_back_release(client, MACHINE, lambda id_: HandedOut(id_, part()), to=to, loses=loses, title="ada")
    assert machine.installed == [
        (question, slots_state.python)
        for question, _ in machine.asked
        if slots_state and question not in slots_state.slots
    ]
    return done, machine.asked


@each_case(
    ("slots_state", "before"),
    [
        (SlotsState(NEW, (OLD, NEW), last=CONFIRMED), OLD),
        (SlotsState(NEW, (OLD, NEW, OTHER), last=CONFIRMED), OLD),
        (SlotsState(NEW, (OLD, NEW)), OLD),
        (SlotsState(NEW, (NEW,), last=CONFIRMED, python="3.12"), OLD),
        (SlotsState(NEW, (NEW, OTHER), last=CONFIRMED), OLD),
        (SlotsState(NEW, (OLD, NEW), switch=Switch(NEW, OLD, "unconfirmed")), OLD),
        (SlotsState(OLD, (OLD, NEW), switch=Switch(NEW, OLD, "trial")), OLD),
    ],
)
async def test_it_goes_to_the_release_before(slots_state: SlotsState, before: ReleaseId) -> None:
    done, calls = await back(slots_state)
    assert (done.release, calls) == (before, [(before, False)])


async def test_a_preview_is_of_the_release_that_a_rollback_goes_to() -> None:
    client = cast("ReleaseClient", OneMachine(SlotsState(NEW, (OLD, NEW), last=CONFIRMED)))
    preview = await preview_rollback(client, MACHINE, to="", title="ada")
    assert (preview.release, preview.listed, preview.settings_lost) == (OLD, 2, ("model",))
    there = cast("ReleaseClient", OneMachine(SlotsState(OLD, (OLD, NEW), last=WENT_BACK)))
    assert (await preview_rollback(there, MACHINE, to="", title="ada")).settings_lost == ()


async def test_what_is_back_already_stays() -> None:
    done, calls = await back(SlotsState(OLD, (OLD, NEW), last=WENT_BACK))
    assert (done.release, done.before, calls) == (OLD, OLD, [])


async def test_a_release_that_is_named_is_gone_to_from_anywhere() -> None:
    done, calls = await back(SlotsState(OLD, (OLD, NEW), last=WENT_BACK), "0.19", loses=True)
    assert (done.release, calls) == (NEW, [(NEW, True)])
    done, calls = await back(SlotsState(NEW, (NEW,), last=CONFIRMED), "0.18")
    assert (done.release, calls) == (OLD, [(OLD, False)])


@pytest.mark.parametrize(
    ("slots_state", "to", "says"),
    [
        (SlotsState(NEW, (OLD, NEW, OTHER)), "", "does not say which"),
        (SlotsState(NEW, (NEW,)), "", "does not say which"),
    ],
)
async def test_nothing_is_guessed(slots_state: SlotsState, to: str, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        await back(slots_state, to)


@pytest.mark.parametrize(("to", "says"), [("0.17", f"no release '0.17' .*has {OLD}, {NEW}"), ("0.1", "2 releases")])
async def test_a_release_that_is_not_there_is_a_slip_of_who_typed_it(to: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await back(SlotsState(NEW, (OLD, NEW)), to)


async def test_a_machine_that_is_silent_is_said_to_be() -> None:
    with pytest.raises(UnavailableError, match="does not report"):
        await back(None)
