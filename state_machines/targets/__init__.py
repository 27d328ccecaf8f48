"""What a history can run on: the model, and a Gym that speaks HTTP (docs/live.md)."""

from state_machines.targets.base import (
    Difference,
    Divergence,
    ModelTarget,
    Observation,
    Target,
    TargetError,
    TargetStopped,
    check,
    follow,
    observation_of,
)

__all__ = [
    "Difference",
    "Divergence",
    "ModelTarget",
    "Observation",
    "Target",
    "TargetError",
    "TargetStopped",
    "check",
    "follow",
    "observation_of",
]
