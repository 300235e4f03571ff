"""Loads the protocol's generated stubs without the rest of the Pulumi SDK.

The SDK's package runs half a second of imports that a plugin never uses, and an engine waits for the plugin's port.
"""

import importlib.util
import sys
import types


def load_only_stubs() -> None:
    """Make ``pulumi.runtime.proto`` importable on its own, for the rest of this process.

    Puts bare packages in place of ``pulumi``, ``pulumi.runtime`` and ``pulumi.runtime.proto``, so only for a process
    that is nothing but the plugin. Does nothing where the SDK is loaded already.
    """
    if "pulumi" in sys.modules:
        return
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        return  # the import that follows reports what is missing
    path = next(iter(spec.submodule_search_locations))
    for name in ("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
        package = types.ModuleType(name)
        package.__path__ = [path + name.removeprefix("pulumi").replace(".", "/")]
        sys.modules[name] = package
