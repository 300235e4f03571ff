"""What a test needs of its computer: missing, it is skipped on a laptop and fails in CI."""

import fcntl
import os
from pathlib import Path

import pytest

QEMU = "qemu-system-x86_64"
_KVM_CREATE_VM = 0xAE01


def require(present: object, what: str) -> None:
    """Go on if ``present`` is true, else skip the test, or fail it where ``CI`` is set."""
    if present:
        return
    if os.environ.get("CI"):  # noqa: TID251 - the switch between a laptop and CI is no setting of hermesops
        pytest.fail(f"this test needs {what}", pytrace=False)
    pytest.skip(f"needs {what}")


def has_kvm() -> bool:
    """Whether the processor can run guests by itself, and lets us.

    Without its own support, the device may open all the same (kvm_pvm) and run only kernels that were made for it.
    """
    if not {"vmx", "svm"} & set(Path("/proc/cpuinfo").read_text().split()):
        return False
    try:
        device = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.close(fcntl.ioctl(device, _KVM_CREATE_VM, 0))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(device)
