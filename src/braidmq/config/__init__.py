"""What a node is told: one definition, three sources, and errors that name what is wrong and where.

`definition` holds the values, `settings` lists them one by one, `loading` reads them, `contradictions`
refuses what can't be meant together, `groups` and `cluster` are the tables of those names, and `toml` is for
every file of settings.
"""

from braidmq.config.cluster import ClusterConfig, Place, parse_place
from braidmq.config.contradictions import refuse_contradictions
from braidmq.config.definition import (
    AclConfig,
    AdminConfig,
    AuthConfig,
    Config,
    Listener,
    LogConfig,
    StoreConfig,
    WorkersConfig,
    format_verifier,
    is_loopback,
)
from braidmq.config.groups import GroupOverride, GroupsConfig, PolicyName
from braidmq.config.loading import load_config, located, overlooked_variables
from braidmq.config.settings import (
    ENVIRONMENT_PREFIX,
    REPEATED_TABLES,
    SETTINGS,
    Setting,
    flag_of,
    without_secrets,
)

__all__ = [
    "ENVIRONMENT_PREFIX",
    "REPEATED_TABLES",
    "SETTINGS",
    "AclConfig",
    "AdminConfig",
    "AuthConfig",
    "ClusterConfig",
    "Config",
    "GroupOverride",
    "GroupsConfig",
    "Listener",
    "LogConfig",
    "Place",
    "PolicyName",
    "Setting",
    "StoreConfig",
    "WorkersConfig",
    "flag_of",
    "format_verifier",
    "is_loopback",
    "load_config",
    "located",
    "overlooked_variables",
    "parse_place",
    "refuse_contradictions",
    "without_secrets",
]
