"""Where an installation counts its limits: on this machine, or in a Redis (`CRM_LIMITS`)."""

from collections.abc import Callable

from crm.config import Config
from crm.tenancy.count_tables import CountTables
from crm.tenancy.counters import Counters
from crm.tenancy.sms_log import AnySmsLog, SmsLog


def open_limit_stores(config: Config, secret: Callable[[], bytes]) -> tuple[CountTables, AnySmsLog]:
    """Return the tables of counts and the log of SMS; nothing is opened before the first count.

    `secret` returns the installation's key, with which names are digested.
    """
    sms_log = SmsLog(config.data, secret)
    if config.limits is None:
        return Counters(config.data, secret), sms_log
    from crm.tenancy.redis_limits import RedisCounters
    from crm.tenancy.redis_sms_log import RedisSmsLog

    counters = RedisCounters(config.limits, config.data, secret)
    return counters, RedisSmsLog(counters, sms_log)
