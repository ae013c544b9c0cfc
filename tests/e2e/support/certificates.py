"""A certificate for this machine, trusted by clients through its file."""

import subprocess

NAME = "localhost"


def make_certificate(folder):
    """Creates a certificate for `localhost` in a folder, and returns its file and its key's file."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
    # LiveKit's SDKs reject a CA certificate as a server's.
    for extension in (f"subjectAltName=DNS:{NAME}", "basicConstraints=critical,CA:FALSE"):
        command += ["-addext", extension]
    command += ["-subj", f"/CN={NAME}", "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
