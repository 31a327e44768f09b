"""OpenEnv in and out: its resource sessions as environments here, environments here as its servers.

See docs/bridges.md. The server is in `seal.envs.openenv.outgoing`, which imports OpenEnv.
"""

from seal.envs.openenv.incoming import OpenEnv

__all__ = ["OpenEnv"]
