"""Limits of tries, such as passwords and e-mails, and of SMS, counted for all processes of an
installation together. `moment` is the machine's uptime in seconds; of SMS it is a time.
"""

import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from crm.config.readers import SMS_LIMITS
from crm.errors import TooMany
from crm.limits import windows
from crm.limits.counters import Counters
from crm.limits.windows import Limit, Window
from crm.networks import networks_of

WARNING_PERCENT = 80

log = logging.getLogger("crm")


class TryLimits:
    """Limits of tries in a fixed window, one limit for each kind of name, such as `account`.

    A try is counted before the work that it costs, whether it succeeds or not.
    """

    def __init__(self, counters: Counters, window: Window, **limits: int) -> None:
        """`limits` are the numbers of tries in the window by kind."""
        self._counters, self._window, self._limits = counters, window, limits

    def count_try(self, moment: float, **names: str) -> None:
        """Count a try under names of each kind. Raises TooMany, and then counts nothing."""
        taken = self._counters.take(self._limits_of(names), moment)
        if not taken.allowed:
            raise TooMany("too many tries", "too_many_tries", math.ceil(taken.seconds_left))

    def reset(self, **names: str) -> None:
        """Reset the counts of these names after a success.

        Only for users who are logged in: at a login the reset would show strangers who tried that
        somebody has logged in.
        """
        self._counters.reset(self._limits_of(names))

    def _limits_of(self, names: dict[str, str]) -> list[Limit]:
        return [
            Limit(self._window, f"{kind}/{name}", self._limits[kind])
            for kind, name in names.items()
        ]


class PasswordLimits:
    """Limits of password tries at the login.

    Few tries are allowed at an account from one network, and far more from everywhere, so that a
    stranger elsewhere does not lock the user out. A known browser has a limit of its own.
    """

    def __init__(self, counters: Counters) -> None:
        self._account = TryLimits(counters, windows.ACCOUNTS, account=100)
        # Of one /48 fewer than lock the account: 80 an hour.
        self._tries = TryLimits(
            counters,
            windows.PASSWORDS,
            account_network=10,
            account_network48=20,
            network=50,
            known_browser=10,
        )

    def count_try(
        self, moment: float, tenant: str, account: str, address: str, known_browser: str | None
    ) -> None:
        """Count a try. Raises TooMany. `account` is the user, or the address that nobody has.

        `known_browser` is the name that known_browsers.identify_browser() returned.
        """
        if known_browser is not None:
            self._tries.count_try(moment, known_browser=f"{tenant}/{known_browser}")
            return
        name, networks = f"{tenant}/{account}", networks_of(address)
        # The account comes last: a try that the network's limit refuses does not count for it.
        self._tries.count_try(
            moment,
            account_network=f"{name} {networks[0]}",
            account_network48=f"{name} {networks[-1]}",
            network=networks[0],
        )
        self._account.count_try(moment, account=name)


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of SMS in 24 hours; with `tenant`, of its users only."""

    name: str
    limit: int
    tenant: str = ""

    def to_limit(self, adds: bool = True) -> Limit:
        return Limit(
            windows.SMS_TENANTS if self.tenant else windows.SMS_SHARED, self.name, self.limit, adds
        )

    def is_nearly_used_up(self, used: int) -> bool:
        return self.limit > 0 and used > 0 and 100 * used >= WARNING_PERCENT * self.limit


class SmsLimits:
    """How many SMS may be sent: `CRM_SMS_LIMITS`. Each operation of the counters is atomic.

    Requests are limited by phone and by network, in sliding hours and days. An IPv6 network counts
    as /64 and as /48. From one network a phone gets at most half of its SMS, so that a stranger
    leaves the rest to its owner. A known browser has a count of its own instead.

    Sent SMS are limited by budgets of 24 hours:

    - `day`: all SMS of the installation. A part of it is the `reserve` for users of tenants: it is
      used when the other part is used up, or, for known browsers, when the budget of their tenant
      is. One tenant gets at most `reserve_tenant` of it.
    - `signup`: all codes for sign-up.
    - `tenant`: the codes and invitations of one tenant's users.

    A code for a phone that no user has is counted for phone and network only. The budgets are read
    for it as well, so that the response is the same as for a user's phone.
    """

    def __init__(self, counters: Counters, limits: Mapping[str, int] = SMS_LIMITS) -> None:
        """`limits` are numbers by the names of SMS_LIMITS."""
        self._counters = counters
        self._limits = limits
        reserve = limits["reserve"]
        self._general = Budget("all tenants and sign-up", limits["day"] - reserve)
        self._reserve = Budget("the reserve", reserve)
        self._signup = Budget("sign-up", limits["signup"])

    def count_sms(
        self,
        phone: str,
        address: str,
        moment: float,
        *,
        tenant: str | None,
        known: bool = True,
        browser: str | None = None,
    ) -> bool:
        """Count one SMS about to be sent; return False, and count nothing, if it must not be sent.

        `address` is the IP address of the request, `moment` the time in epoch seconds, `tenant` the
        label of the user's tenant, None for a sign-up. `known` is False if no user has the phone,
        so that no SMS will be sent. `browser` names a known browser. Raises OSError.
        """
        if browser is None:
            requests = self._request_limits(f"phone/{phone}", networks_of(address))
        else:
            requests = self._request_limits(f"browser/{tenant}/{browser}", ())
        for budgets in self._choices(tenant, browser is not None):
            limits = [budget.to_limit(known) for budget in budgets]
            taken = self._counters.take([*requests, *limits], moment)
            if taken.allowed:
                counts = taken.counts[len(requests) :]
                for budget, used in zip(budgets, counts, strict=True):
                    self._warn(budget, used, moment)
                return True
        return False

    def list_budgets(
        self, moment: float, tenants: Iterable[str]
    ) -> Iterator[tuple[Budget, int, bool]]:
        """Yield each budget, how many SMS of it are used, and whether it is nearly used up."""
        budgets = [self._general, self._reserve, self._signup, *map(self._tenant, tenants)]
        counts = self._counters.read([budget.to_limit() for budget in budgets], moment)
        for budget, used in zip(budgets, counts, strict=True):
            yield budget, used, budget.is_nearly_used_up(used)

    def _request_limits(self, recipient: str, networks: Sequence[str]) -> list[Limit]:
        hour, day = self._limits["phone_hour"], self._limits["phone_day"]
        limits = [Limit(windows.SMS_HOUR, recipient, hour), Limit(windows.SMS_DAY, recipient, day)]
        if networks:
            by_network = f"{recipient} {networks[-1]}"
            limits += [
                Limit(windows.SMS_HOUR, by_network, (hour + 1) // 2),
                Limit(windows.SMS_DAY, by_network, (day + 1) // 2),
                Limit(windows.SMS_HOUR, f"network/{networks[0]}", self._limits["network_hour"]),
                Limit(
                    windows.SMS_HOUR, f"network48/{networks[-1]}", self._limits["network48_hour"]
                ),
            ]
        return limits

    def _choices(self, tenant: str | None, is_known_browser: bool) -> list[tuple[Budget, ...]]:
        """Return budgets that an SMS may be counted in: all of the first ones that have room."""
        if tenant is None:
            return [(self._general, self._signup)]
        own = self._tenant(tenant)
        part = Budget(f"the reserve for {tenant}", self._limits["reserve_tenant"], tenant)
        counted = replace(own, limit=sys.maxsize) if is_known_browser else own
        return [(self._general, own), (self._reserve, part, counted)]

    def _warn(self, budget: Budget, used: int, moment: float) -> None:
        """Warn the operator once a day if a budget is nearly used up."""
        if not budget.is_nearly_used_up(used):
            return
        warning = Limit(windows.SMS_TENANTS, f"warning/{budget.name}", 1)
        if self._counters.take([warning], moment).allowed:
            text = "%d of %d SMS in 24 hours are used by %s (CRM_SMS_LIMITS)"
            log.warning(text, used, budget.limit, budget.name)

    def _tenant(self, label: str) -> Budget:
        return Budget(f"tenant {label}", self._limits["tenant"], label)
