"""Two names for values whose type only their owner knows."""

from typing import Any, TypeAlias

Property: TypeAlias = Any
"""A property's value: str, bool, int, float, None, list, dict, or a Secret."""

Message: TypeAlias = Any
"""A protobuf message; its module may only be imported where the SDK has been loaded."""
