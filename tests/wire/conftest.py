"""What several modules of the wire tests share."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for `provider.test` and 127.0.0.1 that only itself vouches for; its key is beside it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate of this test; install openssl")
    folder = tmp_path_factory.mktemp("tls")
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=provider.test"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    names = ["-addext", "subjectAltName=DNS:provider.test,IP:127.0.0.1"]
    subprocess.run([openssl, "req", "-x509", *options, *names, *files], check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture(scope="session")
def tls(certificate: Path) -> ssl.SSLContext:
    """Return the server's side of TLS with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return context
