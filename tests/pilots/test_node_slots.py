"""Slots: nothing is taken twice, the foreground finds its place, the background goes on."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from matchmaker.classad import ClassAd, parse_ad, parse_expr
from matchmaker.matching.pair import match
from matchmaker.pilots.node.slots import (
    FOREGROUND,
    NodeResources,
    NodeState,
    SitePolicy,
    apply_policy,
    leave,
    offers,
    request,
    take,
)  # fmt: skip
from tests.cases import cases

MACHINE = ClassAd(Machine="here")
JOBS = st.fixed_dictionaries(
    {},
    optional={
        "RequestCpus": st.integers(0, 5),
        "RequestMemory": st.integers(0, 120) | st.floats(0, 120),
        "RequestDisk": st.integers(0, 12),
        "RequestGpus": st.integers(0, 2),
        "JobClass": st.sampled_from([FOREGROUND, "background"]),
        "Calm": st.booleans(),
    },
)


class Slots(RuleBasedStateMachine):
    @initialize(cpus=st.integers(1, 6), most=st.integers(1, 4), reserved=st.integers(0, 2))
    def begins(self, cpus: int, most: int, reserved: int) -> None:
        self.node = NodeState(
            total=NodeResources(cpus=cpus, memory=200, disk=20, gpus=1), most=most,
            reserved=reserved,
            policy=SitePolicy(
                suspend=parse_expr("TARGET.Calm"), resume=parse_expr("MY.JobSeconds > 5"),
                rank=parse_expr("TARGET.RequestMemory"),
            ),
        )  # fmt: skip
        self.next = 0

    @rule(said=JOBS)
    def a_job_comes(self, said: dict[str, Any]) -> None:
        ad = ClassAd(said)
        ad["Requirements"] = True
        self.next += 1
        taken = take(self.node, str(self.next), ad)
        offered = [match(ad, slot).matched for slot in offers(self.node, MACHINE).values()]
        if any(offered):
            # What was offered is given.
            assert taken is not None
        if taken is None:
            return
        assert any(offered)
        if taken.claims[-1].foreground:
            assert not taken.claims[-1].suspended
        else:
            assert [c.suspended for c in taken.claims[:-1]] == [
                c.suspended for c in self.node.claims
            ]
        self.node = taken

    @precondition(lambda self: self.node.claims)
    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        before = self.node
        self.node = leave(before, data.draw(st.sampled_from(before.claims)).job)
        assert len(self.node.claims) == len(before.claims) - 1

    @rule(seconds=st.floats(0, 10))
    def time_goes_on(self, seconds: float) -> None:
        known = {each.job: seconds for each in self.node.claims}
        self.node = apply_policy(self.node, MACHINE, known)

    @invariant()
    def nothing_is_taken_twice(self) -> None:
        if hasattr(self, "node"):
            assert NodeResources().within(self.node.free)

    @invariant()
    def nobody_stands_still_without_need(self) -> None:
        if hasattr(self, "node"):
            for each in self.node.claims:
                assert not (each.foreground and each.suspended)
                if each.for_others and not each.by_policy:
                    assert each.takes.cpus > self.node.free.cpus

    @invariant()
    def the_foreground_finds_its_place(self) -> None:
        if hasattr(self, "node") and self.node.reserved:
            busy = [each for each in self.node.claims if each.foreground]
            if len(busy) < self.node.reserved:
                left = self.node.total.cpus - sum(each.takes.cpus for each in busy)
                assert (FOREGROUND in offers(self.node, MACHINE)) == (left > 0)

    def teardown(self) -> None:
        if hasattr(self, "node"):
            for each in self.node.claims:
                self.node = leave(self.node, each.job)
            assert self.node.free == self.node.total


TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=cases(60), stateful_step_count=25, deadline=None)


def test_what_a_policy_ends_is_marked() -> None:
    node = NodeState(
        total=NodeResources(cpus=1, memory=9), most=1,
        policy=SitePolicy(preempt=parse_expr("MY.JobSeconds > 10 && TARGET.Long")),
    )  # fmt: skip
    taken = take(node, "1", ClassAd(Long=True))
    assert taken is not None
    assert not apply_policy(taken, MACHINE, {"1": 9.0}).claims[0].preempted
    assert apply_policy(taken, MACHINE, {"1": 11.0}).claims[0].preempted


def test_a_policy_says_who_may_start() -> None:
    node = NodeState(
        total=NodeResources(cpus=1, memory=9), most=1,
        policy=SitePolicy(start=parse_expr('TARGET.Owner == "ana"')),
    )  # fmt: skip
    slot = offers(node, MACHINE)["any"]
    assert match(parse_ad('[ Owner = "ana"; Requirements = true ]'), slot).matched
    assert not match(parse_ad('[ Owner = "eve"; Requirements = true ]'), slot).matched


def test_a_slot_takes_only_applications_that_its_pilot_has() -> None:
    slot = offers(NodeState(total=NodeResources(cpus=1, memory=9), most=1), parse_ad(
        '[ Applications = { "render", "sort" } ]'
    ))["any"]  # fmt: skip
    for wish, wanted in (
        ('Application = "Render"', True), ('Application = "blast"', False), ('Cmd = "x"', True),
        ('Cmd = "x"; Application = "blast"', True), ("Application = 7", False),
    ):  # fmt: skip
        assert match(parse_ad(f"[ {wish}; Requirements = true ]"), slot).matched is wanted, wish


def test_requests_that_are_no_numbers_fit_nowhere() -> None:
    huge = NodeResources(cpus=1 << 50, memory=1 << 50, disk=1 << 50, gpus=1 << 50)
    for value in ("4", -1, float("inf"), 1e300, [4]):
        assert not request(ClassAd(RequestMemory=value)).within(huge)
    assert request(ClassAd()) == NodeResources(cpus=1)
    assert attrs.asdict(request(ClassAd(RequestCpus=0)))["cpus"] == 1


def test_nobody_stands_still_who_makes_no_room() -> None:
    node = NodeState(total=NodeResources(cpus=3, memory=9), most=2, reserved=1)
    for job, ad in (
        ("large", ClassAd(RequestCpus=2)), ("small", ClassAd()),
        ("fast", ClassAd(RequestCpus=2, JobClass=FOREGROUND)),
    ):  # fmt: skip
        taken = take(node, job, ad)
        assert taken is not None
        node = taken
    assert [each.job for each in node.claims if each.suspended] == ["large"]


@pytest.mark.parametrize("reserved", [0, 1])
@pytest.mark.parametrize("wish", [
    "RequestCpus = -1", "RequestMemory = -0.5", "RequestCpus = TARGET.Cpus", "RequestCpus = 1.5",
    "RequestMemory = TARGET.Memory / 2", 'JobClass = "Foreground"', 'JobClass = "foreGROUND"',
    'RequestCpus = "2"', "RequestDisk = 1/0", "RequestGpus = 0", "RequestCpus = true",
])  # fmt: skip
def test_what_matches_an_offer_is_taken(wish: str, reserved: int) -> None:
    """What a pilot declines would be given to it again and again."""
    node = NodeState(total=NodeResources(cpus=2, memory=100, disk=100), most=1, reserved=reserved)
    job = parse_ad(f"[ {wish}; Requirements = true ]")
    for now in (node, take(node, "other", ClassAd(RequestCpus=2))):
        assert now is not None
        for ad in offers(now, ClassAd()).values():
            if ad.eval("Requirements", target=job) is True:
                assert take(now, "job", job) is not None
