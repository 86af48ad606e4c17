"""Decisions about requests: thinking, model names, limits, retries, stop sequences, server tools.

All of them are pure functions and stages. Callers pass the current time and random numbers, and do
the waiting.
"""
