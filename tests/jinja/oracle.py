"""Python's jinja2, set up as chat templates are rendered by the programs their authors test them with."""

import datetime
import functools
import json
import os
import subprocess
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

TIME_S = 1718100000  # 2024-06-11 10:00:00

# Messages are made of these letters, and no template has them: where they turn up, a message is.
MESSAGE_LETTERS = '的一是不了人我在有他'


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant wrote; prints its body."""

    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_support'), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(pattern):
    return datetime.datetime.fromtimestamp(TIME_S, datetime.timezone.utc).strftime(pattern)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, jinja2.ext.loopcontrols, jinja2.ext.do])
    made.filters['tojson'] = tojson
    made.globals['raise_exception'] = raise_exception
    made.globals['strftime_now'] = strftime_now
    return made


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=8)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def expected(template, context):
    """Returns the text that jinja2 prints, or None if it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return compiled(template).render(**context), None
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001: any error of a template is an answer here
        return None, f'{type(error).__name__}: {error}'


class Driver:
    """The engine under test, in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ['KVKEEP_JINJA_DRIVER']], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding='utf-8')

    def render(self, template, context):
        job = {'template': template, 'context': context, 'time': TIME_S}
        self.process.stdin.write(json.dumps(job) + '\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f'the driver ended with {self.process.wait()}')
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise AssertionError(f'the driver ended with {self.process.returncode}')


def provenance_error(reply, letters=MESSAGE_LETTERS):
    """Says where a byte's origin is not that of its letter; None if all are right."""
    data = reply['text'].encode()
    at = 0
    for size, from_message in reply['runs']:
        run = data[at:at + size].decode(errors='replace')
        wrong = [letter for letter in run if (letter in letters) != from_message]
        if wrong:
            return f'{run!r} is said to come from {"a message" if from_message else "the template"}'
        at += size
    return None if at == len(data) else 'the runs are not as long as the text'
