from hermesops.localcloud.drivers.nspawn.computer.resources import INOTIFY_PER_MACHINE, FreeResources


def test_what_is_scarcest_decides() -> None:
    assert FreeResources(128, 128, 64_000, 64_000).machines == (128 - 8) // INOTIFY_PER_MACHINE
    assert FreeResources(4096, 4096, 640, 64_000).machines == 10
    assert FreeResources(4096, 4096, 64_000, 1024).machines == 4


def test_a_computer_that_is_already_too_full_has_room_for_none() -> None:
    assert FreeResources(128, -20, 64_000, 64_000).machines == 0


def test_the_figures_are_said() -> None:
    output = str(FreeResources(128, 9, 8000, 700))
    assert "9 of 128 inotify instances free" in output
    assert "8000 MiB memory" in output
    assert "700 MiB disk" in output
