"""Certificates for servers of the tests, made by openssl; nobody trusts them but who is told to."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def make(folder: Path, names: str) -> tuple[Path, Path]:
    """Make a key and a certificate for `names`, and return both files."""
    if shutil.which("openssl") is None and os.environ.get("CI") != "true":
        pytest.skip("openssl is not installed")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=Tests"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(  # noqa: S603 - our own arguments
        [*command.split(), "-addext", f"subjectAltName={names}", *files], check=True, capture_output=True
    )
    return key, certificate
