"""A validation's findings in the forms that CI systems read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from indexer.cli.columns import counted, path, short
from indexer.core.paths import on_screen

if TYPE_CHECKING:
    from indexer.engine.durable.validate import FindingDocument, ValidateDocument

_NOT_XML: Final = re.compile("[^\t\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def github(document: ValidateDocument) -> str:
    """Workflow commands, which GitHub shows beside the files they name."""
    lines = [
        _workflow_command(level, finding)
        for level, findings in (
            ("error", document["errors"]),
            ("error", document["unchecked"]),
            ("warning", document["warnings"]),
        )
        for finding in findings
    ]
    verdict = "valid" if document["valid"] else "not valid"
    nodes = counted(document["node_count"], "node")
    return "\n".join(
        [*lines, f"merkle validate: {verdict}, root {short(document['root'])}, {nodes}"]
    )


def _workflow_command(level: str, finding: FindingDocument) -> str:
    named = f"file={_property(on_screen(finding['path']))}," if finding["path"] else ""
    title = _property(f"merkle {finding['code']}")
    message = f"{path(finding['path'])}: {on_screen(finding['message'])}"
    return f"::{level} {named}title={title}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def junit(document: ValidateDocument) -> str:
    """A JUnit report: one case for the index, and one for every finding."""
    failed, unchecked = document["errors"], document["unchecked"]
    cases = 1 + len(failed) + len(unchecked) + len(document["warnings"])
    counts = {"tests": str(cases), "failures": str(len(failed)), "errors": str(len(unchecked))}
    top = ElementTree.Element("testsuites", {"name": "merkle", **counts})
    suite = ElementTree.SubElement(top, "testsuite", {"name": "merkle validate", **counts})
    whole = ElementTree.SubElement(suite, "testcase", classname="merkle", name="index")
    said = ElementTree.SubElement(whole, "system-out")
    said.text = f"root {document['root']}, {counted(document['node_count'], 'node')}"
    for finding in failed:
        _case(suite, finding, "failure")
    for finding in unchecked:
        _case(suite, finding, "error")
    for finding in document["warnings"]:
        _case(suite, finding, "system-out")
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(
        top, encoding="unicode"
    )


def _case(suite: ElementTree.Element, finding: FindingDocument, outcome: str) -> None:
    where, message = _xml(path(finding["path"])), _xml(on_screen(finding["message"]))
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"merkle.{finding['code']}", name=where
    )
    told = ElementTree.SubElement(case, outcome)
    told.text = f"{where}: {message}"
    if outcome != "system-out":
        told.attrib |= {"type": finding["code"], "message": message}


def _xml(text: str) -> str:
    """Text without the few characters that no XML document may contain."""
    return _NOT_XML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
