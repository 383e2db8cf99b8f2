"""Entries from a live information system over LDAP.

Only the search is here; what the entries mean is the same as for a file. The search is anonymous,
read-only and paged, follows no referral, and gives up after a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.ldif import Attributes, Entry

_CLASSES = (
    "CE",
    "VOView",
    "Cluster",
    "SubCluster",
    "CESEBindGroup",
    "CESEBind",
    "SE",
    "SA",
    "Site",
)
FILTER = "(|" + "".join(f"(objectClass=Glue{name})" for name in _CLASSES) + ")"


def search(
    url: str, base: str, report: Report, *, timeout: float = 30.0, page_size: int = 500
) -> Iterator[Entry]:
    """Search for the GLUE 1.3 entries under a base.

    Args:
        url: ``ldap://host:2170`` or ``ldaps://…``.
        base: the name to search under, such as ``o=grid``.
        report: called with an `Issue` for each value that is not UTF-8.
        timeout: seconds to connect, and to wait for each answer.
        page_size: entries asked for at a time.

    Raises:
        ValueError: for a URL of another scheme.
        ConnectionError: where the server cannot be reached or refuses.
    """
    if not url.lower().startswith(("ldap://", "ldaps://")):
        raise ValueError(f"an LDAP URL begins with ldap:// or ldaps://, not as {url!r}")
    import ssl

    import ldap3
    from ldap3.core.exceptions import LDAPException

    # Without the schema (NONE), values stay as they were published, whatever the server's says.
    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED) if url.lower().startswith("ldaps:") else None
    try:
        server = ldap3.Server(url, get_info=ldap3.NONE, connect_timeout=timeout, tls=tls)
    except (LDAPException, ValueError) as error:
        raise ValueError(f"{url!r} is not the URL of an LDAP server: {error}") from None
    connection = ldap3.Connection(
        server,
        read_only=True,
        auto_referrals=False,
        raise_exceptions=True,
        receive_timeout=timeout,
    )
    try:
        connection.bind()
        answers = connection.extend.standard.paged_search(
            base,
            FILTER,
            attributes=ldap3.ALL_ATTRIBUTES,
            paged_size=page_size,
            generator=True,
        )
        for answer in answers:
            if answer.get("type") == "searchResEntry":
                yield _entry(answer["dn"], answer["raw_attributes"], report)
    except LDAPException as error:
        raise ConnectionError(f"LDAP search at {url} under {base!r}: {error}") from error
    finally:
        # Not left to the connection's own `with`, which keeps open what was open before.
        connection.unbind()


def _entry(dn: str, raw: dict[str, list[bytes]], report: Report) -> Entry:
    pairs = []
    for name, values in raw.items():
        for value in values:
            try:
                text = value.decode("utf-8")
            except UnicodeDecodeError:
                text = value.decode("latin-1")
                said = "not UTF-8, read as Latin-1"
                report(Issue("ldap.encoding", said, dn=dn, attribute=name, raw=text))
            pairs.append((name, text))
    return Entry(dn, Attributes(pairs))
