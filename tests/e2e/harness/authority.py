"""Certificates for tests."""

import os
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)


class Authority:
    """A certificate authority, made with the openssl command."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.file, self.key = self.paths(name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "2", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.file)

    def paths(self, name):
        return [os.path.join(self.folder, f"{name}.{kind}") for kind in ("pem", "key")]

    def issue(self, name, alternative="DNS:client.example"):
        certificate, key = self.paths(name)
        request, extensions = certificate + ".csr", certificate + ".ext"
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={alternative}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.file, "-CAkey", self.key,
                "-CAcreateserial", "-extfile", extensions, "-out", certificate)
        return certificate, key
