"""GSSAPI with a real KDC and a real broker: whose tickets are used, and which are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evensplit.core.model import Topics
from evensplit.errors import AuthenticationError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.testing import LocalKafka
from evensplit.testing.process.ports import HOST
from tests.support.login_client import settings
from tests.support.realm import REALM, SERVICE, Kerberized, Realm, lacking, realm
from tests.support.waiting import wait_for

LACKING = lacking()
pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(LACKING), reason=f"a test with a KDC needs {LACKING}")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with realm(tmp_path_factory.mktemp("realm")) as made:
        yield made


@pytest.fixture(scope="module")
def keytabs(here: Realm) -> dict[str, Path]:
    return {name: here.keytab(name) for name in ("alice", "bob")}


@pytest.fixture(scope="module")
def kafka(here: Realm) -> Iterator[LocalKafka]:
    """A broker that lets alice see the topic `hers`, and bob `his`."""
    secured = Kerberized(keytab=here.keytab(f"{SERVICE}/{HOST}"))
    with LocalKafka(security=secured, jvm_options=[f"-Djava.security.krb5.conf={here.config}"]) as running:
        for user, topic in (("alice", "hers"), ("bob", "his")):
            running.create_topic(topic, partitions=1)
            running.allow(user, topic=topic)
        yield running


@pytest.fixture
def own(here: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own cache of tickets, which is not there yet."""
    for name, value in here.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'own'}")
    return tmp_path / "own"


def whose(kafka: LocalKafka, module: str = "") -> str:
    """The user that the broker takes the client for, by what it may see. `module`: the options of the login module."""
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": SERVICE}
    if module:
        values["sasl.jaas.config"] = f"com.sun.security.auth.module.Krb5LoginModule required {module};"
    with closing(ClusterClient("east", settings(kafka.bootstrap_servers, values))) as client:
        listing = client.list_partitions(Topics(("hers", "his")))
    return {"hers": "alice", "his": "bob"}[" ".join(one.topic for one in listing.partitions)]


def by_keytab(keytab: Path, name: str = "alice") -> str:
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{name}@{REALM}"'


def test_the_tickets_of_whoever_runs_it(kafka: LocalKafka, here: Realm, keytabs: dict[str, Path], own: Path) -> None:
    here.tickets("bob", keytabs["bob"], own)
    assert whose(kafka) == "bob"
    assert whose(kafka, "useTicketCache=true") == "bob"


def test_tickets_elsewhere(kafka: LocalKafka, here: Realm, keytabs: dict[str, Path], own: Path, tmp_path: Path) -> None:
    here.tickets("bob", keytabs["bob"], own)
    here.tickets("alice", keytabs["alice"], tmp_path / "hers")
    assert whose(kafka, f'useTicketCache=true ticketCache="{tmp_path / "hers"}"') == "alice"


@pytest.mark.parametrize("used", [False, True], ids=["no own cache", "an own cache"])
def test_a_keytab_leaves_the_own_tickets_alone(
    kafka: LocalKafka, here: Realm, keytabs: dict[str, Path], own: Path, *, used: bool
) -> None:
    """They are neither used nor overwritten, as by Java's client, whose tickets are in memory only."""
    if used:
        here.tickets("bob", keytabs["bob"], own)
    before = own.read_bytes() if used else None
    for name in ("alice", "bob", "alice"):
        assert whose(kafka, by_keytab(keytabs[name], name)) == name
    assert (own.read_bytes() if own.exists() else None) == before


@pytest.mark.parametrize("used", [False, True], ids=["no own cache", "an own cache"])
def test_a_keytab_where_the_own_tickets_do_not_serve(
    kafka: LocalKafka, here: Realm, keytabs: dict[str, Path], own: Path, *, used: bool
) -> None:
    """With both, tickets come first, and the keytab where there are none, or those of another principal."""
    if used:
        here.tickets("bob", keytabs["bob"], own)
    before = own.read_bytes() if used else None
    assert whose(kafka, f"useTicketCache=true {by_keytab(keytabs['alice'])}") == "alice"
    assert (own.read_bytes() if own.exists() else None) == before
    if used:
        assert whose(kafka, f"useTicketCache=true {by_keytab(here.directory / 'none', 'bob')}") == "bob"


def test_a_keytab_where_the_own_tickets_have_expired(
    kafka: LocalKafka, here: Realm, keytabs: dict[str, Path], own: Path
) -> None:
    here.tickets("bob", keytabs["bob"], own, "-l", "1s")
    wait_for(lambda: not here.valid(own), within_s=30, what="tickets that expire")
    assert whose(kafka, f"useTicketCache=true {by_keytab(keytabs['bob'], 'bob')}") == "bob"
    assert f"{SERVICE}/{HOST}" not in here.listed(own), "where these are used, they bring one for the broker"


def test_a_keytab_that_is_not_there(kafka: LocalKafka, own: Path, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match=r"Kerberos says: .*; check the ticket \(klist\) or the keytab"):
        whose(kafka, by_keytab(tmp_path / "none"))
    assert not own.exists()


def test_no_tickets(kafka: LocalKafka, own: Path) -> None:
    with pytest.raises(AuthenticationError, match="Kerberos says: "):
        whose(kafka)
