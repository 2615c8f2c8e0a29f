"""The numbers that only ever get smaller: limits.json holds what the worst place may have."""

import os
import re

import rules
import source_text

# A declaration that ends here belongs to the class and is a method if it has a parameter list.
_NO_METHOD = re.compile(r'^\s*(?:using|typedef|static_assert|friend|template\s*<[^>]*>\s*friend|KVKEEP_\w+)\b')
_TEMPLATE = re.compile(r'^\s*template\s*<(?:[^<>]|<[^<>]*>)*>')
_ANNOTATION = re.compile(r'\b(?:REQUIRES|EXCLUDES|ACQUIRE|RELEASE|TRY_ACQUIRE|GUARDED_BY|CAPABILITY|alignas|decltype)\s*\([^()]*\)')
_DEFINED = re.compile(r'^(?!\s)[^#/}{;=]*?\b([A-Z]\w*)(?:<[^>]*>)?::~?(?:\w+|operator[^(]{1,4})\s*\(', re.M)


def methods_by_class(code):
    """(name, line, methods) of each class with a body. `code` is the output of code_only(). Nested classes count for
    themselves; deleted functions and `using` lines do not count."""
    found = []
    for match in re.finditer(r'\b(?:class|struct)\s+(?:CAPABILITY\("[^"]*"\)\s*|\[\[\w+\]\]\s*|SCOPED_CAPABILITY\s*)*'
                             r'(\w+(?:::\w+)*)(?:\s+final)?(?:\s*:[^;{()]*)?\s*\{', code):
        if re.search(r'\benum\s+$', code[:match.start()]):
            continue
        end = source_text.matching_brace(code, match.end() - 1)
        found.append((match.group(1), code.count('\n', 0, match.start()) + 1, _count_methods(code[match.end():end])))
    return found


def _count_methods(body):
    count = start = at = 0
    while at < len(body):
        letter = body[at]
        if letter == ';':
            count += _is_method(body[start:at])
            start = at + 1
        elif letter == '{':
            head = body[start:at]
            at = source_text.matching_brace(body, at)
            following = body[at + 1:at + 80].lstrip()[:1]
            if following not in (',', '{', ';') or _is_method(head) and following != ',' and following != '{':
                count += _is_method(head)
                start = at + 1
        elif letter == ':' and re.search(r'\b(?:public|private|protected)\s*$', body[start:at]):
            start = at + 1
        at += 1
    return count


def _is_method(declaration):
    text = _TEMPLATE.sub('', _ANNOTATION.sub('', declaration))
    if _NO_METHOD.search(text) or re.search(r'=\s*delete\s*$', text):
        return False
    before = text.split('(', 1)[0]
    return '(' in text and '=' not in before.replace('operator==', '').replace('operator=', '') and \
        not re.search(r'\b(?:class|struct|enum|std::function<[^;]*)\s*\w*\s*$', before) and 'std::function<' not in before


def files_by_class(sources):
    """Class name within its room -> product files that define its methods outside of the class."""
    found = {}
    for source in sources:
        if source.in_product() and source.path.endswith('.cc'):
            for match in _DEFINED.finditer(source.code):
                found.setdefault((os.path.dirname(source.path), match.group(1)), set()).add(source.path)
    return found


def pulled_in(sources, header):
    """Lines of our own headers that including `header` (a path) makes the compiler and a reader take in."""
    by_path = {source.path: source for source in sources}
    seen, left = set(), [header]
    while left:
        path = left.pop()
        if path in seen or path not in by_path:
            continue
        seen.add(path)
        left += ['src/' + name for _, name, quoted in source_text.includes(by_path[path].text) if quoted]
    return sum(source_text.line_count(by_path[path].code) for path in seen)


def unused_grants(sources):
    """Pairs of MAY_INCLUDE that no file of the room makes use of."""
    used = {room: set() for room in rules.MAY_INCLUDE}
    for source in sources:
        if source.room in used:
            used[source.room] |= {room_of_header(name) for _, name, quoted in source_text.includes(source.text) if quoted}
    present = {source.room for source in sources}
    return sorted(f'{room} -> {grant}' for room, grants in rules.MAY_INCLUDE.items() if room in present
                  for grant in grants - used[room])


def room_of_header(name):
    """The room that `#include "name"` reaches, longest folder first; None: not a header of a room."""
    folder = os.path.dirname(name)
    while folder:
        if folder in rules.MAY_INCLUDE:
            return folder
        folder = os.path.dirname(folder)
    return None


def measure(sources):
    """name -> (number, place of the worst)."""
    measured = {**_lengths(sources), **_classes(sources)}
    grants = unused_grants(sources)
    measured['unused_grants'] = (len(grants), ', '.join(grants))
    small = [source.path for source in sources
             if source.in_product() and source_text.line_count(source.text) <= rules.SMALL_FILE_LINES]
    measured['small_files'] = (len(small), f'{rules.SMALL_FILE_LINES} lines or fewer')
    reading = [(pulled_in(sources, header), header) for header in rules.READING_ORDER]
    measured['reading_order_lines'] = max(reading, default=(0, ''))
    return measured


def _lengths(sources):
    long_functions, long_files = [], []
    longest_function = longest_file = (0, '')
    for source in sources:
        lines = source_text.line_count(source.code)
        longest_file = max(longest_file, (lines, source.path))
        if lines > rules.LONG_FILE_LINES:
            long_files.append(f'{source.path} ({lines})')
        for line, length in source_text.functions(source.code):
            longest_function = max(longest_function, (length, f'{source.path}:{line}'))
            if length > rules.LONG_FUNCTION_LINES:
                long_functions.append(f'{source.path}:{line} ({length})')
    return {
        f'functions_over_{rules.LONG_FUNCTION_LINES}_lines': (len(long_functions), ', '.join(long_functions)),
        'longest_function_lines': longest_function,
        f'files_over_{rules.LONG_FILE_LINES}_lines': (len(long_files), ', '.join(long_files)),
        'longest_file_lines': longest_file,
    }


def _classes(sources):
    largest, large = (0, ''), []
    for source in sources:
        if not source.in_product():
            continue
        for name, line, methods in methods_by_class(source.code):
            if name in rules.PARSERS:
                continue
            largest = max(largest, (methods, f'{name} in {source.path}:{line}'))
            if methods > rules.LARGE_CLASS_METHODS:
                large.append(f'{name} ({methods})')
    spread = [f'{name} in {folder} ({len(files)})' for (folder, name), files in sorted(files_by_class(sources).items())
              if len(files) > rules.CLASS_FILES]
    return {
        f'classes_over_{rules.LARGE_CLASS_METHODS}_methods': (len(large), ', '.join(large)),
        'largest_class_methods': largest,
        f'classes_in_over_{rules.CLASS_FILES}_files': (len(spread), ', '.join(spread)),
    }
