"""A server of files that speaks WebDAV (RFC 4918), by requests (extra ``webdav``).

``MOVE`` with ``Overwrite: F`` moves a file only if there is none; but Apache first looks and then
moves, so two moves at once may both succeed. So a pilot first creates a folder beside the new
place, which a server does for one pilot only, and removes it afterwards. Answers have a limited
size, and are read without entities.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from xml.etree.ElementTree import ParseError, fromstring

import attrs
from requests import RequestException, Response, Session

from matchmaker.pilots.store.protocol import StoreError, Unsure
from matchmaker.pilots.store.remote import Found, Remote
from matchmaker.pilots.wire.connection import is_loopback

_SECONDS: Final = 60.0
_MOST_LISTED: Final = 1 << 28
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


@attrs.frozen(slots=True)
class WebDav:
    """A folder of a server."""

    url: str
    session: Session

    def about(self, path: str) -> Found:
        found = self._properties(path, "0")
        if len(found) != 1:
            raise StoreError(f"{self._at(path)}: {len(found)} answers came for one file")
        return found[0][1]

    def folder(self, path: str) -> list[Found]:
        own = unquote(urlsplit(self._at(path)).path)
        return [found for at, found in self._properties(f"{path}/", "1") if at != own]

    def get(self, path: str, most: int) -> bytes:
        with self._asked("GET", path, stream=True) as answer:
            return _first(answer, most)

    def download(self, path: str, target: Path) -> None:
        with self._asked("GET", path, stream=True) as answer, target.open("wb") as file:
            for piece in answer.iter_content(_PIECE):
                file.write(piece)

    def put(self, path: str, data: bytes | Path) -> None:
        """Writes a file. A server answers 409 if its folder does not exist (9.7.1)."""
        if isinstance(data, bytes):
            with self._asked("PUT", path, data=data):
                return
        with data.open("rb") as file, self._asked("PUT", path, data=file):
            pass

    def rename(self, path: str, target: str) -> None:
        """Moves a file or a folder to a name that does not exist (9.9.3)."""
        where = {"Destination": self._at(target), "Overwrite": "F"}
        with self._alone(target), self._asked("MOVE", path, headers=where):
            pass

    def remove(self, path: str) -> None:
        with self._asked("DELETE", path):
            pass

    def make(self, path: str) -> None:
        """Creates a folder; a server answers 405 if it exists (9.3.1)."""
        try:
            with self._asked("MKCOL", path, fine=(HTTPStatus.METHOD_NOT_ALLOWED,)):
                pass
        except FileNotFoundError as error:
            raise StoreError(f"{error}: is the store there?") from None

    @contextmanager
    def _alone(self, target: str) -> Iterator[None]:
        """Keeps other pilots from moving anything there. Raises Unsure if one already does."""
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
            raise Unsure(f"{self._at(guard)}: another moves something there, or was killed")
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
        """The server's answer, if the request succeeded."""
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
                    raise Unsure(said)
                if not (200 <= status < 300 or status in fine):
                    raise StoreError(said)
                yield answer
        except RequestException as error:
            raise Unsure(f"{at}: {error}") from None

    def _properties(self, path: str, depth: str) -> list[tuple[str, Found]]:
        """What the server says of a path, with depth 1 of what is in it too; each with its path."""
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        with self._asked("PROPFIND", path, data=_ASKED, headers=headers, stream=True) as answer:
            data = _first(answer, _MOST_LISTED + 1)
        try:
            text = data.decode()
            if len(data) > _MOST_LISTED or "<!" in text:
                raise ValueError("it is too long, or has a document type")  # noqa: TRY301
            return list(map(_found, fromstring(text).iter("{DAV:}response")))  # noqa: S314
        except (ParseError, ValueError, TypeError) as error:
            raise StoreError(f"{self._at(path)}: no listing of WebDAV: {error}") from None


def _found(response: Any) -> tuple[str, Found]:
    path = unquote(urlsplit(response.findtext("{DAV:}href") or "").path).rstrip("/")
    modified = response.findtext(".//{DAV:}getlastmodified")
    folder = response.find(".//{DAV:}resourcetype/{DAV:}collection") is not None
    return path, Found(
        name=path.rpartition("/")[2],
        kind="folder" if folder else "file",
        modified=parsedate_to_datetime(modified).timestamp() if modified else 0.0,
    )


def _first(answer: Response, most: int) -> bytes:
    found = bytearray()
    for piece in answer.iter_content(_PIECE):
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def webdav(url: str) -> Remote:
    """The store of a URL such as ``davs://server/folder``; ``dav`` is without TLS.

    A token is in ``WEBDAV_TOKEN``, a certificate with its key in ``X509_USER_PROXY``, a password in
    ``~/.netrc``; ``REQUESTS_CA_BUNDLE`` names the authorities.

    Raises StoreError where a token would go through the net in clear.
    """
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
    return Remote(url, WebDav(at, session))
