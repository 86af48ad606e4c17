"""Bytes to and from providers."""
