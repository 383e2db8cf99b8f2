"""A store in a bucket: S3, Google Cloud Storage or Azure, through obstore (extra ``objects``).

A claim or a result is put only if its key does not exist (``If-None-Match: *``). A bucket cannot
move a folder, so a finished input gets a marker, ``finished/INPUT``, and stays in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import obstore
from obstore import exceptions
from obstore.store import from_url

from matchmaker.pilots.store.places import MOST_SMALL
from matchmaker.pilots.store.plan import ABANDONED, FINISHED, PILOTS, WORK
from matchmaker.pilots.store.protocol import StoreError, Unsure
from matchmaker.pilots.store.standing import Entry, Kind

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_WAIT: Final = "60s"
_RETRIES: Final = timedelta(seconds=60)
_MOST_LISTED: Final = 5000


@contextmanager
def _said(path: str) -> Iterator[None]:
    """Errors of obstore as the protocol's; what is not there passes through."""
    try:
        yield
    except (exceptions.NotFoundError, FileNotFoundError, exceptions.AlreadyExistsError):
        raise
    except (
        exceptions.PermissionDeniedError, exceptions.UnauthenticatedError,
        exceptions.NotSupportedError, exceptions.InvalidPathError,
    ) as error:  # fmt: skip
        raise StoreError(f"{path}: {_first(error)}") from None
    except exceptions.BaseError as error:
        raise Unsure(f"{path}: {_first(error)}") from None
    except OSError as error:
        raise Unsure(f"{path}: {error.strerror or error}") from None


def _first(error: Exception) -> str:
    """The beginning of an error's text; the rest is its making."""
    return " ".join(str(error).split("\n\nDebug source")[0].split())[:300]


@attrs.frozen(slots=True)
class Bucket:
    """A store in a bucket, or below a prefix of one."""

    url: str
    objects: ObjectStore

    def now(self, nonce: str) -> float:
        path = f"{PILOTS}/{nonce}"
        with _said(path):
            obstore.put(self.objects, path, b"\n", use_multipart=False)
            return obstore.head(self.objects, path)["last_modified"].timestamp()

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        mine = f"{PILOTS}/{nonce}"
        with suppress(StoreError), _said(mine):
            there = obstore.list_with_delimiter(self.objects, f"{PILOTS}/")["objects"]
            times = {str(each["path"]): each["last_modified"].timestamp() for each in there}
            before = times.get(mine, 0.0) - age
            for path, at in times.items():
                if path == mine or at < before:
                    self.remove(path)

    def inputs(self, *, finished: bool = False) -> list[Entry]:
        """What is below ``work`` without a marker, or with one."""
        with _said(self.url):
            marked = {
                str(each["path"]).rpartition("/")[2]
                for each in obstore.list_with_delimiter(self.objects, f"{FINISHED}/")["objects"]
            }
            found = obstore.list_with_delimiter(self.objects, f"{WORK}/")
        kinds: dict[str, Kind] = {
            str(each["path"]).rpartition("/")[2]: "file" for each in found["objects"]
        }
        kinds |= {
            prefix.rstrip("/").rpartition("/")[2]: "folder" for prefix in found["common_prefixes"]
        }
        return [
            Entry(name, 0.0, kind)
            for name, kind in kinds.items()
            if name and (name in marked) == finished
        ]

    def prepare(self, input_: str) -> None:
        """Does nothing: a bucket has no folders."""

    def listing(self, input_: str, *, finished: bool = False) -> list[Entry] | None:
        prefix = f"{WORK}/{input_}/"
        made: list[Entry] = []
        folders: dict[str, None] = {}
        with _said(prefix):
            for batch in obstore.list(self.objects, prefix, chunk_size=_MOST_LISTED):
                for about in batch:
                    name, below, _ = str(about["path"]).removeprefix(prefix).partition("/")
                    if below:
                        folders[name] = None
                    elif name:
                        made.append(Entry(name, about["last_modified"].timestamp()))
        return made + [Entry(name, 0.0, "folder") for name in folders]

    def read(self, path: str) -> bytes | None:
        with _said(path):
            try:
                found = obstore.get(self.objects, path)
                if found.meta["size"] > MOST_SMALL:
                    raise StoreError(f"{path} is larger than {MOST_SMALL} bytes")
                return bytes(found.bytes())
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        with _said(path):
            try:
                obstore.head(self.objects, path)
            except FileNotFoundError:
                return False
            return True

    def needed(self, input_: str, path: str) -> bool:
        return not self.exists(path)

    def create(self, path: str, data: bytes) -> bool:
        """Puts a small object, if there is none.

        A conflict of two puts at once is reported as an object that exists, although neither may
        have been stored. So is the pilot's own object, if the answer to its put was lost.
        """
        if self._put(path, data):
            return True
        there = self.read(path)
        if there is None:
            raise Unsure(f"{path}: two pilots put it at once")
        return there == data

    def publish(self, path: str, source: Path) -> bool:
        if self._put(path, source):
            return True
        if not self.exists(path):
            raise Unsure(f"{path}: two pilots put it at once")
        return False

    def _put(self, path: str, data: bytes | Path) -> bool:
        with _said(path):
            try:
                obstore.put(self.objects, path, data, mode="create")
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError, FileExistsError):
                return False
            return True

    def renew(self, path: str, data: bytes) -> None:
        """Puts a claim again, so that the storage gives it a new time."""
        with _said(path):
            obstore.put(self.objects, path, data, use_multipart=False)

    def remove(self, path: str) -> None:
        with _said(path), suppress(FileNotFoundError):
            obstore.delete(self.objects, path)

    def fetch(self, path: str, target: Path) -> bool:
        with _said(path):
            try:
                found = obstore.get(self.objects, path)
            except FileNotFoundError:
                return False
            with target.open("wb") as file:
                for piece in found.stream():
                    file.write(piece)
            return True

    def finish(self, input_: str) -> None:
        path = f"{FINISHED}/{input_}"
        with _said(path):
            obstore.put(self.objects, path, b"\n", use_multipart=False)


def bucket(url: str) -> Bucket:
    """The store of a URL such as ``s3://bucket/prefix``; keys are in the environment.

    Raises StoreError where obstore cannot use the URL.
    """
    # Options that are given hide those of the environment.
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true", "yes"}
    try:
        options: ClientConfig = {"timeout": _WAIT, "allow_http": plain}
        retries: RetryConfig = {"max_retries": 3, "retry_timeout": _RETRIES}
        return Bucket(url, from_url(url, client_options=options, retry_config=retries))
    except (exceptions.BaseError, ValueError) as error:
        raise StoreError(f"{url}: {_first(error)}") from None
