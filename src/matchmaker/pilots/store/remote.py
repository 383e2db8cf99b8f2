"""Stores beyond this machine: buckets, and folders of servers that speak SFTP or WebDAV.

Each kind needs an extra (``objects``, ``sftp``, ``webdav``), which is imported when such a store is
opened: a pilot on bare Python has none of them.

In a bucket a claim or a result is put only if its key does not exist (``If-None-Match: *``). A
bucket cannot move a folder, so a finished input gets a marker, ``finished/INPUT``, and stays in its
place.

On a file server a claim or a result is written under another name and then renamed; a server
refuses to rename over a file that exists. One rename moves a finished input. No operation creates
an input's folder again, so a late write of a slow pilot fails and does no harm. By SFTP a rename
over a file that exists is refused: the standard says so, and OpenSSH uses a link, so that only one
of two at once succeeds. Host keys must be known; nobody is asked to accept one. By WebDAV (RFC
4918) ``MOVE`` with ``Overwrite: F`` moves a file only if there is none; but Apache first looks and
then moves, so two moves at once may both succeed. So a pilot first creates a folder beside the new
place, which a server does for one pilot only, and removes it afterwards. Answers have a limited
size, and are read without entities.
"""

from __future__ import annotations

import os
import random
import secrets
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from xml.etree.ElementTree import ParseError, fromstring

import attrs

from matchmaker.pilots.store.plan import ABANDONED, FINISHED, PILOTS, WORK, Kind, StoreEntry
from matchmaker.pilots.store.protocol import MOST_SMALL, StoreError, UnsureError
from matchmaker.pilots.wire.connection import is_loopback

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig
    from paramiko import SFTPAttributes, SFTPClient, SSHClient
    from requests import Response, Session

_SECONDS: Final = 60.0
"""How long a server may be silent: as long as its administrator may need to restart it."""
# A longer listing is refused before it fills the memory.
_MOST_LISTED: Final = 1 << 28
# Large enough that copying costs little, small enough to share the loop.
_PIECE: Final = 1 << 16
_ASKED: Final = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getlastmodified/></prop>'
    b"</propfind>"
)
_PASSING: Final = frozenset({408, 423, 425, 429, 500, 502, 503, 504, 507})
"""Answers that pass: a server that is busy, a lock, a disk that is full for a while."""
_MISSING: Final = frozenset({404, 410})
_PLACED: Final = frozenset({"PUT", "MOVE", "MKCOL"})
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_LEFT_SECONDS: Final = 3 * _SECONDS
"""What a pilot made that is to move something is left from a killed one after so long."""
# Five pages of S3, which has a thousand keys a page.
_LISTED_AT_ONCE: Final = 5000


@contextmanager
def _objects_errors(path: str) -> Iterator[None]:
    """Translate errors of obstore into the protocol's; a missing object passes through."""
    from obstore import exceptions

    try:
        yield
    except (exceptions.NotFoundError, FileNotFoundError, exceptions.AlreadyExistsError):
        raise
    except (
        exceptions.PermissionDeniedError, exceptions.UnauthenticatedError,
        exceptions.NotSupportedError, exceptions.InvalidPathError,
    ) as error:  # fmt: skip
        raise StoreError(f"{path}: {_beginning(error)}") from None
    except exceptions.BaseError as error:
        raise UnsureError(f"{path}: {_beginning(error)}") from None
    except OSError as error:
        raise UnsureError(f"{path}: {error.strerror or error}") from None


def _beginning(error: Exception) -> str:
    """Return the beginning of an error's text; the rest is its traceback."""
    return " ".join(str(error).split("\n\nDebug source")[0].split())[:300]


@attrs.frozen(slots=True)
class Bucket:
    """A store in a bucket, or below a prefix of one."""

    url: str
    objects: ObjectStore

    def now(self, nonce: str) -> float:
        path = f"{PILOTS}/{nonce}"
        with _objects_errors(path):
            self.objects.put(path, b"\n", use_multipart=False)
            return self.objects.head(path)["last_modified"].timestamp()

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        mine = f"{PILOTS}/{nonce}"
        with suppress(StoreError), _objects_errors(mine):
            there = self.objects.list_with_delimiter(f"{PILOTS}/")["objects"]
            times = {str(each["path"]): each["last_modified"].timestamp() for each in there}
            before = times.get(mine, 0.0) - age
            for path, at in times.items():
                if path == mine or at < before:
                    self.remove(path)

    def inputs(self, *, finished: bool = False) -> list[StoreEntry]:
        """List ``work``: the entries without a marker, or with one."""
        with _objects_errors(self.url):
            marked = {
                str(each["path"]).rpartition("/")[2]
                for each in self.objects.list_with_delimiter(f"{FINISHED}/")["objects"]
            }
            found = self.objects.list_with_delimiter(f"{WORK}/")
        kinds: dict[str, Kind] = {
            str(each["path"]).rpartition("/")[2]: "file" for each in found["objects"]
        }
        kinds |= {
            prefix.rstrip("/").rpartition("/")[2]: "folder" for prefix in found["common_prefixes"]
        }
        return [
            StoreEntry(name, 0.0, kind)
            for name, kind in kinds.items()
            if name and (name in marked) == finished
        ]

    def prepare(self, input_: str) -> None:
        """Do nothing: a bucket has no folders."""

    def listing(self, input_: str, *, finished: bool = False) -> list[StoreEntry] | None:
        prefix = f"{WORK}/{input_}/"
        made: list[StoreEntry] = []
        folders: dict[str, None] = {}
        with _objects_errors(prefix):
            for batch in self.objects.list(prefix, chunk_size=_LISTED_AT_ONCE):
                for about in batch:
                    name, below, _ = str(about["path"]).removeprefix(prefix).partition("/")
                    if below:
                        folders[name] = None
                    elif name:
                        made.append(StoreEntry(name, about["last_modified"].timestamp()))
        return made + [StoreEntry(name, 0.0, "folder") for name in folders]

    def read(self, path: str) -> bytes | None:
        with _objects_errors(path):
            try:
                found = self.objects.get(path)
                if found.meta["size"] > MOST_SMALL:
                    raise StoreError(f"{path} is larger than {MOST_SMALL} bytes")
                return bytes(found.bytes())
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        with _objects_errors(path):
            try:
                self.objects.head(path)
            except FileNotFoundError:
                return False
            return True

    def needed(self, input_: str, path: str) -> bool:
        return not self.exists(path)

    def create(self, path: str, data: bytes) -> bool:
        """Put a small object, if there is none.

        A conflict of two puts at once is reported as an object that exists, although neither may
        have been stored. So is the pilot's own object, if the answer to its put was lost.
        """
        if self._put(path, data):
            return True
        there = self.read(path)
        if there is None:
            raise UnsureError(f"{path}: two pilots put it at once")
        return there == data

    def publish(self, path: str, source: Path) -> bool:
        if self._put(path, source):
            return True
        if not self.exists(path):
            raise UnsureError(f"{path}: two pilots put it at once")
        return False

    def _put(self, path: str, data: bytes | Path) -> bool:
        from obstore import exceptions

        with _objects_errors(path):
            try:
                self.objects.put(path, data, mode="create")
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError, FileExistsError):
                return False
            return True

    def renew(self, path: str, data: bytes) -> None:
        """Put a claim again, so that the storage gives it a new time."""
        with _objects_errors(path):
            self.objects.put(path, data, use_multipart=False)

    def remove(self, path: str) -> None:
        with _objects_errors(path), suppress(FileNotFoundError):
            self.objects.delete(path)

    def fetch(self, path: str, target: Path) -> bool:
        with _objects_errors(path):
            try:
                found = self.objects.get(path)
            except FileNotFoundError:
                return False
            with target.open("wb") as file:
                for piece in found.stream():
                    file.write(piece)
            return True

    def finish(self, input_: str) -> None:
        path = f"{FINISHED}/{input_}"
        with _objects_errors(path):
            self.objects.put(path, b"\n", use_multipart=False)


def bucket(url: str) -> Bucket:
    """Return the store of a URL such as ``s3://bucket/prefix``; keys are in the environment.

    Raises StoreError if obstore cannot use the URL.
    """
    from obstore import exceptions
    from obstore.store import from_url

    # Options that are given hide those of the environment.
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true", "yes"}
    try:
        options: ClientConfig = {"timeout": f"{_SECONDS:g}s", "allow_http": plain}
        retries: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=_SECONDS)}
        return Bucket(url, from_url(url, client_options=options, retry_config=retries))
    except (exceptions.BaseError, ValueError) as error:
        raise StoreError(f"{url}: {_beginning(error)}") from None


@attrs.frozen(slots=True)
class RemoteFile:
    """A file or a folder of a server, with its time in seconds since 1970."""

    name: str
    kind: Kind
    modified: float


class FileServer(Protocol):
    """A server of files. Paths are relative to the store, with ``/``.

    Each method may raise UnsureError if it was interrupted, StoreError if it was refused, and
    FileNotFoundError if a file does not exist, or the folder of a file to be written.
    """

    def about(self, path: str) -> RemoteFile:
        """Return a file or a folder."""

    def folder(self, path: str) -> Iterable[RemoteFile]:
        """List a folder."""

    def get(self, path: str, most: int) -> bytes:
        """Return the first bytes of a file."""

    def download(self, path: str, target: Path) -> None:
        """Copy a file to the node."""

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file, new or over another; never create a folder."""

    def rename(self, path: str, target: str) -> None:
        """Move a file or a folder. Raises FileExistsError if the target exists."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def make(self, path: str) -> None:
        """Create a folder, unless it exists."""


@attrs.frozen(slots=True)
class RemoteStore:
    """A store on a server of files."""

    url: str
    files: FileServer

    def now(self, nonce: str) -> float:
        path = f"{PILOTS}/{nonce}"
        try:
            self.files.put(path, b"\n")
        except FileNotFoundError:
            self.files.make(PILOTS)
            self.files.put(path, b"\n")
        return self.files.about(path).modified

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        with suppress(StoreError, FileNotFoundError):
            there = {each.name: each.modified for each in self.files.folder(PILOTS)}
            before = there.get(nonce, 0.0) - age
            for name, at in there.items():
                if name == nonce or at < before:
                    self.remove(f"{PILOTS}/{name}")

    def inputs(self, *, finished: bool = False) -> list[StoreEntry] | None:
        return self._entries(FINISHED if finished else WORK)

    def prepare(self, input_: str) -> None:
        self.files.make(WORK)
        self.files.make(f"{WORK}/{input_}")

    def listing(self, input_: str, *, finished: bool = False) -> list[StoreEntry] | None:
        return self._entries(f"{FINISHED if finished else WORK}/{input_}")

    def _entries(self, folder: str) -> list[StoreEntry] | None:
        try:
            return [
                StoreEntry(each.name, each.modified, each.kind)
                for each in self.files.folder(folder)
            ]
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self.files.get(path, MOST_SMALL)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        try:
            self.files.about(path)
        except FileNotFoundError:
            return False
        return True

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result does not exist yet; a moved folder is never created again."""
        return not self.exists(path) and self.exists(f"{WORK}/{input_}")

    def publish(self, path: str, source: Path) -> bool:
        return self.create(path, source)

    def create(self, path: str, data: bytes | Path) -> bool:
        """Create a file, whole, if there is none; False also if the folder was moved."""
        folder, slash, name = path.rpartition("/")
        beside = f"{folder}{slash}.{name}.{secrets.token_hex(6)}"
        try:
            self.files.put(beside, data)
            self.files.rename(beside, path)
        except (FileNotFoundError, FileExistsError, StoreError) as error:
            with suppress(StoreError):
                self.remove(beside)
            if isinstance(error, StoreError):
                raise
            return False
        return True

    def renew(self, path: str, data: bytes) -> None:
        """Write a claim again, so that the server gives it a new time."""
        with suppress(FileNotFoundError):
            self.files.put(path, data)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.files.remove(path)

    def fetch(self, path: str, target: Path) -> bool:
        try:
            self.files.download(path, target)
        except FileNotFoundError:
            return False
        return True

    def finish(self, input_: str) -> None:
        """Move an input's folder aside, unless another pilot did."""
        source, target = f"{WORK}/{input_}", f"{FINISHED}/{input_}"
        self.files.make(FINISHED)
        try:
            self.files.rename(source, target)
        except FileNotFoundError:
            return
        except FileExistsError:
            raise StoreError(
                f"{target} is there already: move it away, so that {source} can go there"
            ) from None


@attrs.define(slots=True, eq=False)
class Sftp:
    """A folder of a server of SFTP. Each of two requests at once has its own connection."""

    host: str
    port: int
    user: str | None
    root: str
    _idle: list[tuple[SSHClient, SFTPClient]] = attrs.field(factory=list)

    def about(self, path: str) -> RemoteFile:
        with self._said(path) as sftp:
            return _sftp_file(path.rpartition("/")[2], sftp.lstat(self._at(path)))

    def folder(self, path: str) -> list[RemoteFile]:
        with self._said(path) as sftp:
            return [_sftp_file(each.filename, each) for each in sftp.listdir_attr(self._at(path))]

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
        """Open a connection, and translate its errors. One that broke is not used again."""
        from paramiko import AuthenticationException, BadHostKeyException, SSHException

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
            raise (StoreError if "known_hosts" in said else UnsureError)(said) from None

    @contextmanager
    def _connected(self) -> Iterator[SFTPClient]:
        try:
            ssh, sftp = self._idle.pop()
        except IndexError:
            from paramiko import SSHClient

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


def _sftp_file(name: str, about: SFTPAttributes) -> RemoteFile:
    mode = about.st_mode or stat.S_IFREG
    kind: Kind = "other"
    if stat.S_ISREG(mode):
        kind = "file"
    elif stat.S_ISDIR(mode):
        kind = "folder"
    elif stat.S_ISLNK(mode):
        kind = "link"
    return RemoteFile(name, kind, float(about.st_mtime or 0))


def sftp(url: str) -> RemoteStore:
    """Return the store of a URL such as ``sftp://user@server:22/folder``, with an absolute path.

    The server's key is in ``~/.ssh/known_hosts``, or in the file that ``SFTP_KNOWN_HOSTS`` names;
    the own key is an agent's, in ``~/.ssh``, or in the file that ``SFTP_KEY`` names.

    Raises StoreError if the URL names no server.
    """
    import paramiko  # noqa: F401 - without it the URL cannot be used, which is said at once

    parts = urlsplit(url)
    if not parts.hostname or parts.password:
        raise StoreError("sftp:// needs a server, and takes no password: use a key")
    try:
        port = parts.port or 22
    except ValueError:
        raise StoreError(f"{url}: the port is no number up to 65535") from None
    return RemoteStore(
        url, Sftp(parts.hostname, port, parts.username, unquote(parts.path).rstrip("/"))
    )


@attrs.frozen(slots=True)
class WebDav:
    """A folder of a server of WebDAV."""

    url: str
    session: Session

    def about(self, path: str) -> RemoteFile:
        found = self._properties(path, "0")
        if len(found) != 1:
            raise StoreError(f"{self._at(path)}: {len(found)} answers came for one file")
        return found[0][1]

    def folder(self, path: str) -> list[RemoteFile]:
        own = unquote(urlsplit(self._at(path)).path)
        return [found for at, found in self._properties(f"{path}/", "1") if at != own]

    def get(self, path: str, most: int) -> bytes:
        with self._asked("GET", path, stream=True) as answer:
            return _first_bytes(answer, most)

    def download(self, path: str, target: Path) -> None:
        with self._asked("GET", path, stream=True) as answer, target.open("wb") as file:
            for piece in answer.iter_content(_PIECE):
                file.write(piece)

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file. A server answers 409 if its folder does not exist (9.7.1)."""
        if isinstance(data, bytes):
            with self._asked("PUT", path, data=data):
                return
        with data.open("rb") as file, self._asked("PUT", path, data=file):
            pass

    def rename(self, path: str, target: str) -> None:
        """Move a file or a folder to a name that does not exist (9.9.3)."""
        where = {"Destination": self._at(target), "Overwrite": "F"}
        with self._alone(target), self._asked("MOVE", path, headers=where):
            pass

    def remove(self, path: str) -> None:
        with self._asked("DELETE", path):
            pass

    def make(self, path: str) -> None:
        """Create a folder; a server answers 405 if it exists (9.3.1)."""
        try:
            with self._asked("MKCOL", path, fine=(HTTPStatus.METHOD_NOT_ALLOWED,)):
                pass
        except FileNotFoundError as error:
            raise StoreError(f"{error}: is the store there?") from None

    @contextmanager
    def _alone(self, target: str) -> Iterator[None]:
        """Keep other pilots from moving anything there. Raises UnsureError if one already does."""
        folder, slash, name = target.rpartition("/")
        guard, status = f"{folder}{slash}.{name}.moving", 0
        for pause in _PAUSES:
            # Apache forbids it also to the later of two at once that make a folder.
            taken = HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.FORBIDDEN
            with self._asked("MKCOL", guard, fine=taken) as answer:
                status, date = answer.status_code, answer.headers.get("Date")
            if 200 <= status < 300:
                break
            with suppress(FileNotFoundError):
                made = self.about(guard).modified
                if date and parsedate_to_datetime(date).timestamp() - made > _LEFT_SECONDS:
                    self.remove(guard)
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
        else:
            if status == HTTPStatus.FORBIDDEN:
                raise StoreError(f"{self._at(guard)}: the server forbids to make this folder")
            raise UnsureError(f"{self._at(guard)}: another moves something there, or was killed")
        try:
            yield
        finally:
            with suppress(FileNotFoundError, StoreError):
                self.remove(guard)

    def _at(self, path: str) -> str:
        return f"{self.url}/{quote(path)}"

    @contextmanager
    def _asked(
        self, method: str, path: str, *, fine: Collection[int] = (), **more: Any
    ) -> Iterator[Response]:
        """Send a request, and yield the answer if it succeeded."""
        from requests import RequestException

        at = self._at(path)
        try:
            with self.session.request(
                method, at, timeout=_SECONDS, allow_redirects=False, **more
            ) as answer:
                status, said = answer.status_code, f"{at}: {answer.status_code} {answer.reason}"
                if status in _MISSING or (status == HTTPStatus.CONFLICT and method in _PLACED):
                    raise FileNotFoundError(said)
                if status == HTTPStatus.PRECONDITION_FAILED:
                    raise FileExistsError(said)
                if status in _PASSING:
                    raise UnsureError(said)
                if not (200 <= status < 300 or status in fine):
                    raise StoreError(said)
                yield answer
        except RequestException as error:
            raise UnsureError(f"{at}: {error}") from None

    def _properties(self, path: str, depth: str) -> list[tuple[str, RemoteFile]]:
        """Return the properties of a path, with depth 1 also of its entries, each with its path."""
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        with self._asked("PROPFIND", path, data=_ASKED, headers=headers, stream=True) as answer:
            data = _first_bytes(answer, _MOST_LISTED + 1)
        try:
            text = data.decode()
            if len(data) > _MOST_LISTED or "<!" in text:
                raise ValueError("it is too long, or has a document type")  # noqa: TRY301
            return list(map(_webdav_file, fromstring(text).iter("{DAV:}response")))  # noqa: S314
        except (ParseError, ValueError, TypeError) as error:
            raise StoreError(f"{self._at(path)}: no listing of WebDAV: {error}") from None


def _webdav_file(response: Any) -> tuple[str, RemoteFile]:
    path = unquote(urlsplit(response.findtext("{DAV:}href") or "").path).rstrip("/")
    modified = response.findtext(".//{DAV:}getlastmodified")
    folder = response.find(".//{DAV:}resourcetype/{DAV:}collection") is not None
    return path, RemoteFile(
        name=path.rpartition("/")[2],
        kind="folder" if folder else "file",
        modified=parsedate_to_datetime(modified).timestamp() if modified else 0.0,
    )


def _first_bytes(answer: Response, most: int) -> bytes:
    found = bytearray()
    for piece in answer.iter_content(_PIECE):
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def webdav(url: str) -> RemoteStore:
    """Return the store of a URL such as ``davs://server/folder``; ``dav`` is without TLS.

    A token is in ``WEBDAV_TOKEN``, a certificate with its key in ``X509_USER_PROXY``, a password in
    ``~/.netrc``; ``REQUESTS_CA_BUNDLE`` names the authorities.

    Raises StoreError if a token would go through the net in clear.
    """
    from requests import Session

    parts = urlsplit(url)
    if parts.username or parts.password or not parts.hostname:
        raise StoreError(f"{parts.scheme}:// needs a server, and takes no user: use ~/.netrc")
    if parts.scheme == "dav" and not is_loopback(parts.hostname):
        raise StoreError(f"{url}: dav:// is for this machine alone; beyond it there is davs://")
    session = Session()
    if token := os.environ.get("WEBDAV_TOKEN"):
        session.headers["Authorization"] = f"Bearer {token}"
    session.cert = os.environ.get("X509_USER_PROXY")
    scheme = "https" if parts.scheme == "davs" else "http"
    at = urlunsplit((scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return RemoteStore(url, WebDav(at, session))
