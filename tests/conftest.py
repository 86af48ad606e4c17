"""The Hypothesis profile is chosen before any test module is imported."""

from tests.examples import load_profile

load_profile()
