"""No secret of a file reaches a frame, a composition, a pack or the team's store."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.core import secrets
from indexer.core.frames import body_hash
from indexer.engine.durable.packs import PackContentError
from indexer.engine.frames import types
from indexer.engine.frames.notes import FrameRefusedError
from indexer.engine.make import workers
from indexer.engine.sessions.write import SessionContentError
from indexer.store.pack import read_pack, write_pack
from tests.engine.make.test_custom import ENTRIES
from tests.support.space import Space, python

# Put together here so that no scanner takes this file for a leak.
SECRETS = {
    "cloud": "AKIA" + "Q3EGRXJ7LZ2V5NHB",
    "hosting": "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "model": "sk-" + "ant-api03-" + "x7Kd93mQpL" * 4,
    "chat": "xoxb" + "-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "database": "postgres://app:" + "hunter2@db.internal:5432/app",
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiJhbGljZSJ9." + "q7Zk2mX9vB4nR8tL3wP6yD1sG5hJ0cFa",
    "environment": "export DB_PASSWORD=" + "hunter2",
}
SHOWN = ("Q3EGRXJ7", "abcdefghijkl", "x7Kd93mQpL", "1234567890123", "hunter2", "eyJzdWIi")
FILES = {
    "a.py": '"""Doc {0}."""\nKEY = "{0}"\n\n\ndef f(a="{0}"):\n    """Uses {0}."""\n',
    "script.py": "print('''\n{0}\n''')\n",
    "a.js": '/** {0} */\nexport const KEY = "{0}";\nexport function f(a = "{0}") {{}}\n',
    "a.ts": '// {0}\nexport const KEY: string = "{0}";\n',
    "a.go": '// Package a: {0}\npackage a\nconst Key = "{0}"\n',
    "a.rs": '//! {0}\npub const KEY: &str = "{0}";\n/// {0}\npub fn f() {{}}\n',
    "A.java": '/** {0} */\nclass A {{ static final String KEY = "{0}"; }}\n',
    "a.c": '/* {0} */\n#define KEY "{0}"\nstatic const char *key = "{0}";\n',
    "a.md": "# {0}\n\n{0}\n\n## Use {0}\n",
    "a.yaml": "name: {0}\n",
    "a.json": '{{"name": "{0}"}}\n',
    "a.toml": 'name = "{0}"\n',
    "a.ini": "name = {0}\n",
    "a.sh": "#!/bin/sh\n# {0}\n{0}\n",
    "Dockerfile": "FROM {0}\nENV {0}\n",
    "a.txt": "{0}\nmore {0}\n",
    "a.html": "<title>{0}</title>\n",
    "long.txt": "x" * 90 + " {0}\n",
}


def test_no_outline_or_summary_repeats_a_secret(space: Space) -> None:
    for kind, secret in SECRETS.items():
        space.fill({f"{kind}/{name}": text.format(secret) for name, text in FILES.items()})
    space.write(
        "key.txt", "-----BEGIN RSA PRIVATE " + "KEY-----\n" + ("MIIEvQIBADAN" * 5 + "\n") * 40
    )
    space.settle()
    composed = space.engine.compose(budget=20_000)
    pack = space.base / "all.pack"
    space.engine.export_pack(pack)
    texts = {
        path: frame["content"]
        for path, _ in space.engine.tree.walk()
        for frame in space.engine.get_node(path)["frames"]
    }
    assert len(texts) == len(SECRETS) * (len(FILES) + 1) + 2
    texts["composed"] = str(composed["messages"])
    texts["packed"] = str(list(read_pack(pack)))
    leaks = [
        (path, part) for path, text in texts.items() for part in (*SHOWN, "MIIEvQ") if part in text
    ]
    assert leaks == []
    assert "[redacted:github_token]" in texts["hosting/a.py"]
    space.valid()


TOLD = """
class Told:
    name = "shout"
    version = "1"

    def __init__(self, options):
        pass

    def fingerprint_parts(self):
        return (("name", self.name), ("version", self.version))

    def generate(self, source):
        return "told " + source.content.decode()[::-1]

    def synthesize(self, children):
        return "told " + " ".join(child.name[::-1] for child in children)


Shout = Names = Told
"""


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("many", [1, 400])
def test_generators_and_policies_of_ones_own_are_masked_too(
    space: Space, many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "told-1.0.dist-info"
    info.mkdir()
    (tmp_path / "told.py").write_text(TOLD)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
    lines = ENTRIES.splitlines()[:3]
    (info / "entry_points.txt").write_text("\n".join(lines).replace("tuned", "told") + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(workers, "MANY", many)
    space.write(".merkleignore", "merkle.toml\n.merkleignore\n")
    space.declare('[types.loud]\nfile = "shout"\nfolder = "names"\n')
    secret = SECRETS["hosting"]
    space.fill({"a.txt": secret[::-1], f"x/{secret[::-1]}": "fine"})
    space.settle()
    assert space.frame("a.txt", "loud")["content"] == "told [redacted:github_token]"
    assert space.frame("x", "loud")["content"] == "told [redacted:github_token]"


def test_what_another_detector_masked_is_made_again(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill({"src/a.py": python(), "note.md": "# x\n"})
    space.settle()
    before = types.file_maker("outline", {}).print
    monkeypatch.setattr(secrets, "VERSION", "another")
    assert types.file_maker("outline", {}).print != before
    space.reopen()
    assert set(space.labels().values()) == {"stale"}
    assert {("generated", "src/a.py"), ("generated", "src")} <= set(space.events())
    assert set(space.labels().values()) == {"fresh"}


# -- what people and agents write


def test_a_note_is_refused_for_its_content_and_for_its_metadata(project: Space) -> None:
    project.note("src/one/a.py", "before")
    for kind, secret in SECRETS.items():
        last = project.engine.records.journal.last
        with pytest.raises(FrameRefusedError, match="the content looks like it holds a secret"):
            project.note("src/one/a.py", f"see {secret}")
        fine = f"fine without {kind}"
        for meta in ({"k": secret}, {"a": "b", secret: "x"}, {"DB_PASSWORD": "hunter2"}):
            with pytest.raises(FrameRefusedError, match="the metadata looks like it holds") as no:
                project.note("src/one/a.py", fine, meta=meta)
            assert not any(part in str(no.value) for part in SHOWN)
        assert project.engine.records.journal.last == last
        allowed = project.note("src/one/a.py", fine, meta={"k": secret}, allow_secrets=True)
        assert allowed["created"]


def test_a_block_of_a_session_is_refused_like_a_note(project: Space) -> None:
    engine = project.engine
    engine.session_new("talk")
    said = engine.session_append("talk", type="dialogue", role="user", text="hello")
    for secret in SECRETS.values():
        last = engine.records.journal.last
        for given in (
            {"text": f"use {secret}"},
            {"payload": {"text": secret}},
            {"text": "x", "message": secret},
            {"text": "x", "metadata": {"deep": [{"k": secret}]}},
            {"text": "x", "label": secret},
        ):
            for write in (
                lambda given: engine.session_append("talk", type="dialogue", role="user", **given),
                lambda given: engine.session_edit("talk", said["id"], **given),
            ):
                with pytest.raises(SessionContentError, match="looks like it holds a secret") as no:
                    write(given)
                assert "--allow-secrets" in (no.value.hint or "")
                assert not any(part in str(no.value) for part in SHOWN)
        with pytest.raises(SessionContentError, match="metadata looks like it holds a secret"):
            engine.session_append("talk", type="output", text="x", attributes={"data_k": secret})
        assert engine.records.journal.last == last
        allowed = engine.session_append("talk", type="output", text=secret, allow_secrets=True)
        engine.session_edit("talk", allowed["id"], text=f"again {secret}", allow_secrets=True)


def test_what_a_provider_said_of_a_call_is_masked(project: Space) -> None:
    engine = project.engine
    for kind, secret in SECRETS.items():
        engine.session_new(kind)
        engine.session_attempt(
            kind, "a1", status="error", provider="p", model="m", error=f"refused {secret}"
        )
        said = engine.session_export(kind)["data"]
        assert "[redacted:" in said, kind
        assert not any(part in said for part in SHOWN), kind


def test_a_session_from_a_file_is_refused_like_its_blocks(project: Space) -> None:
    engine, secret = project.engine, SECRETS["hosting"]
    engine.session_new("talk")
    engine.session_append("talk", type="output", text=secret, allow_secrets=True)
    engine.session_commit("talk")
    data = engine.session_export("talk")["data"]
    last = engine.records.journal.last
    with pytest.raises(SessionContentError, match="the session looks like it holds a secret"):
        engine.session_import(name="again", data=data)
    chat = '[{"role": "user", "content": "key ' + secret + '"}]'
    with pytest.raises(SessionContentError, match="secret"):
        engine.session_import(name="chat", data=chat, form="openai")
    assert engine.records.journal.last == last
    assert engine.session_import(name="again", data=data, allow_secrets=True)["commits"] == 1


def test_a_pack_with_a_secret_in_a_note_or_session_changes_nothing(project: Space) -> None:
    project.settle()
    project.note("src/one/a.py", SECRETS["database"], allow_secrets=True)
    noted = project.base / "noted.pack"
    project.engine.export_pack(noted, ["src/one"])
    project.engine.session_new("talk")
    project.engine.session_append(
        "talk", type="output", text=SECRETS["environment"], allow_secrets=True
    )
    whole = project.base / "whole.pack"
    project.engine.export_pack(whole)
    talked = project.base / "talked.pack"
    write_pack(talked, (one for one in read_pack(whole) if one["kind"] != "frame"))
    clone = project.clone()
    try:
        clone.engine.scan()
        last = clone.engine.records.journal.last
        for pack, what in ((noted, "frame"), (talked, "session")):
            with pytest.raises(PackContentError, match=f"the {what} in the pack looks like"):
                clone.engine.import_pack(pack)
        assert clone.engine.records.journal.last == last
        assert clone.engine.import_pack(whole, allow_secrets=True)["added"]
        assert clone.frame("src/one/a.py", "note")["content"] == SECRETS["database"]
    finally:
        clone.close()


def test_generated_texts_of_a_pack_are_masked_as_they_come_in(project: Space) -> None:
    project.settle()
    pack, forged = project.base / "a.pack", project.base / "b.pack"
    project.engine.export_pack(pack)
    records = list(read_pack(pack))
    memo = [record for record in records if record["kind"] == "memo"]
    for record in memo:
        body = f"key {SECRETS['hosting']}"
        record |= {"body": body, "content": body_hash(body).hex()}
    write_pack(forged, records)
    clone = project.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(forged, trust=True)
        again = clone.base / "c.pack"
        clone.engine.export_pack(again)
        taken = [record for record in read_pack(again) if record["kind"] == "memo"]
        assert len(taken) == len(memo)
        assert {record["body"] for record in taken} == {"key [redacted:github_token]"}
        clone.valid()
    finally:
        clone.close()
