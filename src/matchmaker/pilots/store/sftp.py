"""A server of files that speaks SFTP, by paramiko (extra ``sftp``).

A rename over a file that exists is refused: the standard says so, and OpenSSH uses a link, so that
only one of two at once succeeds. Host keys must be known; nobody is asked to accept one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs
from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    SFTPAttributes,
    SFTPClient,
    SSHClient,
    SSHException,
)

from matchmaker.pilots.store.protocol import StoreError, Unsure
from matchmaker.pilots.store.remote import Found, Remote
from matchmaker.pilots.store.standing import Kind

_SECONDS: Final = 60.0


@attrs.define(slots=True, eq=False)
class Sftp:
    """A folder of a server. Each of two requests at once has its own connection."""

    host: str
    port: int
    user: str | None
    root: str
    _idle: list[tuple[SSHClient, SFTPClient]] = attrs.field(factory=list)

    def about(self, path: str) -> Found:
        with self._said(path) as sftp:
            return _found(path.rpartition("/")[2], sftp.lstat(self._at(path)))

    def folder(self, path: str) -> list[Found]:
        with self._said(path) as sftp:
            return [_found(each.filename, each) for each in sftp.listdir_attr(self._at(path))]

    def get(self, path: str, most: int) -> bytes:
        with self._said(path) as sftp, sftp.open(self._at(path), "rb") as file:
            return file.read(most)

    def download(self, path: str, target: Path) -> None:
        with self._said(path) as sftp:
            sftp.get(self._at(path), str(target))

    def put(self, path: str, data: bytes | Path) -> None:
        with self._said(path) as sftp:
            if isinstance(data, Path):
                sftp.put(str(data), self._at(path))
                return
            # What is there already is not cut first: others may be reading it.
            mode = "r+b" if _there(sftp, self._at(path)) else "wb"
            with sftp.open(self._at(path), mode) as file:
                file.write(data)

    def rename(self, path: str, target: str) -> None:
        with self._said(path) as sftp:
            try:
                sftp.rename(self._at(path), self._at(target))
            except FileNotFoundError:
                raise
            except OSError:
                # The protocol knows one failure for all reasons.
                if _there(sftp, self._at(target)):
                    raise FileExistsError(target) from None
                if not _there(sftp, self._at(path)):
                    raise FileNotFoundError(path) from None
                raise

    def remove(self, path: str) -> None:
        with self._said(path) as sftp:
            sftp.remove(self._at(path))

    def make(self, path: str) -> None:
        with self._said(path) as sftp:
            try:
                sftp.mkdir(self._at(path))
            except OSError:
                if not _there(sftp, self._at(path)):
                    raise

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"

    @contextmanager
    def _said(self, path: str) -> Iterator[SFTPClient]:
        """A connection; its errors as the protocol's. One that broke is not used again."""
        at = f"sftp://{self.host}{self._at(path)}"
        try:
            with self._connected() as sftp:
                yield sftp
        except (FileNotFoundError, FileExistsError):
            raise
        except (AuthenticationException, BadHostKeyException, PermissionError) as error:
            raise StoreError(f"{at}: {error}") from None
        except (SSHException, EOFError, OSError) as error:
            said = f"{at}: {str(error) or type(error).__name__}"
            # Who is unknown stays unknown.
            raise (StoreError if "known_hosts" in said else Unsure)(said) from None

    @contextmanager
    def _connected(self) -> Iterator[SFTPClient]:
        try:
            ssh, sftp = self._idle.pop()
        except IndexError:
            ssh = SSHClient()
            ssh.load_system_host_keys(os.environ.get("SFTP_KNOWN_HOSTS"))
            ssh.connect(
                self.host, self.port, self.user, key_filename=os.environ.get("SFTP_KEY"),
                timeout=_SECONDS, banner_timeout=_SECONDS, auth_timeout=_SECONDS,
            )  # fmt: skip
            sftp = ssh.open_sftp()
            if (channel := sftp.get_channel()) is not None:
                channel.settimeout(_SECONDS)
        good = False
        try:
            yield sftp
            good = True
        except (FileNotFoundError, FileExistsError, PermissionError):
            good = True
            raise
        finally:
            if good:
                self._idle.append((ssh, sftp))
            else:
                ssh.close()


def _there(sftp: SFTPClient, path: str) -> bool:
    try:
        sftp.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _found(name: str, about: SFTPAttributes) -> Found:
    mode = about.st_mode or stat.S_IFREG
    kind: Kind = "other"
    if stat.S_ISREG(mode):
        kind = "file"
    elif stat.S_ISDIR(mode):
        kind = "folder"
    elif stat.S_ISLNK(mode):
        kind = "link"
    return Found(name, kind, float(about.st_mtime or 0))


def sftp(url: str) -> Remote:
    """The store of a URL such as ``sftp://user@server:22/folder``; the path begins at the root.

    The server's key is in ``~/.ssh/known_hosts``, or in the file that ``SFTP_KNOWN_HOSTS`` names;
    the own key is an agent's, in ``~/.ssh``, or in the file that ``SFTP_KEY`` names.

    Raises StoreError where the URL names no server.
    """
    parts = urlsplit(url)
    if not parts.hostname or parts.password:
        raise StoreError("sftp:// needs a server, and takes no password: use a key")
    try:
        port = parts.port or 22
    except ValueError:
        raise StoreError(f"{url}: the port is no number up to 65535") from None
    return Remote(url, Sftp(parts.hostname, port, parts.username, unquote(parts.path).rstrip("/")))
