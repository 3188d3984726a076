"""Encryption of secure attributes, so that a copy of the configuration reveals no passwords.

AES-256 in Galois/Counter mode, with a new random nonce each time. The keys are in a separate file, mode 600, one key per line in
base64: the first encrypts, all decrypt, so that a key can be replaced. Both files together reveal the secrets: store their backups
separately. The model decides who may see a decrypted secret.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pyjms.spi.errors import ProviderError
from pyjms_provider.security.private_files import create_private, read_private, write_private

_PREFIX: Final = "pyjms-secret:1:"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_FILE_LIMIT: Final = 64 * 1024
_HEAD: Final = """\
# Keys of the secrets in this broker's configuration. Without them those secrets are lost; whoever has both can read them.
# The first key encrypts, all decrypt. Keep a copy in a safe place, apart from copies of the configuration.
"""


class SecretError(ProviderError):
    """A secret cannot be decrypted, or a key file contains no keys."""

    code = "PYJMS-SECRET"


class SecretBox:
    """Encrypts and decrypts texts with the keys of one key file. Safe to use from any thread."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        """`keys`: 32 bytes each; the first encrypts, all decrypt."""
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise ValueError(f"a secret box needs keys of {_KEY_BYTES} bytes")
        self._ciphers = {_id_of(key): AESGCM(key) for key in keys}
        self._current = _id_of(keys[0])

    @classmethod
    def open(cls, key_file: str | Path) -> SecretBox:
        """Return the box with the keys of `key_file`, which is created with a new key and mode 600 if it does not exist.

        Raises `PrivateFileError` if it cannot be read or created, or others may read it; `SecretError` if it contains no keys.
        """
        path = Path(key_file)
        if not path.exists():
            # If this returns False, another process was faster, and its key is used.
            create_private(path, _render((os.urandom(_KEY_BYTES),)))
        return cls(_read_keys(path))

    @classmethod
    def rotate(cls, key_file: str | Path) -> SecretBox:
        """Add a new key before those of `key_file`, and return the box with all of them.

        Encrypt the secrets again that `is_current` rejects; after that the old keys may be removed from the file. Raises as `open`.
        """
        path = Path(key_file)
        keys = (os.urandom(_KEY_BYTES), *_read_keys(path))
        write_private(path, _render(keys))
        return cls(keys)

    def encrypt(self, text: str, *, context: str = "") -> str:
        """Return `text` encrypted, as one word of ASCII.

        `context` (the object and the attribute) is not part of the result, but required to decrypt it: so a user who can write
        the configuration cannot move a secret to an attribute that is shown.
        """
        # A new nonce each time: if one is used twice, Galois/Counter mode reveals its texts.
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, text.encode("utf-8", "surrogatepass"), context.encode())
        return f"{_PREFIX}{self._current}:{base64.urlsafe_b64encode(nonce + sealed).decode('ascii')}"

    def decrypt(self, sealed: str, *, context: str = "") -> str:
        """Decrypt a result of `encrypt`. Raises `SecretError` if the key or the context is another one, or the text was altered."""
        if not self.is_encrypted(sealed):
            raise SecretError("this is not an encrypted secret; enter the secret again")
        key_id, _, body = sealed.removeprefix(_PREFIX).partition(":")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SecretError(
                f"the secret was encrypted with the key {key_id}, which is not in the key file: use the key file that "
                "belongs to this configuration, or enter the secret again"
            )
        try:
            raw = base64.b64decode(body, altchars=b"-_", validate=True)
            text = cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], context.encode())
        except (InvalidTag, ValueError) as error:  # binascii.Error is a ValueError, and so is a nonce that is too short
            raise SecretError(
                "the secret was altered, or belongs to another object or attribute; enter it again"
            ) from error
        return text.decode("utf-8", "surrogatepass")

    def is_current(self, sealed: str) -> bool:
        """Return whether `sealed` was encrypted with the first key."""
        return sealed.startswith(f"{_PREFIX}{self._current}:")

    @staticmethod
    def is_encrypted(text: str) -> bool:
        """Return whether `text` looks like a result of `encrypt`, with any key."""
        return text.startswith(_PREFIX)

    def __repr__(self) -> str:
        """Return the ids of the keys, never the keys."""
        return f"SecretBox({', '.join(self._ciphers)})"


def _id_of(key: bytes) -> str:
    """Return a short id of `key` that reveals nothing about it."""
    return hashlib.sha256(b"pyjms key id" + key).hexdigest()[:8]


def _render(keys: tuple[bytes, ...]) -> str:
    return _HEAD + "".join(f"{base64.b64encode(key).decode('ascii')}\n" for key in keys)


def _read_keys(path: Path) -> tuple[bytes, ...]:
    keys = []
    for number, line in enumerate(read_private(path, _FILE_LIMIT).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = base64.b64decode(line.strip(), validate=True)
        except ValueError:  # also binascii.Error
            key = b""
        if len(key) != _KEY_BYTES:
            raise SecretError(f"{path}, line {number}: not a key: {_KEY_BYTES} bytes in base64 are expected")
        keys.append(key)
    if not keys:
        raise SecretError(
            f"{path}: holds no key. Restore the file from a copy; or remove it, and enter all secrets again"
        )
    return tuple(keys)
