"""What MkDocs calls while it builds the site: pages are added, and links are made to fit them."""

from __future__ import annotations

from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_site import commands, examples, reference, sources
from docs_site.links import (
    OTHER_PAGES,
    ROOT,
    is_elsewhere,
    linked_path,
    repository_path,
    site_target,
    targets,
    with_targets,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The menu gets the packages of the reference."""
    for item in config.nav or ():
        if item == {"API reference": "reference/index.md"}:
            item["API reference"] = reference.navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from outside of ``docs/``, pages of the reference, and the files that either links to."""
    for path, name in OTHER_PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text()))
    for name, text in reference.pages(config.extra["source_url"]).items():
        files.append(File.generated(config, name, content=text))
    if not config.extra["source_url"]:
        for path in sorted(sources.with_contents({*_linked_files(files), *_modules()})):
            files.append(File.generated(config, sources.page_of(path), content=sources.content_of(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links fit the site."""
    name = page.file.src_uri
    if name.startswith(f"{reference.FOLDER}/"):
        return markdown

    def source_page(path: str) -> str:
        return sources.address_of(path, config.extra["source_url"])

    if name == commands.PAGE:
        markdown += f"\n{commands.section()}"
    if name == examples.PAGE:
        markdown += f"\n{examples.section()}"
    return with_targets(markdown, lambda target: site_target(name, target, source_page))


def _modules() -> Iterator[str]:
    for module in reference.modules():
        yield sources.source_path(module)


def _linked_files(files: Files) -> Iterator[str]:
    """Files and folders outside of ``docs/`` to which a page links, unless they are pages themselves."""
    for file in files.documentation_pages():
        if file.src_uri.startswith(f"{reference.FOLDER}/"):
            continue
        page = repository_path(file.src_uri)
        for target in targets(file.content_string):
            path = linked_path(page, target)
            if not is_elsewhere(target) and not path.startswith("docs/") and path not in {*OTHER_PAGES, "README.md"}:
                yield path
