"""The version of the distribution, in one place; the writer's name in every record."""

__version__ = "0.1.0"

WRITER = f"model-call-capture/{__version__}"
