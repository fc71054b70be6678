"""The turn machine and the data that flows in and out of it. Pure: nothing here awaits, reads or writes."""

from agency.turn.machine import TurnMachine
from agency.turn.state import Limits, TurnCheckpoint

__all__ = ["Limits", "TurnCheckpoint", "TurnMachine"]
