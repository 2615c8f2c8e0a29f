"""Case and kind of every character of Unicode that Python knows: our engine says what Python says.

Letters of scripts without case, and what is for private use, are sampled. Versions of Unicode may differ: what Python
does not know yet is left out, and so is what utf8proc lacks (base/unicode.h says what).
"""

import sys
import unicodedata

import oracle

CHANGES = ('upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold')
QUESTIONS = ('isspace', 'isalpha', 'isalnum', 'isdecimal', 'isdigit', 'isnumeric', 'isprintable', 'isupper', 'islower', 'istitle')
AT_ONCE = 512
# A sigma's lower case depends on whether letters stand before and after it, whatever lies between.
AROUND_SIGMA = ('{}Σ', 'a{}Σ', 'aΣ{}', 'aΣ{}b', '{}Σ{}')


def characters():
    for code in range(1, sys.maxunicode + 1):  # a zero parts answers
        category = unicodedata.category(chr(code))
        is_sampled = code % 61 == 0 or code < 0x3000
        if category not in ('Cn', 'Cs') and (is_sampled or category not in ('Lo', 'Co')):
            yield chr(code)


def is_comparable(question, character):
    category = unicodedata.category(character)
    if question == 'isnumeric':
        return category != 'Lo'
    if question == 'isdigit':
        shape = unicodedata.decomposition(character).split(' ')[0]
        return category != 'No' or shape in ('<super>', '<sub>', '<circle>')
    if question in ('isupper', 'islower', 'istitle'):
        return category not in ('Lm', 'Lo', 'So')
    return True


def main():
    driver = oracle.Driver()
    calls = ''.join('{{ c.' + name + '() }}\x00' for name in (*CHANGES, *QUESTIONS))
    template = '{% for c in all %}' + calls + '{% endfor %}'
    sigma = '{% for c in all %}{{ c.lower() }}\x00{{ c.title() }}\x00{{ c|title }}\x00{% endfor %}'
    known = list(characters())
    for begin in range(0, len(known), AT_ONCE):
        part = known[begin:begin + AT_ONCE]
        said = driver.render(template, {'all': part})['text'].split('\x00')
        for place, character in enumerate(part):
            answers = said[place * (len(CHANGES) + len(QUESTIONS)):]
            for name, answer in zip((*CHANGES, *QUESTIONS), answers):
                if name in QUESTIONS and not is_comparable(name, character):
                    continue
                want = str(getattr(character, name)())
                if answer != want:
                    raise SystemExit(f'U+{ord(character):04X} {unicodedata.name(character, "?")}: {name} is {answer!a}, of Python {want!a}')
        texts = [form.format(character, character) for character in part if is_comparable('isupper', character)
                 for form in AROUND_SIGMA]
        want, problem = oracle.expected(sigma, {'all': texts})
        got = driver.render(sigma, {'all': texts}).get('text')
        if got != want:
            for text, ours, theirs in zip(texts, zip(*[iter(got.split('\x00'))] * 3), zip(*[iter(want.split('\x00'))] * 3)):
                if ours != theirs:
                    raise SystemExit(f'{text!a}: lower and title are {ours!a}, of Python {theirs!a} {problem}')
    driver.close()
    print(f'{len(known)} characters of Unicode {unicodedata.unidata_version}')
    if len(known) < 15000:
        raise SystemExit('too few')


if __name__ == '__main__':
    main()
