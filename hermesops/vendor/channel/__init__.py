"""Runs commands and moves files on a machine, over any transport; today the vendor's toolbox."""

from hermesops.vendor.channel.answers import last_words, object_in, understood
from hermesops.vendor.channel.detached import Pace
from hermesops.vendor.channel.errors import (
    SILENT,
    AnswerLostError,
    CommandExpiredError,
    MachineGoneError,
    MachineUnreachableError,
    NoSuchFileError,
)
from hermesops.vendor.channel.interface import Channel, Completed, Exit, Output
from hermesops.vendor.channel.toolbox import ToolboxChannel

__all__ = [
    "SILENT",
    "AnswerLostError",
    "Channel",
    "CommandExpiredError",
    "Completed",
    "Exit",
    "MachineGoneError",
    "MachineUnreachableError",
    "NoSuchFileError",
    "Output",
    "Pace",
    "ToolboxChannel",
    "last_words",
    "object_in",
    "understood",
]
