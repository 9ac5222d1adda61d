"""Rollout ids to the stems of file names: `<stem>.capture.jsonl`.

Ids are hostile text of any length. Those that are safe names already are used as they are, so that people find
their files; every other becomes `<readable part>~<digest>`. `~` is outside the safe alphabet, and an
uncorrelated stem has two of them, so the three kinds never meet; the digest tells apart even ids that differ
only in case or only after the cut. Pure; the same id gives the same stem in every process and version.
"""

from hashlib import sha256

SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
"""The alphabet of a safe name: what no shell, archive, object store or file system treats as special."""

SAFE_MAX_BYTES = 200
"""Longest id used as it is: leaves 55 of the usual 255 bytes for suffixes, and fits a ledger slot."""

READABLE_MAX_BYTES = 100
"""How much of an unsafe id stays readable in front of its digest."""

DIGEST_CHARACTERS = 32
"""128 bits of SHA-256 in hex: nobody finds two ids with one stem by trying."""

MARK = "~"
UNCORRELATED = "uncorrelated"

_TO_SAFE = {code: ord("_") for code in range(128) if chr(code) not in SAFE}


def stem_of(rollout_id: str) -> str:
    """Give the stem of a rollout's files: the id itself where it is a safe name, else a bounded safe name.

    Injective, at most `SAFE_MAX_BYTES` long, never hidden, never with a separator; any text is accepted, lone
    surrogates and the empty text included.
    """
    if (
        rollout_id
        and len(rollout_id) <= SAFE_MAX_BYTES
        and not rollout_id.strip(SAFE)
        and rollout_id[0] != "."
        and rollout_id[-1] != "."
    ):
        return rollout_id
    digest = sha256(rollout_id.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    return f"{_readable(rollout_id)}{MARK}{digest}"


def uncorrelated_stem(instance: str, day: str) -> str:
    """Give the stem for calls that named no rollout: one file per server process (`instance`) and `day`."""
    return f"{UNCORRELATED}{MARK}{instance}{MARK}{day}"


def is_uncorrelated(stem: str) -> bool:
    """Tell whether a stem is that of calls without a rollout; no rollout id maps to such a stem."""
    return stem.startswith(UNCORRELATED + MARK) and stem.count(MARK) > 1


def _readable(rollout_id: str) -> str:
    cut = rollout_id[:READABLE_MAX_BYTES]
    plain = cut.encode("ascii", "replace").decode().translate(_TO_SAFE)
    return f"_{plain[1:]}" if plain.startswith(".") else plain
