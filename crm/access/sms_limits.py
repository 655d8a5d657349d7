"""How many SMS may be sent, by all processes of an installation together."""

from crm.access import limits
from crm.tenancy.sms_log import DAY, SmsLog

HOUR = 3600


class SmsLimits:
    """5 an hour and 10 a day to a phone, 20 an hour for an address, `most_a_day` for the whole
    installation. Hours and days slide."""

    TO_PHONE_AN_HOUR, TO_PHONE_A_DAY, FOR_ADDRESS_AN_HOUR = 5, 10, 20

    def __init__(self, sms_log: SmsLog, most_a_day: int = 1000) -> None:
        self._log = sms_log
        self._most_a_day = most_a_day

    def take(self, phone: str, address: str, moment: float) -> bool:
        """Count one SMS that is about to be sent; False when it must not be: it doesn't count.

        `address` is who asks for it, `moment` the time in epoch seconds. Raises StorageFull.
        """
        network = limits.network(address)
        with self._log.locked(moment) as sent:
            allowed = (
                sent.count(DAY) < self._most_a_day
                and sent.count(DAY, phone=phone) < self.TO_PHONE_A_DAY
                and sent.count(HOUR, phone=phone) < self.TO_PHONE_AN_HOUR
                and sent.count(HOUR, network=network) < self.FOR_ADDRESS_AN_HOUR
            )
            if allowed:
                sent.add(phone, network)
            return allowed
