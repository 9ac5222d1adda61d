"""When a response equals what an SDK accumulated: each member of the SDK's that is not null is there, and equal."""

from typing import Any

SDK_OWN = frozenset({"parsed", "parsed_output", "parsed_arguments"})
"""Members that the SDK adds to what was on the wire."""

REPEATED_LABELS = frozenset({"role", "format", "id", "channel"})
"""Labels that the SDK doubles where a server repeats them on every chunk; here they are kept once."""


def missing(final: Any, ours: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON value
    """Name each member of the SDK's result that the response does not have with the same value."""
    if isinstance(final, dict) and isinstance(ours, dict):
        names = {name: "schema" if name == "schema_" else name for name in final if name not in SDK_OWN}
        told = [(name, wire) for name, wire in names.items() if final[name] is not None]
        return [
            found for name, wire in told for found in missing(final[name], ours.get(wire), f"{path}.{wire}")
        ]
    if isinstance(final, list) and isinstance(ours, list) and len(final) == len(ours):
        pairs = enumerate(zip(final, ours, strict=True))
        return [found for at, (one, other) in pairs for found in missing(one, other, f"{path}[{at}]")]
    if final is None or final == ours or is_repeated_label(final, ours, path):
        return []
    return [f"{path}: {str(final)[:80]} is {str(ours)[:80]}"]


def is_repeated_label(final: object, ours: object, path: str) -> bool:
    """Whether the SDK's text is ours several times over, in a member that is a label."""
    return (
        isinstance(final, str)
        and isinstance(ours, str)
        and ours != ""
        and path.rpartition(".")[2] in REPEATED_LABELS
        and final == ours * (len(final) // len(ours))
    )
