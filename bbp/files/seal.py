"""A checksum behind the last byte of a file, verified before anything else looks at the file.

HDF5 writes the length of its part of a file into the file's head and takes no notice of what follows, so a sealed file
opens in every program that reads HDF5 (a block in front of it would hide its signature from some). A program that changes
the file overwrites or drops the seal, or leaves one that no longer fits.
"""

from __future__ import annotations

import hashlib

_WORD = b"\nbbp seal"
_MARK = _WORD + b": sha256 of all bytes before this line "
LENGTH = len(_MARK) + 64 + 1


def sealed(data: bytes) -> bytes:
    """`data` and its seal."""
    return data + _MARK + hashlib.sha256(data).hexdigest().encode() + b"\n"


def fits(data: bytes) -> bool | None:
    """Whether the seal at the end of `data` is that of what lies before it, and whole; None where there is no seal."""
    seal = data[-LENGTH:]
    if not seal.startswith(_MARK) or len(seal) < LENGTH:
        return False if _WORD in seal else None
    return hashlib.sha256(memoryview(data)[:-LENGTH]).hexdigest().encode() == seal[len(_MARK) : -1]
