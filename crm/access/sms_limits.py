"""How many SMS may be sent, by all processes of an installation together: `CRM_SMS_LIMITS`.

Requests are limited by phone and by network, in sliding hours and days. An IPv6 network counts as
/64 and as /48. From one network a phone gets at most half of its SMS, so that a stranger leaves the
rest to its owner. A known browser has a count of its own instead.

Sent SMS are limited by budgets of 24 hours:

- `day`: all SMS of the installation. A part of it is the `reserve` for users of tenants: it is used
  when the other part is used up, or, for known browsers, when the budget of their tenant is. One
  tenant gets at most `reserve_tenant` of it.
- `signup`: all codes for sign-up.
- `tenant`: the codes and invitations of one tenant's users.

A code for a phone that no user has is counted for phone and network only. The budgets are looked at
for it as well, so that the response is the same as for a user's phone.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from crm.config import SMS_LIMITS
from crm.networks import networks_of
from crm.tenancy.sms_log import (
    DAY_SECONDS,
    GENERAL,
    REQUEST_KINDS,
    RESERVE,
    SIGNUP,
    AnySmsLog,
    RecordLimit,
    SmsRequest,
)

HOUR = 3600
WARNING_PERCENT = 80

log = logging.getLogger("crm")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of SMS of some kinds in 24 hours; with `tenant`, of its users only."""

    name: str
    limit: int
    kinds: tuple[int, ...]
    tenant: str = ""

    @property
    def records(self) -> RecordLimit:
        """The limit of its records in the log."""
        names = {"tenant": self.tenant} if self.tenant else {}
        return RecordLimit(self.limit, DAY_SECONDS, self.kinds, names)

    @property
    def warned_from(self) -> int:
        """How many SMS are so many that the operator is warned."""
        return max(1, -(-self.limit * WARNING_PERCENT // 100))

    def is_nearly_used_up(self, used: int) -> bool:
        return used >= self.warned_from and self.limit > 0


class SmsLimits:
    """Counts SMS exactly: one atomic operation reads the log and writes the record."""

    def __init__(self, sms_log: AnySmsLog, limits: Mapping[str, int] = SMS_LIMITS) -> None:
        """`limits` are numbers by the names of SMS_LIMITS."""
        self._log = sms_log
        self._limits = limits
        reserve = limits["reserve"]
        self._general = Budget(
            "all tenants and sign-up", limits["day"] - reserve, (SIGNUP, GENERAL)
        )
        self._reserve = Budget("the reserve", reserve, (RESERVE,))
        self._signup = Budget("sign-up", limits["signup"], (SIGNUP,))

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
        so that no SMS will be sent. `browser` names a known browser. Raises StorageFull.
        """
        names = {"recipient": f"browser/{tenant}/{browser}"}
        if browser is None:
            networks = networks_of(address)
            names = {
                "recipient": f"phone/{phone}",
                "network": networks[0],
                "network48": networks[-1],
            }
        budgets = {budget.name: budget for budget in self._shared() if budget.limit}
        if tenant is not None:
            own = self._tenant(tenant)
            budgets[own.name] = own
        allowed, warnings = self._log.take(
            SmsRequest(
                names,
                tenant or "",
                self._request_limits(names),
                self._kinds(tenant, browser),
                known,
                {name: (budget.records, budget.warned_from) for name, budget in budgets.items()},
            ),
            moment,
        )
        for name, used in warnings.items():
            log.warning(
                "%d of %d SMS in 24 hours are used by %s (CRM_SMS_LIMITS)",
                used,
                budgets[name].limit,
                name,
            )
        return allowed

    def list_budgets(
        self, moment: float, tenants: Iterable[str]
    ) -> Iterator[tuple[Budget, int, bool]]:
        """Yield each budget, how many SMS of it are used, and whether it is nearly used up."""
        budgets = [*self._shared(), *map(self._tenant, tenants)]
        counts = self._log.count([budget.records for budget in budgets], moment)
        for budget, used in zip(budgets, counts, strict=True):
            yield budget, used, budget.is_nearly_used_up(used)

    def _request_limits(self, names: Mapping[str, str]) -> list[RecordLimit]:
        recipient, limits = {"recipient": names["recipient"]}, self._limits
        checks = [
            (HOUR, limits["phone_hour"], recipient),
            (DAY_SECONDS, limits["phone_day"], recipient),
        ]
        if "network" in names:
            one_network = recipient | {"network48": names["network48"]}
            checks += [
                (HOUR, _half(limits["phone_hour"]), one_network),
                (DAY_SECONDS, _half(limits["phone_day"]), one_network),
                (HOUR, limits["network_hour"], {"network": names["network"]}),
                (HOUR, limits["network48_hour"], {"network48": names["network48"]}),
            ]
        return [RecordLimit(limit, seconds, REQUEST_KINDS, by) for seconds, limit, by in checks]

    def _kinds(
        self, tenant: str | None, browser: str | None
    ) -> list[tuple[int, list[RecordLimit]]]:
        """Return the kinds that an SMS may be counted as, each with its budgets."""
        if tenant is None:
            return [(SIGNUP, [self._general.records, self._signup.records])]
        own = self._tenant(tenant).records
        part = Budget("", self._limits["reserve_tenant"], (RESERVE,), tenant).records
        reserve = [self._reserve.records, part]
        if browser is None:
            reserve.append(own)
        return [(GENERAL, [self._general.records, own]), (RESERVE, reserve)]

    def _shared(self) -> tuple[Budget, ...]:
        return self._general, self._reserve, self._signup

    def _tenant(self, label: str) -> Budget:
        return Budget(f"tenant {label}", self._limits["tenant"], (GENERAL, RESERVE), label)


def _half(number: int) -> int:
    return (number + 1) // 2
