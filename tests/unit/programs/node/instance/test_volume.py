"""Where a machine's data are: opened with the platform's key, used where something is mounted, refused until then."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermesops.programs.node.instance import volume
from hermesops.programs.node.instance.status import health, status
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.state import backup
from hermesops.programs.node.system.data_volume import VolumeState, wanted_gb, with_gb
from hermesops.wire.errors import NodeError, NotReadyError, OutrankedError, RefusedError
from hermesops.wire.protocol import GB, Credential, FencingToken
from tests.support.crash.death import KilledError
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.fakes.machines.node_system import FakeSystem

VOLUME = "5c0e0000-0000-4000-8000-000000000001"
PEM = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
CREDENTIAL = Credential(PEM, PEM, "https://platform:8443", "01", 0, 2_000_000_000, ("hermesops://local/machine/m-1",))


@dataclass
class Volumes:
    """A computer that can mount one encrypted file.

    Attributes:
        key: What opens it; ``None`` before it was made.
        filled: How often its file system was told to take all of it.
        is_stiff: Whether that cannot be.
    """

    key: bytes | None = None
    is_open: bool = False
    sizes: list[int] = field(default_factory=list)
    filled: int = 0
    is_stiff: bool = False

    def observe(self, place: Path) -> VolumeState:
        assert place.name == "hermes"
        return VolumeState(self.is_open, is_encrypted=self.is_open, size=40 * GB, used=GB)

    def exists(self, file: Path) -> bool:
        assert file.name == "volume"
        return self.key is not None

    def identify(self, file: Path) -> str:
        assert file.name == "volume"
        return VOLUME

    def open_volume(self, _file: Path, _place: Path, key: bytes, size: int) -> None:
        if self.key not in {None, key}:
            raise RefusedError("the platform's key does not open the data volume")
        self.key, self.is_open = key, True
        self.sizes.append(size)

    def fill_volume(self) -> None:
        self.filled += 1
        if self.is_stiff:
            raise NotReadyError("resize2fs: Permission denied to resize filesystem")

    def close_volume(self, _place: Path) -> None:
        self.is_open = False


@dataclass
class Platform:
    """The platform's service.

    Attributes:
        answers: What it says to each question, the last again and again.
        asked: Which questions it heard.
    """

    answers: list[bytes | NodeError] = field(default_factory=lambda: [b"k" * 64])
    asked: list[str] = field(default_factory=list)

    def __call__(self, credential: Credential, key: bytes, method: str, path: str, body: bytes = b"", /) -> bytes:
        assert (credential.serial, key, body) == ("01", b"own key", b"")
        self.asked.append(f"{method} {path}")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NodeError):
            raise answer
        return answer


@dataclass
class Clock(FakeSystem):
    """Time passes in sleep alone.

    Attributes:
        slept: Each sleep, in seconds.
        meanwhile: What happens during one.
    """

    slept: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)
        self.meanwhile()


@dataclass
class Computer:
    """A machine that role ``hermes_data`` was applied to, and whose order names 40 GB."""

    place: NodeHome
    volumes: Volumes = field(default_factory=Volumes)
    platform: Platform = field(default_factory=Platform)
    system: Clock = field(default_factory=Clock)

    @property
    def node(self) -> Machine:
        layout = self.place.layout
        return Machine(
            layout,
            system=self.system,
            ask_platform=self.platform,
            volumes=self.volumes,
            slots=DiskSlots(layout),
        )

    def certify(self) -> None:
        layout = self.place.layout
        layout.machine_certificate.write_bytes(CREDENTIAL.to_pem())
        layout.authority.write_bytes(CREDENTIAL.authority.encode())
        layout.machine_key.write_bytes(b"own key")


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    computer = Computer(make(tmp_path))
    layout = computer.place.layout
    for path, data in ((layout.data_unit, b"[Unit]\n"), (layout.variables, with_gb(b"", 40))):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    return computer


def test_a_volume_is_opened_with_the_key_that_the_platform_keeps_for_it(computer: Computer) -> None:
    computer.certify()
    volume_status = volume.open_volume(computer.node)
    assert (volume_status["kind"], volume_status["encrypted"], volume_status["size"], volume_status["used"]) == (
        "open",
        True,
        40 * GB,
        GB,
    )
    assert computer.platform.asked == [f"GET /v1/data-key/{VOLUME}"]
    assert computer.volumes.sizes == [40 * GB]
    volume.open_volume(computer.node)
    assert len(computer.platform.asked) == 1  # it is open already
    assert computer.volumes.filled == 2  # whoever opened it may have been killed before that
    assert volume.close_volume(computer.node)["kind"] == "closed"


def test_a_volume_that_cannot_grow_is_used_as_it_is_and_says_why(computer: Computer) -> None:
    computer.certify()
    computer.volumes.is_stiff = True
    volume_status = volume.open_volume(computer.node)
    assert (volume_status["kind"], "Permission denied" in volume_status["why"]) == ("open", True)


def test_it_waits_for_its_certificate_and_for_the_platform_as_long_as_it_takes(computer: Computer) -> None:
    gone = NotReadyError("the platform does not answer")
    computer.platform.answers = [*[gone] * 9, RefusedError("the platform answered 403: revoked"), b"k" * 64]

    def later() -> None:
        if len(computer.system.slept) == 3:
            assert "no certificate yet" in status(computer.node)["volume"]["why"]
            computer.certify()
        if len(computer.system.slept) == 13:
            assert "revoked" in status(computer.node)["volume"]["why"]

    computer.system.meanwhile = later
    assert volume.open_volume(computer.node)["kind"] == "open"
    assert computer.system.slept == [2, 2, 2, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def personalised(computer: Computer) -> None:
    """Make it somebody's, as if it had been before it booted."""
    layout, payload = computer.place.layout, computer.place.personalised().read_bytes()
    layout.payload.write_bytes(payload)
    layout.identity.write_text("{}")


def test_nothing_reads_or_writes_in_the_place_of_data_that_are_not_there(computer: Computer) -> None:
    assert status(computer.node)["volume"]["kind"] == "closed"
    assert "has not begun" in status(computer.node)["volume"]["why"]
    with pytest.raises(NotReadyError, match="closed"):
        backup.state(computer.node)
    personalised(computer)
    assert "volume" in [check.name for check in health(computer.node).checks]
    for does in (backup.backup, backup.restore):
        with pytest.raises(NotReadyError, match="closed"):
            does(computer.node, computer.place.upload(), lease=None)


def test_a_machine_that_was_just_certified_is_given_a_moment(computer: Computer) -> None:
    with pytest.raises(NotReadyError, match="closed"):
        volume.await_open(computer.node)
    assert computer.system.now_s == pytest.approx(60, abs=1)

    def opens() -> None:
        computer.volumes.is_open = True

    computer.system.meanwhile = opens
    volume.await_open(computer.node)


def test_another_key_opens_nothing(computer: Computer) -> None:
    computer.certify()
    computer.volumes.key = b"of another volume" * 4

    def give_up() -> None:
        raise KilledError

    computer.system.meanwhile = give_up
    with pytest.raises(KilledError):
        volume.open_volume(computer.node)
    volume_status = status(computer.node)["volume"]
    assert volume_status["kind"] == "closed"
    assert "does not open the data volume" in volume_status["why"]


@pytest.mark.parametrize("answer", [b"", b"short", b"k" * 31])
def test_an_answer_that_is_no_key_makes_no_volume(computer: Computer, answer: bytes) -> None:
    computer.certify()
    computer.platform.answers = [answer, b"k" * 64]
    volume.open_volume(computer.node)
    assert computer.volumes.key == b"k" * 64


def test_a_folder_serves_where_no_volume_was_ordered_or_none_can_be_mounted(computer: Computer) -> None:
    layout = computer.place.layout
    layout.container.parent.mkdir(parents=True)
    layout.container.write_text("systemd-nspawn")
    assert volume.open_volume(computer.node)["kind"] == "plain"
    layout.container.unlink()
    layout.variables.write_bytes(b"OTHER='1'\n")
    assert volume.open_volume(computer.node)["kind"] == "plain"
    layout.variables.write_bytes(with_gb(b"", 40))
    layout.data_unit.unlink()  # from an image of before
    assert volume.open_volume(computer.node)["kind"] == "plain"
    assert backup.state(computer.node)["size"] == 40 * GB
    assert not computer.platform.asked


def test_a_volume_that_came_with_a_copied_disk_is_opened_though_the_order_names_none(computer: Computer) -> None:
    computer.certify()
    computer.volumes.key = b"k" * 64
    computer.place.layout.variables.write_bytes(b"")
    assert volume.open_volume(computer.node)["kind"] == "open"


def test_another_size_is_wished_for_under_the_lease_and_only_where_there_is_a_volume(computer: Computer) -> None:
    path = computer.place.layout.variables
    newer, older = (FencingToken("instance/i-1", 1, counter, "here") for counter in (2, 1))
    assert volume.want(computer.node, 80, lease=newer)["wanted_gb"] == 80
    with pytest.raises(OutrankedError, match=r"the lease 1\.1 was taken over"):
        volume.want(computer.node, 20, lease=older)
    assert wanted_gb(path.read_bytes()) == 80
    path.write_bytes(b"")
    assert volume.want(computer.node, 80)["wanted_gb"] == 0
