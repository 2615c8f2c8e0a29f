"""The rules of the house: who may include whom, and what belongs where. ARCHITECTURE.md draws the same picture."""

import re

# Room -> rooms whose headers it may include besides its own. A room is a folder under src/, or one of those
# beside the server, whose names are their whole paths. No room has a grant that it does not use: the next one says by
# adding it that it looks further than before.
MAY_INCLUDE = {
    'base': set(),
    'os': {'base'},
    'text': {'base'},
    'format': {'base'},
    'explain': {'base', 'text'},
    'index': {'base', 'format'},
    'policy': {'base'},
    'store': {'base', 'format', 'os'},
    'share': {'base', 'format', 'os', 'policy', 'store'},
    'share/engines': {'base', 'os', 'share'},
    'cache': {'base', 'explain', 'format', 'index', 'os', 'policy', 'share', 'store'},
    'chat/jinja': {'base'},
    'chat': {'base', 'chat/jinja'},
    'chat/replay': {'base', 'chat'},
    'chat/grammar': {'base'},
    'chat/tools': {'base', 'chat', 'chat/grammar'},
    'engine': {'base', 'cache'},
    'engine/gguf': {'base', 'os'},
    'engine/fake': {'base', 'engine'},
    'engine/llama': {'base', 'cache', 'engine', 'engine/gguf', 'format', 'os', 'text'},
    'engine/media': {'base', 'engine', 'engine/gguf', 'engine/llama'},
    'server/api': {'base', 'chat', 'chat/grammar', 'chat/tools', 'engine'},
    'server/run': {'base', 'cache', 'engine', 'explain', 'format', 'index', 'os', 'policy', 'share', 'store'},
    'server/http': {'base', 'os'},
    'server/web': {'server/http'},
    'server/trace': {'base', 'cache', 'chat', 'explain', 'format', 'os', 'server/api', 'server/run', 'store'},
    'server/routes': {'base', 'cache', 'chat', 'chat/replay', 'chat/tools', 'engine', 'format', 'os', 'policy', 'server/api',
                      'server/http', 'server/run', 'server/trace', 'share', 'store'},
    'inspect': {'base', 'format', 'index', 'os', 'policy', 'store'},
    'carry': {'base', 'format', 'inspect', 'os', 'share', 'store'},
    'inspect/print': {'base', 'inspect', 'text'},
    'top': {'base', 'text'},
    'top/screen': {'base', 'top'},
    'model_maker': {'base'},
    'bench/count_shim': set(),
    'bench/report': {'base', 'text'},
    'bench/sessions': {'base', 'explain'},
    'bench/workloads': {'base', 'text'},
    'bench/run': {'base', 'bench/report', 'bench/sessions', 'bench/workloads', 'format', 'os', 'server/http'},
    'bench/parts': {'base', 'bench/report', 'cache', 'engine', 'engine/llama', 'format', 'index', 'os', 'server/run'},
}
# Places of rooms besides src/.
BESIDE_THE_SERVER = ('bench/', 'model_maker/')


def folder_of(room):
    return room if f'{room}/'.startswith(BESIDE_THE_SERVER) else f'src/{room}'


# Test files anywhere may make models.
FOR_ALL_TESTS = {'model_maker'}
# Preloaded into processes of others, so that nothing of ours is there to call the system for it.
IN_OTHER_PROCESSES = ('bench/count_shim/',)
PURE_ROOMS = ('explain', 'format', 'index', 'policy', 'chat', 'chat/grammar', 'chat/jinja', 'chat/replay', 'chat/tools', 'server/api', 'text', 'top', 'inspect/print', 'bench/report', 'bench/sessions', 'bench/workloads')  # no clock, file, thread, lock or log
TEST_FILE = re.compile(r'_(test|bench|fixture)\.(cc|h)$|/test_seed\.h$')

# (name, pattern over an included header, folders where it is welcome): libraries have one room each.
HEADER_HOMES = [
    ('llama.h', re.compile(r'^llama(-cpp)?\.h$'), ('src/engine/llama/',)),
    ('ggml and gguf', re.compile(r'^(ggml|gguf)[-\w]*\.h$'), ('src/engine/', 'model_maker/')),
    ('libmtmd', re.compile(r'^mtmd[-\w]*\.h$'), ('src/engine/media/projector.cc',)),
    ('Boost', re.compile(r'^boost/'), ('src/server/http/',)),
    ('zlib', re.compile(r'^zlib\.h$'), ('src/server/http/', 'src/engine/media/media_file.cc')),
    ('libwebp', re.compile(r'^webp/'), ('src/engine/media/webp_pixels.cc',)),
    ('BLAKE3 and xxHash', re.compile(r'^(blake3|xxhash)\.h$'), ('src/base/',)),
    ('ncurses', re.compile(r'^n?curses(w?/\w+)?\.h$'), ('src/top/screen/',)),
    ('zstd', re.compile(r'^zstd\w*\.h$'), ('src/format/built_state.cc',)),
    ('OpenSSL', re.compile(r'^openssl/'), ('src/share/cipher.cc', 'src/share/engines/valkey_connection.cc')),
    ('hiredis', re.compile(r'^hiredis/'), ('src/share/engines/valkey_connection.cc',)),
    ('libcurl', re.compile(r'^curl/'), ('src/share/engines/s3_client.cc', 'src/server/http/remote_file.cc')),
    ('utf8proc', re.compile(r'^utf8proc\.h$'), ('src/base/unicode.cc',)),
    # The HTTP room's own sockets are the named exception to "system calls only in os".
    ('sockets', re.compile(r'^(unistd|poll|netdb|sys/socket|sys/types)\.h$|^(netinet|arpa)/'), ('src/os/', 'src/server/http/')),
    ('the system', re.compile(r'^(fcntl|pthread|sched|spawn|dirent|signal|dlfcn|time|semaphore)\.h$|^sys/(?!socket|types)|^linux/'
                              r'|^(csignal|thread|future|fstream|filesystem|stop_token)$'), ('src/os/',)),
    ('locks', re.compile(r'^(mutex|shared_mutex|condition_variable|semaphore|latch|barrier)$'),
     ('src/os/', 'src/base/mutex.h')),
]

# (name, pattern over code without comments and strings, folders where it is welcome)
CODE_HOMES = [
    ('a clock', re.compile(r'\b\w*[cC]lock\w*::now\s*\(|\b(?:clock_gettime|gettimeofday|std::time|(?:ggml|llama)_time_[um]s)\s*\('),
     ('src/os/',)),
    ('a thread or sleep', re.compile(r'\bstd::(?:thread|jthread|async|this_thread)\b|\bpthread_\w+\s*\('
                                     r'|\b(?:usleep|nanosleep|sleep)\s*\('), ('src/os/',)),
    ('a file', re.compile(r'\b(?:fopen|fdopen|fread|fwrite|freopen|opendir|mkstemp|mmap|munmap|fsync)\s*\('
                          r'|\bstd::(?:filesystem|[io]?fstream)\b'
                          r'|(?<![\w:>])::(?:open|pread|pwrite|unlink|rename|stat|fstat|mkdir|fcntl)\s*\('), ('src/os/',)),
    ('a descriptor', re.compile(r'(?<![\w:>])::(?:close|read|write|socket|listen|accept|poll)\s*\('),
     ('src/os/', 'src/server/http/')),
    ('the environment or a process', re.compile(r'\b(?:getenv|secure_getenv|setenv|popen|vfork|execvp?e?|posix_spawnp?|sigaction|'
                                                r'std::signal|std::system)\s*\(|\bfork\s*\(\)|(?<![\w:>])::(?:fork|kill)\s*\('),
     ('src/os/',)),
    # Standard output and error: words of others must go through src/text on their way to a terminal.
    ('standard output', re.compile(r'\b(?:v?f?printf|f?puts|fputc|putchar|putc)\s*\(|\bfmt::print(?:ln)?\s*\(|\bstd::(?:print(?:ln)?\s*\(|cout\b|cerr\b|clog\b)'),
     ('apps/output.cc', 'src/base/assert.h', 'src/engine/llama/')),
    ('randomness of the system', re.compile(r'\bstd::random_device\b|\bgetrandom\s*\('), ('src/os/',)),
]

# Further words that pure rooms must not have.
IMPURE_HEADER = re.compile(r'^(spdlog/|os/|atomic$|iostream$|base/mutex\.h$)')
IMPURE_CODE = re.compile(r'\bspdlog::|\bMutexLock\b|\bstd::(?:atomic|mutex)\b')

# Promises of later work, and tests that do not test.
BANNED_WORDS = re.compile(r'\b(TODO|FIXME|GTEST_SKIP|DISABLED_\w+|SUCCEED\(\)|EXPECT_TRUE\(true\)|ASSERT_TRUE\(true\))')

README_LINES = 15
LONG_FUNCTION_LINES = 70
LONG_FILE_LINES = 600
SMALL_FILE_LINES = 40
LARGE_CLASS_METHODS = 50
CLASS_FILES = 1  # product files that define the methods of one class
PARSERS = ('Parser',)  # classes whose methods are the productions of a grammar, and so may be many
# ARCHITECTURE.md's reading order: headers that a newcomer opens first.
READING_ORDER = ('src/cache/cache.h', 'src/index/prefix_index.h', 'src/policy/plan.h', 'src/server/run/scheduler.h',
                 'src/cache/model_memory.h', 'src/engine/llama/sequence_memory.h', 'src/store/disk_store.h')
