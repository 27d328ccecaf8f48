"""Campaigns: a plan of many hunts and proofs, cut into shards, run on many cores or machines, kept in one file."""
