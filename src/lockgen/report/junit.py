"""Evidence as JUnit XML, which CI systems show: one test case a check."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from lockgen.verify.evidence import CheckResult, Evidence

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(evidence: Evidence) -> str:
    """The XML text; a problem is a failure, a reason to skip is a skip."""
    name = "-".join(filter(None, (evidence.environment or "python", evidence.variant)))
    suite = ElementTree.Element(
        "testsuite",
        name=f"lockgen verify {name}",
        tests=str(len(evidence.checks)),
        failures=str(sum(check.status == "failed" for check in evidence.checks)),
        skipped=str(sum(check.status == "skipped" for check in evidence.checks)),
        errors="0",
        time=f"{sum(check.seconds for check in evidence.checks):.2f}",
    )
    if evidence.fingerprint:
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="fingerprint", value=evidence.fingerprint)
    for check in evidence.checks:
        _case(suite, name, check)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, name: str, check: CheckResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"lockgen.{name}", name=check.name, time=f"{check.seconds:.2f}"
    )
    if check.status == "failed":
        failure = ElementTree.SubElement(case, "failure", message=_clean(check.summary))
        failure.text = _clean("\n".join(check.problems))
    elif check.status == "skipped":
        ElementTree.SubElement(case, "skipped", message=_clean(check.summary))
    if check.output:
        ElementTree.SubElement(case, "system-err").text = _clean(check.output)


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
