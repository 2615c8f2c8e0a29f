#!/usr/bin/env python3
"""The house test, tested: each rule must catch a small tree that breaks it, and leave a clean one alone."""

import os
import tempfile
import unittest

import commits
import house
import measures
import source_text

LIMITS = {'functions_over_70_lines': 0, 'longest_function_lines': 70, 'files_over_600_lines': 0, 'longest_file_lines': 600,
          'classes_over_50_methods': 0, 'largest_class_methods': 50, 'classes_in_over_1_files': 0, 'small_files': 10,
          'reading_order_lines': 30, 'unused_grants': 2}
CLEAN = {
    'src/base/result.h': '#pragma once\n#include <string>\nnamespace kvkeep { inline int one() { return 1; } }\n',
    'src/base/README.md': '# base\n',
    'src/os/clock.h': '#include <thread>\n#include <unistd.h>\n#include "base/result.h"\n',
    'src/os/clock.cc': 'long now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }\n',
    'src/os/README.md': '# os\n',
    'src/policy/cut.cc': '#include "base/result.h"\n// the caller calls fopen() and std::thread for us\nint cut() { return 1; }\n',
    'src/policy/README.md': '# policy\n',
    'src/store/ram.cc': '#include "os/clock.h"\nint ram() { return 1; }\nvoid touch(Clock& clock) { clock.now(); file->write(1); }\n',
    'src/store/ram_test.cc': '#include <thread>\n#include "store/ram.h"\n#include "testing/sim/disk.h"\n',
    'src/store/README.md': '# store\n',
    'docs/good.md': '# A `b`: c, d\n## Two\n## Two\n[x](#a-b-c-d) [y](#two-1) [z](../src/base/README.md#base) `[no](none.md)`\n'
                    '[w](https://example.test/#none)\n',
    'bench/README.md': 'line\n' * 20,
    'bench/prompt_bench.cc': '#include <thread>\n#include "server/routes/prompt.h"\n',
    'bench/report/figures.h': '#include "base/result.h"\n#include "text/terminal.h"\n',
    'bench/report/README.md': '# bench/report\n',
    'bench/count_shim/count_shim.cc': '#include <dlfcn.h>\n#include <llama.h>\n',
    'bench/count_shim/README.md': '# bench/count_shim\n',
    'model_maker/make_model.h': '#include <ggml.h>\n#include "base/result.h"\n',
    'model_maker/README.md': '# model_maker\n',
}


def check(changes):
    """Returns the house test's output for the clean tree with some files replaced (None: removed)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**CLEAN, **changes}.items():
            if text is None:
                continue
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write(text)
        return house.violations(root, LIMITS)


# name -> (files that break one rule, a piece of the message that must be the only one)
MUTANTS = {
    'upward include': ({'src/policy/cut.h': '#include "store/ram.h"\n'}, 'policy must not include store'),
    'sideways include': ({'src/policy/cut.h': '#include "index/prefix_index.h"\n'}, 'policy must not include index'),
    'include of a folder inside a room': ({'src/store/a.h': '#include "engine/fake/fake_engine.h"\n'},
                                          'store must not include engine/fake'),
    'a test that includes upward': ({'src/policy/cut_test.cc': '#include "store/ram.h"\n'}, 'policy must not include store'),
    'product code that includes test support': ({'src/store/a.h': '#include "testing/sim/disk.h"\n'}, 'is in no room'),
    'relative include': ({'src/store/a.h': '#include "ram.h"\n'}, 'is in no room'),
    'unknown room': ({'src/attic/a.h': '\n', 'src/attic/README.md': '\n'}, 'the room attic is not in'),
    'build file links upward': ({'src/CMakeLists.txt': 'kvkeep_room(base DIR base)\nkvkeep_room(store DIR store DEPS room_base)\n'
                                                       'kvkeep_room(policy DIR policy DEPS room_store fmt::fmt)\n'},
                                'policy must not link room_store'),
    'the server includes the bench': ({'src/store/a.h': '#include "bench/report/figures.h"\n'},
                                      'store must not include bench/report'),
    'the server makes models': ({'src/store/a.h': '#include "model_maker/make_model.h"\n'},
                                'store must not include model_maker'),
    'the bench includes upward': ({'bench/report/a.h': '#include "engine/engine.h"\n'},
                                  'bench/report must not include engine'),
    'unknown room of the bench': ({'bench/attic/a.h': '\n', 'bench/attic/README.md': '\n'}, 'the room bench/attic is not in'),
    'product code of the bench in no room': ({'bench/a.cc': '\n', 'bench/README.md': '\n'}, 'the room bench is not in'),
    'room of the bench without README': ({'bench/report/README.md': None}, 'no README.md'),
    'build file of the bench links upward': (
        {'src/CMakeLists.txt': 'kvkeep_room(engine DIR engine)\n',
         'bench/CMakeLists.txt': 'kvkeep_room(bench_report DIR report DEPS room_engine)\n'},
        'bench/report must not link room_engine'),
    'build file links the bench': (
        {'src/CMakeLists.txt': 'kvkeep_room(store DIR store DEPS room_model_maker)\n',
         'model_maker/CMakeLists.txt': 'kvkeep_room(model_maker DIR .)\n'},
        'store must not link room_model_maker'),
    'clock in a room of the bench': ({'model_maker/a.cc': 'auto t = Clock::now();\n'}, 'a clock belongs'),
    'log in a pure room of the bench': ({'bench/report/a.cc': '#include <spdlog/spdlog.h>\n'}, 'bench/report is pure'),
    'thread header': ({'src/store/a.cc': '#include <thread>\n'}, '<thread>'),
    'file header': ({'src/store/a.cc': '#include <fstream>\n'}, '<fstream>'),
    'system header': ({'src/store/a.cc': '#include <sys/stat.h>\n'}, '<sys/stat.h>'),
    'bare mutex': ({'src/store/a.cc': '#include <mutex>\n'}, '<mutex>'),
    'clock': ({'src/store/a.cc': 'auto t = std::chrono::steady_clock::now();\n'}, 'a clock belongs'),
    'clock through an alias': ({'src/store/a.cc': 'auto t = Clock::now();\n'}, 'a clock belongs'),
    'clock of the model library': ({'src/store/a.cc': 'auto t = ggml_time_us();\n'}, 'a clock belongs'),
    'thread': ({'apps/main.cc': 'std::jthread worker;\n'}, 'a thread or sleep'),
    'sleep': ({'src/store/a.cc': 'void f() { std::this_thread::sleep_for(1s); }\n'}, 'a thread or sleep'),
    'file call': ({'src/store/a.cc': 'auto* file = fopen(path, "r");\n'}, 'a file belongs'),
    'file call after a digit separator': ({'src/store/a.cc': "int n = 1'000'000; auto* file = fopen(path, \"r\");\n"},
                                          'a file belongs'),
    'file class': ({'src/store/a.cc': 'std::ifstream in{path};\n'}, 'a file belongs'),
    'system call': ({'src/store/a.cc': 'int fd = ::open(path, 0);\n'}, 'a file belongs'),
    'descriptor': ({'src/store/a.cc': 'void f() { ::close(3); }\n'}, 'a descriptor belongs'),
    'environment': ({'apps/main.cc': 'auto* home = std::getenv("HOME");\n'}, 'the environment'),
    'process': ({'src/store/a.cc': 'int child = fork();\n'}, 'the environment or a process'),
    'text past src/text': ({'apps/main.cc': 'void f() { std::fputs(name.c_str(), stderr); }\n'}, 'standard output belongs'),
    'formatted text past src/text': ({'src/store/a.cc': 'void f() { fmt::print("{}", name); }\n'}, 'standard output belongs'),
    'randomness': ({'src/store/a.cc': 'std::random_device random;\n'}, 'randomness'),
    'llama.h outside its room': ({'src/store/a.cc': '#include <llama.h>\n'}, 'llama.h belongs'),
    'gguf.h outside the engine': ({'apps/main.cc': '#include "gguf.h"\n'}, 'ggml and gguf'),
    'HTTP library outside its room': ({'apps/main.cc': '#include <boost/asio/post.hpp>\n'}, 'Boost'),
    'log in a pure room': ({'src/policy/a.cc': '#include <spdlog/spdlog.h>\n'}, 'policy is pure'),
    'lock in a pure room': ({'src/policy/a.cc': '#include "base/mutex.h"\n'}, 'policy is pure'),
    'clock interface in a pure room': ({'src/policy/a.cc': '#include <atomic>\n'}, 'policy is pure'),
    'link to a page that is not there': ({'docs/a.md': '[b](b.md)\n'}, 'there is no docs/b.md'),
    'link to a heading that is not there': ({'docs/a.md': '[b](b.md#three)\n', 'docs/b.md': '# One\n```\n# three\n```\n'},
                                            'docs/b.md has no heading for #three'),
    'link within a page': ({'docs/a.md': '# One\n[b](#two)\n'}, 'docs/a.md has no heading for #two'),
    'reference to a page that is not there': ({'docs/a.md': '[b]: ../gone.md\n'}, 'there is no gone.md'),
    'message that names a page that is not there': ({'src/policy/a.cc': 'auto* text = "docs/gone.md has more";\n'},
                                                    'docs/gone.md'),
    'promise': ({'src/policy/a.cc': '// TODO: later\n'}, 'TODO'),
    'skipped test': ({'src/policy/a_test.cc': 'TEST(A, b) { GTEST_SKIP(); }\n'}, 'GTEST_SKIP'),
    'disabled test': ({'src/policy/a_test.cc': 'TEST(A, DISABLED_b) {}\n'}, 'DISABLED_b'),
    'test that cannot fail': ({'tests/a_test.cc': 'TEST(A, b) { EXPECT_TRUE(true); }\n'}, 'EXPECT_TRUE(true)'),
    'room without README': ({'src/policy/README.md': None}, 'no README.md'),
    'long README': ({'src/policy/README.md': 'line\n' * 16}, '16 lines, at most 15'),
    'long file': ({'src/policy/a.cc': 'int x;\n' * 601}, 'longest_file_lines is 601'),
    'large class': ({'src/policy/a.h': 'class A {\n' + '  void f();\n' * 51 + '};\n'}, 'largest_class_methods is 51'),
    'large nested class': ({'src/policy/a.h': 'class A {\n  struct B {\n' + '  int f() const { return 1; }\n' * 51 + '};\n};\n'},
                           'largest_class_methods is 51'),
    'class of two files': ({'src/policy/a.cc': 'void A::f() {}\n', 'src/policy/b.cc': 'int A::g() const { return 1; }\n'},
                           'classes_in_over_1_files is 1'),
    'too many small files': ({f'src/policy/{name}.h': 'int x;\n' for name in 'abcde'}, 'small_files is 13'),
    'a header of the reading order that pulls in much': (
        {'src/policy/plan.h': '#include "policy/much.h"\n', 'src/policy/much.h': 'int x;\n' * 40}, 'reading_order_lines is 41'),
    'a grant that is not used': ({'src/os/clock.h': 'int x;\n'}, 'unused_grants is 3'),
    'long function': ({'src/policy/a.cc': 'void f() {\n' + '  g();\n' * 69 + '}\n'}, 'longest_function_lines is 71'),
    'long function that begins like a table': (
        {'src/policy/a.cc': 'void f() {\n  return {1};\n' + '  g();\n' * 69 + '}\n'}, 'longest_function_lines is 72'),
    'long lambda in a function': (
        {'src/policy/a.cc': 'void f() {\n  auto g = [] {\n' + '    h();\n' * 69 + '  };\n}\n'}, 'longest_function_lines is 73'),
    'long function in a class': ({'src/policy/a.h': 'class A {\n public:\n  A() : b_{1}, c_{2} {\n' + '    g();\n' * 69 + '  }\n};\n'},
                                 'longest_function_lines is 71'),
    'long test': ({'src/policy/a_test.cc': 'TEST(A, b) {\n' + '  g();\n' * 69 + '}\n'}, 'longest_function_lines is 71'),
}

# Trees that look like violations and are none.
INNOCENT = {
    'words in comments and strings': {'src/policy/a.cc': '// fopen(), std::thread\nauto text = "fork() ::open(";\n'},
    'include in a comment': {'src/policy/a.cc': '// #include "store/ram.h"\n'},
    'methods named like calls': {'src/policy/a.cc': 'void f() { file.open(1); stream->close(); engine.fork(a, b); Clock::real().now(); }\n'},
    'embedded text': {'src/policy/a.cc': 'const char* kText = R"x(\n' + 'TODO fopen( " {\n\n' * 300 + ')x";\n'},
    'long table in a function': {'src/policy/a.cc': 'Table table() {\n  return {\n' + '    {1, 2},\n' * 80 + '  };\n}\n'},
    'long table before code': {'src/policy/a.cc': 'void f() {\n  const Case cases[] = {\n' + '      {1, 2},\n' * 80 + '  };\n  g();\n}\n'},
    'long initialiser': {'src/policy/a.cc': 'constexpr int kTable[] = {\n' + '  1,\n' * 80 + '};\n'},
    'sockets of the HTTP library': {'src/server/http/a.cc': '#include <sys/socket.h>\nvoid f() { ::close(3); }\n',
                                    'src/server/http/b.h': '#include "base/result.h"\n#include "os/clock.h"\n',
                                    'src/server/http/README.md': '\n'},
    'a model made in a test': {'src/store/a_test.cc': '#include "model_maker/make_model.h"\n'},
    'test support in a test': {'src/store/a_test.cc': '#include "testing/sim/disk.h"\n'},
}


class HouseMutants(unittest.TestCase):
    def test_clean_tree_passes(self):
        self.assertEqual(check({}), [])

    def test_every_mutant_is_caught(self):
        for name, (changes, message) in MUTANTS.items():
            with self.subTest(name):
                found = check(changes)
                self.assertTrue(found, 'not caught')
                self.assertTrue(all(message in line or 'over_' in line for line in found) and
                                any(message in line for line in found), found)

    def test_innocent_code_passes(self):
        for name, changes in INNOCENT.items():
            with self.subTest(name):
                self.assertEqual(check(changes), [])

    def test_tightening_only_lowers(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, 'src'))
            with open(os.path.join(root, 'src', 'a.cc'), 'w', encoding='utf-8') as file:
                file.write('int f() {\n' + '  g();\n' * 8 + '}\n')
            limits = {**LIMITS, 'longest_file_lines': 7}
            self.assertEqual(house.tightened(house.sources(root), limits),
                             {**dict.fromkeys(LIMITS, 0), 'longest_function_lines': 10, 'longest_file_lines': 7,
                              'small_files': 1})


class FunctionFinder(unittest.TestCase):
    def lengths(self, text):
        return [length for _, length in source_text.functions(source_text.code_only(text))]

    def test_finds_bodies_where_they_are(self):
        self.assertEqual(self.lengths('namespace a {\nclass B : public C {\n  int f() const {\n    return 1;\n  }\n};\n}\n'), [3])
        self.assertEqual(self.lengths('struct A {\n  int x = 0;\n};\nint f(int a) {\n  if (a) {\n    g();\n  }\n}\n'), [5])
        self.assertEqual(self.lengths('A::A(int x) : b_{x}, c_(x) {\n  g();\n}\nint h() { return 1; }\n'), [3, 1])
        self.assertEqual(self.lengths('#define F(x) \\\n  { x; \\\n  }\nvoid f() {}\n'), [1])
        self.assertEqual(self.lengths('enum class E { kA, kB };\nvoid f() { auto c = \'{\'; }\n'), [1])
        self.assertEqual(self.lengths('class CAPABILITY("mutex") M {\n  void f() {\n  }\n};\n'), [2])


class MethodCounter(unittest.TestCase):
    def counts(self, text):
        return [(name, methods) for name, _, methods in measures.methods_by_class(source_text.code_only(text))]

    def test_counts_what_a_class_can_do(self):
        self.assertEqual(self.counts('class A {\n public:\n  A();\n  ~A();\n  A(const A&) = delete;\n  int f() const;\n'
                                     '  bool operator==(const A&) const = default;\n private:\n  int x_ = g(1);\n};\n'),
                         [('A', 4)])
        self.assertEqual(self.counts('struct B {\n  int x = 0;\n  std::function<void(int)> call;\n  enum class E { kA };\n};\n'),
                         [('B', 0)])
        self.assertEqual(self.counts('class C : public D {\n  C() : x_{1}, y_(2) { f(); }\n  void g() REQUIRES(mutex_);\n'
                                     '  Mutex m_ GUARDED_BY(n_);\n  friend class E;\n};\n'), [('C', 2)])
        self.assertEqual(self.counts('template <typename T>\nclass F {\n  template <typename U> void f(U u) { g(u); }\n'
                                     '  static int h();\n};\n'), [('F', 2)])

    def test_finds_the_files_of_a_class(self):
        sources = [house.Source.__new__(house.Source) for _ in range(2)]
        for source, path, code in zip(sources, ('src/a/x.cc', 'src/a/y.cc'),
                                      ('Result<int> A::f() {\n}\n', 'A::A() : x_(B::g()) {\n  C::h();\n}\n')):
            source.path, source.code, source.is_test = path, code, False
        self.assertEqual(measures.files_by_class(sources), {('src/a', 'A'): {'src/a/x.cc', 'src/a/y.cc'}})


class CommitMessages(unittest.TestCase):
    def test_a_good_message_has_no_fault(self):
        self.assertEqual(commits.faults('Read two heads at once', 'One after the other took a second.'), [])

    def test_each_fault_is_reported(self):
        for subject, body, fault in (('Read ' + 'x' * 68, 'why', '73 characters'), ('read', 'why', 'capital'),
                                     ('Read.', 'why', 'full stop'), ('Read; write', 'why', 'two things'),
                                     ('Read', ' ', 'no body')):
            with self.subTest(subject):
                self.assertEqual([fault in found for found in commits.faults(subject, body)], [True])


if __name__ == '__main__':
    unittest.main()
