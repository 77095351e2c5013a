"""Kits with certificates: one for the server and one for each site, signed by an authority of the federation's own.

A certificate carries the name of its holder. A connection is made only where both ends show a certificate of the same
authority, and a site can speak only under the name in its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uneven import checks

SERVER = "server"
AUTHORITY = "authority"
ADDRESS = "127.0.0.1:8102"
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
FILES = ("authority.pem", "certificate.pem", "key.pem", "address.txt")
DAYS = 365
"""Days that certificates are valid."""

MISSING = "federation needs NVFlare, which is not installed; pip install 'uneven[federation]'"


@dataclass(frozen=True)
class Kit:
    """What one participant needs to connect: its name, its certificate and key, and the server's address."""

    folder: Path

    def __post_init__(self) -> None:
        for name in FILES:
            if not (self.folder / name).is_file():
                raise FileNotFoundError(
                    f"{self.folder} must be a kit with {', '.join(FILES)}; {name} is not there. "
                    "'uneven federate --provision' makes kits"
                )

    @property
    def address(self) -> str:
        """Host and port of the server."""
        return check_address((self.folder / "address.txt").read_text(encoding="utf-8").strip())

    @property
    def name(self) -> str:
        """Name in the certificate."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        certificate = x509.load_pem_x509_certificate((self.folder / "certificate.pem").read_bytes())
        return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def check_address(address: str) -> str:
    """Host and port, refused if it is something else.

    >>> check_address("127.0.0.1:8102")
    '127.0.0.1:8102'
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or not re.fullmatch(r"[A-Za-z0-9.-]+", host):
        raise ValueError(f"address must be HOST:PORT, such as {ADDRESS}, got {checks.shown(address)}")
    return address


def refuse_name(name: str) -> None:
    """Refuse a name that no certificate of ours carries."""
    if not NAME.fullmatch(name) or name in (SERVER, AUTHORITY):
        raise ValueError(
            f"name of a site must be 1 to 60 letters, digits, '-' or '_', and not {SERVER!r} or {AUTHORITY!r}; "
            f"got {checks.shown(name)}"
        )


def make_kits(folder: Path, sites: Iterable[str], address: str = ADDRESS) -> list[Path]:
    """Write a kit for the server and for each site; those that are there already stay as they are.

    Parameters
    ----------
    folder : Path
        Of all kits, and of the authority: its key signs, and stays with whoever runs the server.
    sites : iterable of str
    address : str
        Host and port that sites reach the server under.

    Returns
    -------
    list of Path
        The new kits.
    """
    names = list(sites)
    for name in names:
        refuse_name(name)
    check_address(address)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _authority(folder / AUTHORITY)
    new = [name for name in (SERVER, *names) if not (folder / name / "certificate.pem").exists()]
    for name in new:
        _make_kit(folder / name, name, authority, address)
    return [folder / name for name in new]


def _authority(folder: Path) -> tuple[Any, bytes]:
    """Key and certificate of the authority, made if they are not there."""
    utils = _lighter()
    if not (folder / "key.pem").exists():
        private, public = utils.generate_keys()
        itself = utils.Identity(AUTHORITY)
        certificate = utils.generate_cert(itself, itself, private, public, valid_days=DAYS, ca=True)
        _make_folder(folder)
        (folder / "certificate.pem").write_bytes(utils.serialize_cert(certificate))
        _write_key(folder / "key.pem", utils.serialize_pri_key(private))
    return utils.load_private_key_file(str(folder / "key.pem")), (folder / "certificate.pem").read_bytes()


def _make_kit(folder: Path, name: str, authority: tuple[Any, bytes], address: str) -> None:
    utils = _lighter()
    signing, root = authority
    private, public = utils.generate_keys()
    host = address.rpartition(":")[0] if name == SERVER else None
    certificate = utils.generate_cert(
        utils.Identity(name), utils.Identity(AUTHORITY), signing, public, valid_days=DAYS, server_default_host=host
    )
    _make_folder(folder)
    _write_key(folder / "key.pem", utils.serialize_pri_key(private))
    (folder / "authority.pem").write_bytes(root)
    (folder / "address.txt").write_text(address + "\n", encoding="utf-8")
    (folder / "certificate.pem").write_bytes(utils.serialize_cert(certificate))


def _make_folder(path: Path) -> None:
    """A folder that only its owner can look into."""
    path.mkdir(exist_ok=True)
    path.chmod(0o700)


def _write_key(path: Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)


def _lighter() -> Any:
    try:
        from nvflare.lighter import utils
    except ImportError:
        raise ImportError(MISSING) from None
    return utils
