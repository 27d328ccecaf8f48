"""Which code this is: what is kept in files says so, because other code may decide otherwise."""

from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import protocol


def protocol_digest() -> str:
    """Return a digest of the protocol's source."""
    files = sorted(Path(protocol.__file__).parent.glob("*.py"))
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def code() -> str:
    """Return the package's version and the digest, in words."""
    try:
        number = version("stranded")
    except PackageNotFoundError:
        number = "of no version"
    return f"stranded {number}, protocol {protocol_digest()}"
