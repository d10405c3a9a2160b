"""Assignment of namespaces and components to replicas, by rendezvous hashing.

Each replica has a score for each key, a hash of both, and the replica with the highest score owns the key. Replicas
that know the same members agree without asking each other. When a replica leaves, only its own keys move; when one
joins, only the keys that it gets. A ring of tokens has that property too, and needs tokens and a table to be as even.

A component is one of few keys, so that chance alone would leave some replicas without any: components are dealt out
with a limit for each replica.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

# The most replicas of a group. Rights name their Leases one by one.
MAX_MEMBERS: Final = 16

# The group of the replicas of `trellis run`, which spread the leaders of components.
PROCESS_GROUP: Final = "trellis"


_MEMBER: Final = "-member-"
_SHARED: Final = "-shards"


def list_member_leases(group: str) -> list[str]:
    """The names of the Leases that replicas of a group may hold."""
    return [f"{group}{_MEMBER}{number}" for number in range(MAX_MEMBERS)]


def is_member_lease(name: str) -> bool:
    """Whether a Lease is that of a replica, and elects no leader."""
    return _MEMBER in name


def name_shared_holder(group: str) -> str:
    """The identity under which all replicas of a group hold the Leases of their component together."""
    return f"{group}{_SHARED}"


def is_shared_holder(identity: str) -> bool:
    """Whether an identity is that of a group. That of a single process ends with a random part."""
    return identity.endswith(_SHARED)


def score(key: str, member: str) -> int:
    """The score of a member for a key: the same in every process, on every machine."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=member.encode()[:64]).digest()
    return int.from_bytes(digest, "big")


def rank_members(key: str, members: Iterable[str]) -> list[str]:
    """The members in the order in which they are to own a key."""
    return sorted(members, key=lambda member: (-score(key, member), member))


@lru_cache(maxsize=1 << 16)
def find_owner(key: str, members: tuple[str, ...]) -> str | None:
    """The member that owns a key; None without members."""
    return min(members, key=lambda member: (-score(key, member), member), default=None)


def deal_out(candidates: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The member for each key that has candidates, by key. No member gets more than its share while others have less.

    A key whose candidates all have their share goes to the one with the fewest keys.
    """
    keys = sorted(key for key, members in candidates.items() if members)
    members = {member for key in keys for member in candidates[key]}
    share = -(-len(keys) // max(len(members), 1))
    counts: Counter[str] = Counter()
    owners: dict[str, str] = {}
    # Keys with fewer candidates first: those with more find another one.
    for key in sorted(keys, key=lambda key: (len(set(candidates[key])), key)):
        ranked = rank_members(key, set(candidates[key]))
        free = [member for member in ranked if counts[member] < share]
        owners[key] = free[0] if free else min(ranked, key=lambda member: counts[member])
        counts[owners[key]] += 1
    return owners


class MemberView(msgspec.Struct, frozen=True):
    """The members that a replica assigns namespaces by, as it has published them."""

    member: str
    members: tuple[str, ...]

    def claims(self, namespace: str) -> bool:
        """Whether the replica takes the namespace for its own."""
        return find_owner(namespace, self.members) == self.member

    def part_of(self, total: int) -> int:
        """The part that this replica has of a number for all replicas; the parts add up to it."""
        whole, remainder = divmod(total, len(self.members))
        return whole + (self.members.index(self.member) < remainder)


class NamespaceShard(msgspec.Struct, frozen=True):
    """The namespaces that a replica serves: those that all of its own views claim and no view of another replica does.

    While its members change, a replica has two views of its own: the one that others know, and the next.
    """

    own: tuple[MemberView, ...] = ()
    others: tuple[MemberView, ...] = ()

    def covers(self, namespace: str) -> bool:
        """Whether the namespace is served. A shard without views serves none."""
        return (
            bool(self.own)
            and all(view.claims(namespace) for view in self.own)
            and not any(view.claims(namespace) for view in self.others)
        )
