"""SCRAM-SHA-256: the RFC's vector, both halves against each other, and everything that must fail."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.client import ScramAuthenticator
from braidmq.scram import Credential, ScramClient, ScramError, ScramServer, make_credential, saslprep

SALT = b"0123456789abcdef"
LETTERS = st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=0x24F)
CREDENTIAL = make_credential("pencil", SALT, 4096)


def lookup(name: str) -> Credential | None:
    return CREDENTIAL if name == "user" else None


def server(nonce: str = "server") -> ScramServer:
    return ScramServer(lookup, nonce, b"decoy")


class TestVectors:
    """RFC 7677, section 3."""

    CLIENT_FINAL = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    def test_client(self) -> None:
        client = ScramClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
        assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        assert client.final(self.SERVER_FIRST) == self.CLIENT_FINAL
        client.verify(self.SERVER_FINAL)

    def test_server(self) -> None:
        credential = make_credential("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
        side = ScramServer(lambda _: credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b"")
        assert side.challenge(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == self.SERVER_FIRST
        assert side.finish(self.CLIENT_FINAL) == self.SERVER_FINAL
        assert side.username == "user"


class TestExchange:
    @settings(max_examples=10, deadline=None)
    @given(
        st.text(LETTERS | st.sampled_from(",= "), min_size=1),
        st.text(LETTERS, min_size=1),
    )
    def test_both_halves_agree(self, name: str, password: str) -> None:
        credentials = {saslprep(name): make_credential(password, SALT, 4096)}
        side = ScramServer(credentials.get, "s", b"")
        client = ScramClient(name, password, "c")
        client.verify(side.finish(client.final(side.challenge(client.first()))))
        assert side.username == saslprep(name)

    @pytest.mark.parametrize(("name", "password"), [("user", "wrong"), ("nobody", "pencil")])
    def test_wrong_password_and_unknown_name_look_alike(self, name: str, password: str) -> None:
        client, side = ScramClient(name, password, "c"), server()
        challenge = side.challenge(client.first())
        assert challenge.startswith(b"r=cserver,s=")
        with pytest.raises(ScramError, match="wrong name or password"):
            side.finish(client.final(challenge))

    def test_an_unknown_name_has_a_salt_of_its_own_that_stays(self) -> None:
        salts = [server().challenge(b"n,,n=%s,r=c" % name) for name in (b"a", b"a", b"b")]
        assert salts[0] == salts[1] != salts[2]

    def test_a_credential_is_no_password(self) -> None:
        """Whoever steals the server's table can't log in with it."""
        client, side = ScramClient("user", CREDENTIAL.stored_key.hex(), "c"), server()
        with pytest.raises(ScramError):
            side.finish(client.final(side.challenge(client.first())))

    def test_a_server_that_does_not_know_the_password(self) -> None:
        client = ScramClient("user", "pencil", "c")
        client.final(server().challenge(client.first()))
        for final in (b"v=" + base64.b64encode(bytes(32)), b"e=other-error", b"", b"v=!!", b"x=1"):
            with pytest.raises(ScramError):
                client.verify(final)

    def test_no_signature_before_the_challenge(self) -> None:
        with pytest.raises(ScramError):
            ScramClient("user", "pencil", "c").verify(b"v=")


class TestBadMessages:
    @pytest.mark.parametrize("first", [
        b"", b"n", b"n,,", b"p=tls-unique,,n=user,r=c", b"x,,n=user,r=c", b"n,a=other,n=user,r=c",
        b"n,,r=c,n=user", b"n,,m=ext,n=user,r=c", b"n,,n=user", b"n,,n=us=er,r=c", b"n,,n=user,r=",
        b"n,,n=user,r=\xff",
        b"n,,n=user,r=" + b"c" * 5000, b"n,,n=us\x00er,r=c",
    ])
    def test_client_first(self, first: bytes) -> None:
        with pytest.raises(ScramError):
            server().challenge(first)

    @pytest.mark.parametrize("first", [
        b"", b"r=cserver", b"r=other,s=MTIz,i=4096", b"r=c,s=MTIz,i=4096", b"r=cserver,s=!,i=4096",
        b"r=cserver,s=MTIz,i=1", b"r=cserver,s=MTIz,i=99999999", b"r=cserver,s=MTIz,i=many",
        b"m=x,r=cserver,s=MTIz,i=4096",
    ])
    def test_server_first(self, first: bytes) -> None:
        with pytest.raises(ScramError):
            ScramClient("user", "pencil", "c").final(first)

    @pytest.mark.parametrize("final", [
        b"", b"c=biws,r=cserver", b"c=biws,r=other,p=MTIz", b"c=eSws,r=cserver,p=MTIz",
        b"c=biws,r=cserver,p=MTIz", b"c=biws,r=cserver,p=!", b"r=cserver,c=biws,p=MTIz",
    ])
    def test_client_final(self, final: bytes) -> None:
        side = server()
        side.challenge(b"n,,n=user,r=c")
        with pytest.raises(ScramError):
            side.finish(final)

    def test_final_before_first(self) -> None:
        with pytest.raises(ScramError):
            server().finish(b"c=biws,r=cserver,p=MTIz")

    @given(st.binary(max_size=80))
    def test_no_bytes_raise_anything_else(self, data: bytes) -> None:
        for step in (server().challenge, ScramClient("user", "pencil", "c").final):
            try:
                step(data)
            except ScramError:
                continue

    @pytest.mark.parametrize("nonce", ["", "a,b", "ä", "a\n"])
    def test_nonces(self, nonce: str) -> None:
        with pytest.raises(ScramError):
            ScramClient("user", "pencil", nonce)


class TestSaslprep:
    @pytest.mark.parametrize(("text", "prepared"), [
        ("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
    ])
    def test_mapping(self, text: str, prepared: str) -> None:
        """RFC 4013, section 3."""
        assert saslprep(text) == prepared

    @pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "\ufffd"])
    def test_refused(self, text: str) -> None:
        with pytest.raises(ScramError):
            saslprep(text)


def test_the_authenticator_starts_anew_each_time() -> None:
    nonces = iter(["one", "two"])
    authenticator = ScramAuthenticator("user", "pencil", lambda: next(nonces))
    for nonce in ("one", "two"):
        side = server()
        first = authenticator.begin()
        assert first.endswith(nonce.encode())
        authenticator.finish(side.finish(authenticator.answer(side.challenge(first))))
    with pytest.raises(ScramError):
        authenticator.answer(b"")


def test_random_nonces_differ() -> None:
    authenticator = ScramAuthenticator("user", "pencil")
    assert authenticator.begin() != authenticator.begin()
