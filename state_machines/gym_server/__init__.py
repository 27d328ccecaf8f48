"""The reference Gym: a real server whose decisions are those of `protocol.gym` (docs/live.md)."""
