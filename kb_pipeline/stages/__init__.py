"""Stages: pure functions from frames to frames. No I/O, no clock, no logging, no Dagster; no stage imports another."""
