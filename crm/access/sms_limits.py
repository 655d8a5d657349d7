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
    UNSENT,
    WARNED,
    SmsLog,
    SmsRecords,
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

    def count_used(self, records: SmsRecords) -> int:
        names = {"tenant": self.tenant} if self.tenant else {}
        return records.count(DAY_SECONDS, self.kinds, **names)

    def has_room(self, records: SmsRecords) -> bool:
        return self.count_used(records) < self.limit

    def is_nearly_used_up(self, used: int) -> bool:
        return used * 100 >= self.limit * WARNING_PERCENT > 0


class SmsLimits:
    """Counts SMS exactly: the log is read and written under one lock."""

    def __init__(self, sms_log: SmsLog, limits: Mapping[str, int] = SMS_LIMITS) -> None:
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
        with self._log.locked(moment) as records:
            kind = self._kind(records, tenant, browser)
            names = {"recipient": f"browser/{tenant}/{browser}"}
            if browser is None:
                networks = networks_of(address)
                names = {
                    "recipient": f"phone/{phone}",
                    "network": networks[0],
                    "network48": networks[-1],
                }
            allowed = self._may_request(records, names) and kind is not None
            if kind is not None and allowed and known:
                records.add(kind, **names, tenant=tenant or "")
            elif allowed:
                records.add(UNSENT, **names)
            warnings = list(self._warn(records, tenant))
        for budget, used in warnings:
            log.warning(
                "%d of %d SMS in 24 hours are used by %s (CRM_SMS_LIMITS)",
                used,
                budget.limit,
                budget.name,
            )
        return allowed

    def list_budgets(
        self, moment: float, tenants: Iterable[str]
    ) -> Iterator[tuple[Budget, int, bool]]:
        """Yield each budget, how many SMS of it are used, and whether it is nearly used up."""
        records = self._log.read(moment)
        for budget in (*self._shared(), *map(self._tenant, tenants)):
            used = budget.count_used(records)
            yield budget, used, budget.is_nearly_used_up(used)

    def _may_request(self, records: SmsRecords, names: Mapping[str, str]) -> bool:
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
        return all(
            records.count(seconds, REQUEST_KINDS, **by) < limit for seconds, limit, by in checks
        )

    def _kind(self, records: SmsRecords, tenant: str | None, browser: str | None) -> int | None:
        """Return the kind by which an SMS is counted; None if no budget has room for it."""
        general_has_room = self._general.has_room(records)
        if tenant is None:
            return SIGNUP if general_has_room and self._signup.has_room(records) else None
        tenant_has_room = self._tenant(tenant).has_room(records)
        if general_has_room and tenant_has_room:
            return GENERAL
        part = Budget("", self._limits["reserve_tenant"], (RESERVE,), tenant)
        if not (tenant_has_room or browser is not None):
            return None
        return RESERVE if self._reserve.has_room(records) and part.has_room(records) else None

    def _warn(self, records: SmsRecords, tenant: str | None) -> Iterator[tuple[Budget, int]]:
        """Yield the budgets to warn the operator of now, each once a day, and how much is used."""
        tenant_budgets = () if tenant is None else (self._tenant(tenant),)
        for budget in (*self._shared(), *tenant_budgets):
            used, name = budget.count_used(records), f"budget/{budget.name}"
            if budget.is_nearly_used_up(used) and not records.count(
                DAY_SECONDS, [WARNED], recipient=name
            ):
                records.add(WARNED, recipient=name)
                yield budget, used

    def _shared(self) -> tuple[Budget, ...]:
        return self._general, self._reserve, self._signup

    def _tenant(self, label: str) -> Budget:
        return Budget(f"tenant {label}", self._limits["tenant"], (GENERAL, RESERVE), label)


def _half(number: int) -> int:
    return (number + 1) // 2
