"""Running the application for the complete requests of a loop, and delivering what it answers.

A request runs in the loop's thread. When it takes long, another thread continues the loop
(`hand_over.py`). At most `threads` requests may be slow at a time, of one host half of them for
reading and one for writing; requests beyond that wait in a queue, health checks do not.

Short changes of one host that are complete in the same round of the loop run as a group: the
storage commits what they write together (`crm/storage/commit_groups.py`), and their answers are
sent after that. One that is alone runs like any other.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from crm.server.connections import ClientConnection, State
from crm.server.hand_over import HandOver, LoopTaken
from crm.server.limits import SlowRequests
from crm.server.responses import make_problem
from crm.storage import commit_groups

MAX_GROUP = 32  # requests


class Runner:
    """Runs the application of a loop; the methods are called by the thread that runs the loop."""

    def __init__(self, loop: Any, threads: int):
        """`loop`: a `Loop`. `threads`: how many requests may be slow at a time."""
        self._loop = loop
        self.slow = SlowRequests(threads, loop.wake)
        self.hand_over = HandOver(loop.run, self._let_go, loop.log)
        self._finished: deque[ClientConnection] = deque()  # answered by a thread without the loop
        self._changes: list[ClientConnection] = []  # with short changes that did not run yet
        self._group: list[ClientConnection] = []  # of changes that this thread runs now

    def start(self, conn: ClientConnection) -> None:
        """Run a complete request: now, with others of its host at the next run_waiting(), or when
        there is room. Raises LoopTaken.
        """
        if self.slow.leave_room_for(conn):
            self._start(conn)
        else:
            self._loop.waiting.put(conn, State.QUEUED, self._loop.QUEUE_SECONDS)
            self._loop.waiting.watch(conn, 0)
            self._loop.count_bytes(conn)

    def _start(self, conn: ClientConnection) -> None:
        self._loop.waiting.take(conn, State.WORKING)
        if self._loop.is_short_change(conn):
            self._changes.append(conn)
        else:
            self.run(conn)

    def run(self, conn: ClientConnection) -> None:
        """Let the application make the response, or more of it, and send that. Raises LoopTaken."""
        self._loop.waiting.take(conn, State.WORKING)
        self._deliver([conn], self._make_output(conn))

    def run_waiting(self) -> None:
        """Run the requests that wait and may run now; send what other threads have made.

        Raises LoopTaken: the thread that runs the loop by then does the rest.
        """
        while self._finished:
            conn = self._finished.popleft()
            self.slow.remove(conn)
            self._loop.guard(conn, self._loop.send)
        if self.slow.may_have_room:
            self.slow.may_have_room = False
            for conn in list(self._loop.waiting[State.QUEUED]):
                if conn.state is State.QUEUED and self.slow.leave_room_for(conn):
                    self.slow.may_have_room = True  # on LoopTaken another thread continues here
                    self._loop.guard(conn, self._start)
        while self._changes:
            host = self._changes[0].host
            conns = [conn for conn in self._changes if conn.host == host][:MAX_GROUP]
            self._changes = [conn for conn in self._changes if conn not in conns]
            if len(conns) > 1:
                self._run_group(conns)
            else:
                self._loop.guard(conns[0], self.run)

    def _run_group(self, conns: list[ClientConnection]) -> None:
        """Run short changes of one host; a thread that loses the loop meanwhile runs them all."""
        has_loop = True
        groups: list[commit_groups.Group | None] = []
        self._group = conns
        commit_groups.collect()
        try:
            for conn in conns:
                commit_groups.begin_request()
                has_loop = self._make_output(conn, has_loop)
                groups.append(commit_groups.joined_group())
            if has_loop:  # the commit may take long, too
                self.hand_over.begin(conns[0])
        finally:
            commit_groups.finish()
        if has_loop and (has_loop := self.hand_over.end(conns[0])):
            self._group = []
        for conn, group in zip(conns, groups, strict=True):
            if group is not None and group.has_failed:
                conn.replace_response(make_problem(503, conn.environ))
        self._deliver(conns, has_loop)

    def _make_output(self, conn: ClientConnection, has_loop: bool = True) -> bool:
        """Let the application make the next bytes of a response; return whether this thread has the
        loop: another one has it if that takes long.
        """
        if has_loop:
            self.hand_over.begin(conn)
        keepalive = self._loop.keepalive if self._loop.alive else 0
        conn.make_output(self._loop.application, keepalive, self._loop.log)
        return has_loop and self.hand_over.end(conn)

    def _deliver(self, conns: Iterable[ClientConnection], has_loop: bool) -> None:
        """Send what was made for connections; without the loop, let its thread send it."""
        if not has_loop:
            self._finished.extend(conns)
            self._loop.wake()
            raise LoopTaken
        for conn in conns:
            self._loop.guard(conn, self._loop.send)

    def _let_go(self, conn: ClientConnection) -> None:
        """Prepare for another thread to continue the loop, while `conn` has a slow request."""
        self.slow.add(conn)
        for waiting in self._group or [conn]:
            self._loop.waiting.watch(waiting, 0)  # what its client sends is read after the response
        self._group = []
