"""The table [cluster]: what turns it on, and what can't be meant together, told in one line that helps."""

from pathlib import Path

import pytest

from braidmq.config import load_config, parse_place, without_secrets
from braidmq.errors import ConfigError

SECRET = {"BRAIDMQ_CLUSTER_SECRET": "sixteen bytes at least"}
TLS = {"cluster.certificate": "node.pem", "cluster.key": "node.key", "cluster.ca": "ca.pem"}


def test_a_node_is_alone_unless_it_listens_or_joins() -> None:
    assert not load_config(env=SECRET).cluster.is_on
    for name, value in (
        ("listen", "127.0.0.1:7883"),
        ("join", "localhost:7883"),
        ("discover", "dns:localhost:1"),
    ):
        assert load_config(env=SECRET, overrides={f"cluster.{name}": value}).cluster.is_on


def test_joining_is_enough_on_one_machine() -> None:
    cluster = load_config(env=SECRET, overrides={"cluster.join": ["localhost:7883", "[::1]:7884"]}).cluster
    assert cluster.seeds == ("localhost:7883", "[::1]:7884")
    assert cluster.place == ("127.0.0.1", 0)
    assert cluster.name == "braidmq"
    assert cluster.shared_secret() == b"sixteen bytes at least"


def test_a_variable_names_several_seeds_and_a_file_has_a_list(tmp_path: Path) -> None:
    by_variable = load_config(env=SECRET | {"BRAIDMQ_CLUSTER_JOIN": "localhost:1, localhost:2 localhost:3"})
    assert by_variable.cluster.seeds == ("localhost:1", "localhost:2", "localhost:3")
    path = tmp_path / "braidmq.toml"
    path.write_text('[cluster]\njoin = ["localhost:1"]\n')
    assert load_config(path, SECRET).cluster.seeds == ("localhost:1",)
    path.write_text('[cluster]\njoin = "localhost:1"\n')
    with pytest.raises(ConfigError, match=r":2: \[cluster\] join: expected a list of texts"):
        load_config(path, SECRET)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cluster.routing": "full"}, "routing is set, but there is no cluster: set listen"),
        ({"cluster.join": "localhost"}, "join: 'localhost' is no address; write host:port"),
        ({"cluster.join": "::1:7883"}, "join: '::1:7883' is no address"),
        ({"cluster.listen": "127.0.0.1:70000"}, "listen: '127.0.0.1:70000' is no address"),
        ({"cluster.join": "localhost:1", "cluster.advertise": "here"}, "advertise: 'here' is no address"),
        ({"cluster.discover": "dns:name"}, "expected a text such as dns:brokers.example:7883"),
        ({"cluster.join": "localhost:1", "cluster.node_name": "a/b"}, "--node-name: expected a text such as"),
        ({"cluster.join": "localhost:1", "cluster.secret_file": "x"}, "secret and secret_file exclude"),
        ({"cluster.join": "localhost:1", "cluster.key": "x"}, "certificate, key and ca belong together"),
        ({"cluster.join": "localhost:1", **TLS, "cluster.plaintext": "true"}, "exclude each other"),
        ({"cluster.listen": "0.0.0.0:7883"}, "listen (0.0.0.0:7883) is beyond this machine; set certificate"),
        ({"cluster.join": "10.1.1.1:7883"}, "join (10.1.1.1:7883) is beyond this machine; set certificate"),
        ({"cluster.join": "10.1.1.1:7883", **TLS}, "10.1.1.1:7883 could not reach 127.0.0.1; set listen"),
        ({"cluster.listen": "127.0.0.1:1883"}, "listen (127.0.0.1:1883) is taken"),
        ({"cluster.listen": "127.0.0.1:9", "admin.port": "9"}, "listen (127.0.0.1:9) is taken"),
    ],
)  # fmt: skip
def test_a_contradiction_is_told_with_what_to_do(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(env=SECRET, overrides=given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_secret_is_told_with_the_command_that_makes_one() -> None:
    with pytest.raises(ConfigError, match=r"openssl rand -hex 32.*--cluster-secret-file on every node"):
        load_config(overrides={"cluster.join": "localhost:7883"})


def test_links_beyond_this_machine_are_encrypted_or_said_not_to_be() -> None:
    given = {"cluster.listen": "0.0.0.0:7883", "cluster.join": "10.1.1.1:7883"}
    assert load_config(env=SECRET, overrides={**given, **TLS}).cluster.encrypts
    assert not load_config(env=SECRET, overrides={**given, "cluster.plaintext": "true"}).cluster.encrypts


def test_a_secret_file_is_long_enough_and_not_open_to_all(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    cluster = load_config(overrides={"cluster.join": "localhost:1", "cluster.secret_file": str(path)}).cluster
    with pytest.raises(ConfigError, match="No such file"):
        cluster.shared_secret()
    path.write_text("short\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="has 5 bytes; 16 are needed at least"):
        cluster.shared_secret()
    path.write_text("0123456789abcdef\n")
    assert cluster.shared_secret() == b"0123456789abcdef"
    path.chmod(0o644)
    with pytest.raises(ConfigError, match=r"everybody on this machine can read .* chmod o-r it"):
        cluster.shared_secret()


def test_the_secret_is_never_shown() -> None:
    config = load_config(env=SECRET)
    assert without_secrets(config)["cluster"]["secret"] == "***"
    with pytest.raises(ConfigError) as caught:
        load_config(env={"BRAIDMQ_CLUSTER_SECRET": "tooshort"})
    assert "tooshort" not in str(caught.value)


def test_what_kubernetes_says_of_a_service_of_that_name_is_let_pass() -> None:
    of_a_service = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_LINKS", "PORT", "PORT_7883_TCP_ADDR")
    load_config(env={f"BRAIDMQ_CLUSTER_{name}": "tcp://10.0.0.1:7883" for name in of_a_service})
    with pytest.raises(ConfigError, match="unknown setting; did you mean BRAIDMQ_CLUSTER_JOIN"):
        load_config(env={"BRAIDMQ_CLUSTER_JOIM": "localhost:1"})


def test_a_place_is_a_host_and_a_port() -> None:
    assert parse_place("node:1") == ("node", 1)
    assert parse_place("[::1]:1") == ("::1", 1)
    for wrong in ("node", "node:", ":1", "node:x", "node:0", "node:65536", "n:99999999", "::1:1"):
        assert parse_place(wrong) is None
