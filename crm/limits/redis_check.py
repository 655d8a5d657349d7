"""What the doctor finds at the Redis of `CRM_LIMITS`. Nothing is changed there."""

from collections.abc import Iterator

import redis

from crm.config import RedisAddress
from crm.limits.redis_server import connect, describe
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail

MIN_VERSION = (6, 0)  # of Redis; every Valkey is newer


def check_redis(address: RedisAddress) -> Iterator[LevelAndDetail]:
    """Yield whether limits can be counted there, its version, and what could lose counts."""
    try:
        connection = connect(address)
        try:
            connection.send_command("INFO")
            text = connection.read_response().decode("utf-8", "replace")
        finally:
            connection.disconnect()
    except (redis.RedisError, OSError) as error:
        yield FAULT, f"Redis at {address} cannot be used: {describe(error, address)}"
        return
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    is_valkey = facts.get("server_name") == "valkey"
    version = facts.get("valkey_version" if is_valkey else "redis_version", "?")
    name = f"{'Valkey' if is_valkey else 'Redis'} {version} at {address}"
    if facts.get("role") == "slave":
        yield FAULT, f"{name} is a replica that can only be read: CRM_LIMITS must name the primary"
    elif facts.get("cluster_enabled") == "1":
        yield FAULT, f"{name} is a node of a Redis Cluster, which is not supported"
    elif not is_valkey and _numbers(version) < MIN_VERSION:
        yield FAULT, f"{name} is too old: limits need Redis 6 or newer, or Valkey"
    else:
        yield OK, f"{name} counts them for all machines with this secret.key"
    policy = facts.get("maxmemory_policy", "noeviction")
    if facts.get("maxmemory", "0") != "0" and policy != "noeviction":
        yield WARNING, f"{name} may forget counts (maxmemory-policy {policy}): set noeviction"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
