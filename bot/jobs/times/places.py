"""The time zone of a place on earth, looked up offline.

In a process that ends: the borders take 30 MiB of memory and a third of a second to load, for one location
in a long while.
"""

from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

LOOKUP_LIMITS = SandboxLimits(wall_seconds=10, cpu_seconds=5, memory_bytes=1024 * 1024 * 1024)


async def find_zone_at(latitude: float, longitude: float) -> str | None:
    """The IANA name of the zone of this place, in degrees; None at sea, or if it cannot be looked up."""
    try:
        zone = await run_in_sandbox(
            look_zone_up, limits=LOOKUP_LIMITS, latitude=latitude, longitude=longitude
        )
    except SandboxStopped:
        return None
    # Of a place at sea only the offset is known, under a name such as Etc/GMT+3.
    if not isinstance(zone, str) or not zone or zone.startswith("Etc/"):
        return None
    return zone


def look_zone_up(_: bytes, latitude: float, longitude: float) -> str:
    """The name of the zone as the library has it; runs in the process that ends."""
    import tzfpy

    return tzfpy.get_tz(longitude, latitude)
