"""A certificate authority for tests: a root, an intermediate, and certificates for loopback."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass
class Authority:
    """A root and an intermediate; servers get certificates of the intermediate."""

    folder: Path

    def __post_init__(self) -> None:
        self._root_key = ec.generate_private_key(ec.SECP256R1())
        self._root = _sign("root", self._root_key, "root", self._root_key, ca=1)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._middle = _sign("middle", self._key, "root", self._root_key, ca=0)
        self.file = self.folder / "root.pem"
        self.file.write_bytes(_pem(self._root))

    def issue(
        self,
        name: str = "server",
        *,
        password: bytes = b"",
        host: str = "localhost",
        age: dt.timedelta = DAY,
    ) -> tuple[Path, Path, int]:
        """Write a chain and its key; return both files and the serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _sign(name, key, "middle", self._key, host=host, age=age)
        chain, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        chain.write_bytes(_pem(leaf) + _pem(self._middle))
        hidden = serialization.BestAvailableEncryption(password) if password else None
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                hidden or serialization.NoEncryption(),
            )
        )
        return chain, secret, leaf.serial_number


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _sign(
    name, key, issuer, issuer_key, *, ca: int | None = None, host="localhost", age=DAY
) -> x509.Certificate:
    """Return a certificate that begins `age` ago and is valid for two days."""
    begin = dt.datetime.now(dt.UTC) - age
    built = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + 2 * DAY)
        .add_extension(x509.BasicConstraints(ca=ca is not None, path_length=ca), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=ca is not None, crl_sign=ca is not None,
                content_commitment=False, key_encipherment=False, data_encipherment=False,
                key_agreement=False, encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
    )  # fmt: skip
    if ca is None:
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == "localhost":
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return built.sign(issuer_key, hashes.SHA256())
