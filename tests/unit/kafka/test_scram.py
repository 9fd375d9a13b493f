"""SCRAM's client against the RFCs, and against servers that are not what they seem to be."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.kafka.auth.scram import SaslError, Scram
from tests.support.logins import ScramServer

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def exchange() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    client = exchange()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.answer(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize(
    "final",
    [b"v=" + base64.b64encode(bytes(32)), b"v=", b"x=1", b"", b"v=6rri", b"v=%%%%", b"\xff", b"e=invalid-proof"],
)
def test_a_server_that_does_not_know_the_password_is_found_out(final: bytes) -> None:
    client = exchange()
    client.answer(CHALLENGE)
    with pytest.raises(SaslError) as caught:
        client.answer(final)
    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize(
    "old, new, said",
    [
        (b"i=4096", b"i=4095", "asks for 4095 iterations; expected 4096 to"),
        (b"i=4096", b"i=1", "asks for 1 iterations"),
        (b"i=4096", b"i=1000001", "asks for 1000001 iterations"),
        (b"i=4096", b"i=99999999999", "iterations"),
        (b"i=4096", b"i=x", "iterations"),
        (b",i=4096", b"", "iterations"),
        (b"r=rOpr", b"r=ropr", "not one of this exchange"),
        (b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b"", "not one of this exchange"),
        (b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=", "not one of this exchange"),
        (b"s=W22Z", b"s=!!!!", "not one of SCRAM"),
        (b"r=", b"m=x,r=", "an extension of SCRAM"),
    ],
)
def test_first_messages_that_are_refused(old: bytes, new: bytes, said: str) -> None:
    assert old in CHALLENGE
    with pytest.raises(SaslError) as caught:
        exchange().answer(CHALLENGE.replace(old, new))
    assert said in str(caught.value)


def test_names_are_escaped_and_tokens_said_to_be_some() -> None:
    assert Scram("SCRAM-SHA-512", "a,b=c", "x", nonce="N").first() == b"n,,n=a=2Cb=3Dc,r=N"
    assert Scram("SCRAM-SHA-512", "id", "x", nonce="N", token=True).first() == b"n,,n=id,r=N,tokenauth=true"


@given(
    st.sampled_from(("SCRAM-SHA-256", "SCRAM-SHA-512")),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10),
    st.booleans(),
)
def test_both_sides_know_each_other_exactly_if_the_password_is_right(
    mechanism: str, name: str, password: str, right: bool
) -> None:
    server = ScramServer(mechanism, name, password)
    client = Scram(mechanism, name, password if right else password + "x")
    answer = client.answer(server.challenge(client.first()))
    assert answer is not None
    final = server.final(answer)
    assert (final is not None) == right
    if final is not None:
        assert client.answer(final) is None
