"""Environments, tasks and metrics: what enters, checked once."""
