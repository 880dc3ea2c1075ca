"""The hooks of mkdocs.yml: pages outside of docs/, pages of the Python packages, and links to files of the repository."""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import griffe
except ModuleNotFoundError:  # The tests of links need none of the site's tools.
    griffe = None

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FORGE = "https://github.com/accelerd/accelerd/blob/main"
#: Pages of documents outside of docs/.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "BENCHMARKS.md": "project/benchmarks.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "client/portalis/python/README.md": "project/portalis-python.md",
    "client/portalis/rust/README.md": "project/portalis-rust.md",
    "client/python/README.md": "project/client-python.md",
    "client/typescript/README.md": "project/client-typescript.md",
    "helm/accelerd/README.md": "project/helm.md",
}
#: Pages of Python modules: their public names.
MODULES = {
    "reference/accelerd.md": ("accelerd", "client/python/src/accelerd/__init__.py"),
    "reference/aio.md": ("accelerd.aio", "client/python/src/accelerd/aio.py"),
    "reference/testing.md": ("accelerd.testing", "client/python/src/accelerd/testing/__init__.py"),
    "reference/portalis_cuda.md": ("portalis_cuda", "client/portalis/python/src/portalis_cuda/__init__.py"),
}
_LINK = re.compile(r"(\]\()([^)\s#:]*)(#[^)\s]*)?(\))")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def public_names(module: str) -> list[str]:
    """Return the names that a module exports, classes and functions first."""
    tree = ast.parse((ROOT / module).read_text())
    imported = [name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names]
    listed = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    names = listed[0] if listed else [name for name in imported if name[0].isupper()]
    return sorted((name for name in names if not name.startswith("_")), key=lambda name: (name.isupper(), name.lower()))


def resolved(link: str, source: str, page: str) -> str:
    """Return where a link of a document leads on its page.

    Args:
        link: The path of the link, relative to the document.
        source: The document, from the root of the repository.
        page: The page of the document, from the root of the site.
    """
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    file = ROOT / target
    inside = target.removeprefix("docs/") if target.startswith("docs/") and file.is_file() else None
    if found := PAGES.get(target, inside):
        return posixpath.relpath(found, posixpath.dirname(page) or ".")
    if not target.startswith("..") and file.exists():
        return f"{FORGE}/{target}"
    # mkdocs reports it.
    return link


def rewritten(text: str, source: str, page: str) -> str:
    """Return a document with the links of its page. Code has none."""
    parts, end = [], 0
    for code in [*_CODE.finditer(text), None]:
        prose = text[end : code.start() if code else len(text)]
        parts.append(_LINK.sub(lambda link: _replaced(link, source, page), prose))
        if code:
            parts.append(code[0])
            end = code.end()
    return "".join(parts)


def _replaced(link: re.Match[str], source: str, page: str) -> str:
    path = resolved(link[2], source, page) if link[2] else ""
    return f"{link[1]}{path}{link[3] or ''}{link[4]}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and those of modules."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=rewritten((ROOT / source).read_text(), source, page)))
    for page, (module, path) in MODULES.items():
        members = "".join(f"\n::: {module}.{name}\n" for name in public_names(path))
        files.append(File.generated(config, page, content=f"# {module}\n{members}"))
    return files


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Resolve the links of pages in docs/."""
    uri = page.file.src_uri
    return text if page.file.generated_by else rewritten(text, f"docs/{uri}", uri)


if griffe:

    class AttributeComments(griffe.Extension):
        """Reads the comments `#:` before an attribute, which document it."""

        def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
            if attr.docstring is not None or attr.lineno is None or not isinstance(attr.filepath, Path):
                return
            before = attr.filepath.read_text().splitlines()[: attr.lineno - 1]
            comments: list[str] = []
            while before and before[-1].strip().startswith("#: "):
                comments.insert(0, before.pop().strip().removeprefix("#: "))
            if comments:
                attr.docstring = griffe.Docstring("\n".join(comments), parent=attr)
