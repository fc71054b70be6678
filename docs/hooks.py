"""What the manual takes from elsewhere in the repository: pages of its root, and the list of the decisions.

These files are written for readers of the repository, so their links lead to its files. Links to pages of the manual
are changed to lead there; links to files that the manual does not have keep their text and lose their address.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FROM_ROOT = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "examples.md": "examples/README.md",
    "security.md": "SECURITY.md",
}
DECISIONS = "decisions/index.md"
ABOUT_DECISIONS = """\
# Decisions

Each page states a question that took thought, what was measured, what was decided and what was not taken.

"""
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every decision is in the navigation, without being listed by hand."""
    listed = [{"Overview": DECISIONS}, *({_title(path): f"decisions/{path.name}"} for path in _decisions())]
    (project,) = (section["Project"] for section in config.nav or [] if "Project" in section)
    for entry in project:
        if "Decisions" in entry:
            entry["Decisions"] = listed
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for uri, source in FROM_ROOT.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text()))
    listed = "".join(f"- [{_title(path)}]({path.name})\n" for path in _decisions())
    files.append(File.generated(config, DECISIONS, content=ABOUT_DECISIONS + listed))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = FROM_ROOT.get(page.file.src_uri)
    return markdown if source is None else LINK.sub(lambda link: _led(link, source, files), markdown)


def _led(link: re.Match[str], source: str, files: Files) -> str:
    """A link of a file of the repository, as the manual has it."""
    if "://" in link["to"]:
        return link[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["to"]))
    uri = {there: here for here, there in FROM_ROOT.items()}.get(target, target.removeprefix("docs/"))
    known = files.get_file_from_path(uri) is not None
    return f"[{link['text']}]({uri}{link['anchor'] or ''})" if known else link["text"]


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def _title(decision: Path) -> str:
    return decision.read_text().partition("\n")[0].removeprefix("# ")
