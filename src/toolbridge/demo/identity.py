"""The name of the demo model."""

MODEL = "toolbridge-demo"
