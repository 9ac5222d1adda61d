"""A process without descriptors or memory left sees nothing; that is not the same as nothing being there.

Readers pass over what is gone, damaged or closed to them. What they could not look at for want of means must not look
like that, or a settle would call a rollout complete and a read would give it as empty.
"""

import errno

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})


def raise_if_exhausted(error: OSError) -> None:
    """Raise an error again that says nothing of the file, only of this process's means. Raises OSError."""
    if error.errno in EXHAUSTED:
        raise error
