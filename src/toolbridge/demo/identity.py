"""The name and the context window of the demo model."""

MODEL = "toolbridge-demo"
WINDOW = 200_000
