"""What all clients together, and the clients of one network, may use of a server, and who must give
way when it is too much.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crm.activity import process
from crm.server.connections import ALL, URGENT_PATHS, ClientConnection, State, Waiting

# The parts of a limit that one address or IPv6 /64, and one IPv6 /48, may use.
NETWORK_PARTS = (0.5, 0.75)
HOST_PARTS = (0.5,)


class Bound:
    """Counts an amount that connections use, all together `total` and those of a group a part.

    The groups of a connection, such as its networks, are named from the smallest to the largest.
    Where there is too much, those of the largest group have to go, not who came last.
    """

    def __init__(self, total: int, parts: Sequence[float]):
        """`parts`: of the total, for each of a connection's groups; none: as much as there is."""
        self.total = total
        self._parts = parts
        # In the order in which they began to use something.
        self._users: dict[Any, tuple[tuple[str, ...], int]] = {}
        self._used: Counter[str] = Counter()

    def __contains__(self, user: Any) -> bool:
        return user in self._users

    def __len__(self) -> int:
        return len(self._users)

    def set(self, user: Any, groups: tuple[str, ...], amount: int) -> None:
        """Set what a connection uses, instead of what it used before; 0: nothing."""
        if amount or user in self._users:
            old_groups, old_amount = self._users.get(user, (groups, 0))
            self._add(old_groups, -old_amount)
            self._add(groups, amount)
            if amount:
                self._users[user] = groups, amount
            else:
                del self._users[user]

    def _add(self, groups: tuple[str, ...], amount: int) -> None:
        for name in (ALL, *groups):
            self._used[name] += amount
            if not self._used[name]:
                del self._used[name]

    def exceeded(self, user: Any) -> str | None:
        """Return the group of which one must go: one of the user's that uses more than its part,
        or the one that uses most, if it is too much in all; else None.
        """
        if user not in self._users:
            return None
        for name, part in zip(self._users[user][0], self._parts, strict=False):
            if self._used[name] > self.total * part:
                return name
        return self.largest_group() if self._used[ALL] > self.total else None

    def largest_group(self) -> str:
        """Return the name of the group that uses most, ALL if users have no groups."""
        groups = (name for name in self._used if name is not ALL)
        return max(groups, key=self._used.__getitem__, default=ALL)

    def users(self, group: str) -> Iterator[Any]:
        """Yield those of a group, or ALL, that use something, those first that began first."""
        return (user for user, (groups, _) in self._users.items() if group in (ALL, *groups))

    def used_with(self, user: Any) -> tuple[int, int]:
        """Return what a user's largest group uses, and the user itself."""
        groups, amount = self._users.get(user, ((), 0))
        return self._used[groups[-1] if groups else ALL], amount


class Limits:
    """The bounds of all connections, of what their requests hold in memory and in temporary files,
    and of unread responses.

    The methods with an iterator yield a connection that must give way, as long as there is too
    much: the caller closes it, or ends its request, before it takes the next one.
    """

    def __init__(
        self, max_connections: int, max_buffer_bytes: int, max_spooled_bytes: int, by_network: bool
    ):
        parts = NETWORK_PARTS if by_network else ()
        self.connections = Bound(max_connections, parts)
        # Each by the networks of the clients, and by the hosts that the requests name.
        self._memory = Bound(max_buffer_bytes, parts), Bound(max_buffer_bytes, HOST_PARTS)
        self._files = Bound(max_spooled_bytes, parts), Bound(max_spooled_bytes, HOST_PARTS)
        self._answers = Bound(max_buffer_bytes, parts)

    def add(self, conn: ClientConnection, waiting: Waiting) -> Iterator[ClientConnection]:
        """Count a new connection; yield those that wait longest, of the largest network."""
        self.connections.set(conn, conn.networks, 1)
        while network := self.connections.exceeded(conn):
            longest = waiting.find_longest(network) or waiting.find_longest(ALL)
            if longest is None:
                return
            yield longest

    def count_bytes(self, conn: ClientConnection) -> Iterator[ClientConnection]:
        """Count what is held of a connection's requests and response.

        Yields those with the largest requests, and those with the oldest responses.
        """
        # Each is read when it is counted: the connection may be closed by then.
        yield from self._count(conn, conn.received_bytes - conn.spooled_bytes, *self._memory)
        yield from self._count(conn, conn.spooled_bytes, *self._files)
        if conn.output_bytes or conn in self._answers:
            self._answers.set(conn, conn.networks, conn.output_bytes)
            while network := self._answers.exceeded(conn):
                yield next(self._answers.users(network))

    def _count(
        self, conn: ClientConnection, held_bytes: int, by_network: Bound, by_host: Bound
    ) -> Iterator[ClientConnection]:
        if held_bytes or conn in by_network:
            by_network.set(conn, conn.networks, held_bytes)
            by_host.set(conn, (f"host {conn.host}",), held_bytes)
            for bound in (by_network, by_host):
                while group := bound.exceeded(conn):
                    yield self._find_largest(bound, group, by_network)

    def _find_largest(self, bound: Bound, group: str, by_network: Bound) -> ClientConnection:
        """Return the user of a group, else of all, to end: the application works for others."""
        for name in (group, ALL):
            users = [user for user in bound.users(name) if user.state is not State.WORKING]
            if users:
                break
        return max(users, key=by_network.used_with)

    def remove(self, conn: ClientConnection) -> None:
        """Count a connection no more."""
        for bound in (self.connections, *self._memory, *self._files, self._answers):
            bound.set(conn, (), 0)


class SlowRequests:
    """The slow requests, which run outside of the loop: `total` at a time, and fewer of one kind.

    The `kind` of a request is (host, whether it only reads). Half of the requests may read from one
    host and one may write: writers of a tenant wait for each other anyway, and each one that
    computes takes time from all others. A change that is `is_apart`, such as an upload, lets others
    of its host run. A quarter of the slots is for hosts that have none. A request that waits for a
    lock or a database (`is_waiting`) takes no slot, unless there are WAITING_PER_SLOT for each
    slot: then it does, as each occupies a thread. Heavy work gets half of the slots
    (`crm/activity.py`).
    """

    WAITING_PER_SLOT = 8

    def __init__(self, total: int, wake_loop: Callable[[], None]):
        self.total = max(2, total)
        self._wake_loop = wake_loop
        process.slots, process.on_wait = self.total // 2, self.note_wait
        self.may_have_room = False  # for queued requests, which are to be looked at
        self._kinds: dict[Any, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._kinds)

    def add(self, request: Any) -> None:
        self._kinds[request] = request.kind

    def remove(self, request: Any) -> None:
        """Count a request no more; of the members of a group only one was counted."""
        self._kinds.pop(request, None)
        self.may_have_room = True

    def note_wait(self) -> None:
        """Have the loop look for queued requests; called in the thread of one that waits now."""
        self.may_have_room = True
        self._wake_loop()

    def leave_room_for(self, request: Any) -> bool:
        """Return whether another request, which may be slow too, may run now."""
        host, reads = kind = request.kind
        kinds = list(self._kinds.values())
        if host in URGENT_PATHS:
            return kinds.count(kind) < self.total
        apart = sum(slow.is_apart for slow in self._kinds if self._kinds[slow] == kind)
        if kinds.count(kind) - apart >= (self.total // 2 if reads else 1):
            return False
        waiting = sum(slow.is_waiting for slow in self._kinds)
        used = len(kinds) - min(waiting, self.WAITING_PER_SLOT * self.total)
        has_one = (host, True) in kinds or (host, False) in kinds
        return used < self.total - (max(1, self.total // 4) if has_one else 0)
