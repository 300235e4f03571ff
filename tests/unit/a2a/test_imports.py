"""The SDK of A2A beside Pulumi: a local world's process of the API has both."""

import subprocess
import sys


def test_a_process_loads_the_sdk_and_pulumis_protocol() -> None:
    code = "import hermesops.api.serve, hermesops.api.calling, pulumi.runtime.proto.status_pb2"
    subprocess.run([sys.executable, "-c", code], check=True)
