"""A certificate for this machine, which clients trust by its file."""

import subprocess

NAME = "localhost"


def make_certificate(folder):
    """Makes a certificate for `localhost` in a folder, and returns its file and that of its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
    # LiveKit's SDKs refuse the certificate of a CA as one of a server.
    for extension in (f"subjectAltName=DNS:{NAME}", "basicConstraints=critical,CA:FALSE"):
        command += ["-addext", extension]
    command += ["-subj", f"/CN={NAME}", "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
