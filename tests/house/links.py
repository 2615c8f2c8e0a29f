"""Links between the pages: the file is there, and so is the heading that an anchor names (as GitHub makes anchors)."""

import os
import re

import source_text

_FENCE = re.compile(r'^(```|~~~).*?^\1', re.M | re.S)
_CODE = re.compile(r'`[^`\n]*`')
_LINK = re.compile(r'\]\(\s*<?([^)>\s]+)>?(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s*(\S+)', re.M)
_HEADING = re.compile(r'^#{1,6}\s+(.*?)\s*#*\s*$', re.M)
_NAMED = re.compile(r'<a\s+(?:id|name)="([^"]+)"')
_PAGE = re.compile(r'\bdocs/[\w./-]+\.md(?:#[\w-]+)?')


def pages(root):
    """Every Markdown file, relative to the root; build folders and what was fetched have none of ours."""
    found = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if not name.startswith(('.', 'build', 'node_modules')) and name not in ('shared', 'corpus', 'dist')]
        found += [os.path.relpath(os.path.join(place, name), root) for name in names if name.endswith('.md')]
    return sorted(found)


def anchors(text):
    """The anchors of a page: headings in small letters without punctuation; the second of a name gets a number."""
    found = set(_NAMED.findall(text))
    seen = {}
    for heading in _HEADING.findall(_FENCE.sub('', text)):
        words = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).lower()
        name = re.sub(r'[^\w\- ]', '', words).replace(' ', '-')
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f'{name}-{count}' if count else name)
    return found


def _links(text):
    """(line, target) of each link outside of code."""
    blank = _FENCE.sub(lambda match: '\n' * match.group().count('\n'), text)
    blank = _CODE.sub(lambda match: ' ' * len(match.group()), blank)
    for match in _LINK.finditer(blank):
        yield blank.count('\n', 0, match.start()) + 1, match.group(1) or match.group(2)


class Pages:
    def __init__(self, root):
        self.root = root
        self._anchors = {}

    def trouble(self, page, target):
        """Why this target of a link on the page leads nowhere; None if it does not."""
        path, _, anchor = target.partition('#')
        place = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(self.root, place)):
            return f'there is no {place}'
        if anchor and place.endswith('.md') and anchor not in self._anchors_of(place):
            return f'{place} has no heading for #{anchor}'
        return None

    def _anchors_of(self, place):
        if place not in self._anchors:
            with open(os.path.join(self.root, place), encoding='utf-8') as file:
                self._anchors[place] = anchors(file.read())
        return self._anchors[place]


def broken(root, all_sources):
    """Links of the pages, and pages that comments and messages of the sources name."""
    every = Pages(root)
    found = []
    for page in pages(root):
        with open(os.path.join(root, page), encoding='utf-8') as file:
            text = file.read()
        for line, target in _links(text):
            if re.match(r'[a-z][a-z0-9+.-]*:', target):
                continue
            trouble = every.trouble(page, target)
            if trouble:
                found.append(f'{page}:{line}: ({target}): {trouble}')
    for source in all_sources:
        for line, text in enumerate(source_text.without_data(source.text).splitlines(), 1):
            for target in _PAGE.findall(text):
                trouble = every.trouble('', target)
                if trouble:
                    found.append(f'{source.path}:{line}: {target}: {trouble}')
    return found
