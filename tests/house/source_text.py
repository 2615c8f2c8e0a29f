"""C++ text as the house test sees it: without comments, with strings emptied, and cut into functions."""

import re

_LITERAL = re.compile(
    r'//[^\n]*'                                                   # comment to the end of the line
    r'|/\*.*?\*/'                                                 # comment block
    r'|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"'              # raw string
    r'|"(?:\\.|[^"\\\n])*"'                                       # string
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",                      # character, not a digit separator
    re.DOTALL)


DATA = '\x01'  # stands for each character inside a raw string: embedded text is no code


def code_only(text):
    """Comments and literals become blanks; line numbers stay."""
    return _LITERAL.sub(lambda match: _blank(match.group()), text)


def without_data(text):
    """The text without what raw strings embed; comments stay."""
    return _LITERAL.sub(lambda match: _blank(match.group()) if match.group().startswith('R"') else match.group(), text)


def _blank(literal):
    if literal.startswith('R"'):
        return '""' + re.sub(r'[^\n]', DATA, literal[2:]).replace('\n', DATA + '\n')
    inside = re.sub(r'[^\n]', ' ', literal)
    return '""' + inside[2:] if literal.endswith('"') else inside


def line_count(text):
    """Lines, those of embedded text aside. `text` is the output of code_only()."""
    return sum(1 for line in text.splitlines() if line.strip(' ' + DATA) or DATA not in line)


def includes(text):
    """(line, name, quoted) of every #include, those in comments aside."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if match:
            found.append((number, match.group(2), match.group(1) == '"'))
    return found


def functions(text):
    """(line, length in lines) of every function body. `text` is the output of code_only().

    A brace whose head has a parameter list opens a function; namespaces and classes are entered, everything else
    (initialisers, enums) is passed over. This is no parser; it needs code formatted like ours.
    """
    found = []
    text = re.sub(r'^[ \t]*#(?:[^\n\\]|\\\n|\\.)*', lambda match: re.sub(r'[^\n]', ' ', match.group()), text, flags=re.M)
    head_start = 0
    at = 0
    while at < len(text):
        letter = text[at]
        if letter in ';}':
            head_start = at + 1
        elif letter == '{':
            head = text[head_start:at]
            end = matching_brace(text, at)
            if _is_container(head):
                head_start = at + 1
            elif '(' in head and _is_member_initialiser(head, text, end):
                at = end  # `: name_{1}, other_{2} {`: the body is still to come
            else:
                if '(' in head:
                    found.append((text.count('\n', 0, at) + 1, line_count(_without_tables(text[at:end + 1]))))
                at = end
                head_start = end + 1
        at += 1
    return found


def _is_container(head):
    return '(' not in re.sub(r'\b(?:alignas|__attribute__|CAPABILITY|KVKEEP_ANNOTATE)\s*\(+[^)]*\)+', '', head) and re.search(
        r'\b(namespace|class|struct|union)\b|\bextern\b', head) and not re.search(r'=\s*$|\benum\b', head)


def _without_tables(body):
    """The body without the rows of `= {...}` and `return {...}`: data is no control flow, however long."""
    kept, at = [], 0
    for opening in re.finditer(r'(?:=|\breturn)\s*\{', body):
        if opening.start() >= at:
            kept.append(body[at:opening.end()])
            at = matching_brace(body, opening.end() - 1)
    return ''.join(kept) + body[at:]


def _is_member_initialiser(head, text, end):
    following = text[end + 1:end + 200].lstrip()
    return following[:1] in (',', '{') and re.search(r'\)[^;]*:[^:]', head) is not None


def matching_brace(text, opening):
    depth = 0
    for at in range(opening, len(text)):
        if text[at] == '{':
            depth += 1
        elif text[at] == '}':
            depth -= 1
            if depth == 0:
                return at
    return len(text) - 1
