"""Structured streams as they run: the loop, its events and those who follow, and what is kept."""
