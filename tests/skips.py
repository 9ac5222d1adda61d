"""The closed list of reasons for which a test may be skipped: name to the sentence that is given.

A skip for any other reason fails the run (`tests/conftest.py`); adding a row is a decision.
"""

SKIPS = {
    "coding-absent": "coding-absent: the optional package for this content coding is not installed",
    "corpus-absent": "corpus-absent: the recorded streams are not beside this checkout",
    "gym-absent": "gym-absent: nemo-gym, which needs Python 3.13.14, is not installed",
    "no-mount": "no-mount: this user may not mount a file system of 1 MB",
}
