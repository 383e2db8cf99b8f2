"""Laws of whom queues admit: what is combined never admits more than its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from matchmaker import glue
from matchmaker.batch.description.records import Access, QueueRecord, both, either

NAMES = st.sampled_from("abc")
LISTS = st.dictionaries(
    st.sampled_from(["AllowedUsers", "AllowedGroups", "DeniedUsers", "DeniedGroups"]),
    st.lists(NAMES, max_size=3).map(tuple),
    min_size=1,
)
ACCESS = st.lists(LISTS, max_size=3).map(tuple)


def admits(access: Access, names: set[str]) -> bool:
    """Whether an organisation whose jobs run under some names is admitted to a queue."""
    queue = QueueRecord(name="q", lrms="x", status=None, access=access)
    [ad] = glue.admit([queue.ad()], ["vo"], {"vo": sorted(names)})
    return ad.eval("GlueCEAccessControlBaseRule") == ["VO:vo"]


@given(ACCESS, ACCESS, st.sets(NAMES, min_size=1))
def test_both_admit_no_more_than_each(one: Access, other: Access, names: set[str]) -> None:
    together = admits(both(one, other), names)
    separately = admits(one, names) and admits(other, names)
    assert separately or not together
    if len(names) == 1:
        assert together == separately


@given(st.lists(ACCESS, max_size=3), st.sets(NAMES, min_size=1))
def test_either_admits_whom_one_admits(several: list[Access], names: set[str]) -> None:
    assert admits(either(several), names) is any(admits(one, names) for one in several)
