"""Links between our documents: the file and the heading of each link exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from docs.reference_pages import PAGES

ROOT = Path(__file__).parents[2]

GENERATED = {ROOT / "docs" / "reference" / f"{name}.md" for name in PAGES}
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "verify").glob("*.md")} - GENERATED)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@cache
def prose_of(document: Path) -> str:
    return FENCE.sub("", document.read_text())


@cache
def anchors_of(document: Path) -> set[str]:
    """The anchors of a document's headings, as repository viewers and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose_of(document), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


def links_of(document: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(document)) if "://" not in link]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_works(document: Path):
    broken = []
    for link in links_of(document):
        if link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if target in GENERATED:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize(
    "document", [one for one in DOCUMENTS if one.is_relative_to(ROOT / "docs")], ids=lambda path: path.stem
)
def test_pages_of_the_site_link_only_to_pages_of_the_site(document: Path):
    outside = [
        link
        for link in links_of(document)
        if not (document.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT / "docs")
    ]
    assert not outside, "the site has no files of the repository: name them as code"
