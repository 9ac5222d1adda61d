"""What a request needs so that it names its rollout: pure, the same for every client.

What the caller said wins, in whatever way: a rollout header, a prefixed path, a `rollout.id` in the baggage. Then
nothing is added, for a second name would only make a conflict.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from capture.addresses import PREFIX, is_provider
from capture.errors import UncorrelatedCallError
from capture.rollout import HEADER, current_rollout_id

SAID: Final = (HEADER, "x-nemo-gym-rollout-id")
"""Headers by which a caller may have named the rollout."""
BAGGAGE, MEMBER = "baggage", "rollout.id"
BAGGAGE_MAX_BYTES: Final = 8192
"""What W3C Baggage promises to carry; a list that would become longer stays as it is."""


class Naming(NamedTuple):
    """How a client names rollouts: whether it must, and whether also to a provider's own host."""

    required: bool = False
    force: bool = False

    def headers_to_add(self, host: str | None, path: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers to set on a request; `headers` are those it has, by lower-case name.

        Raises `UncorrelatedCallError` where the call is outside of any rollout and must not be.
        """
        if is_provider(host) and not self.force:
            return {}
        if any(name in headers for name in SAID) or f"{PREFIX}/" in path or _is_in(headers.get(BAGGAGE, "")):
            return {}
        rollout_id = current_rollout_id()
        if rollout_id is not None:
            return _named(rollout_id, headers.get(BAGGAGE, ""))
        if self.required:
            raise UncorrelatedCallError(
                f"a call to {host} names no rollout: make it inside `with rollout_context(id):`, or set {HEADER}"
            )
        return {}


def _named(rollout_id: str, baggage: str) -> dict[str, str]:
    member = f"{MEMBER}={quote(rollout_id, safe='')}"
    joined = f"{baggage},{member}" if baggage.strip() else member
    carried = {BAGGAGE: joined} if len(joined) <= BAGGAGE_MAX_BYTES else {}
    plain = rollout_id.isascii() and rollout_id.isprintable() and rollout_id == rollout_id.strip()
    return {HEADER: rollout_id, **carried} if plain else carried


def _is_in(baggage: str) -> bool:
    return any(member.partition("=")[0].strip() == MEMBER for member in baggage.split(","))
