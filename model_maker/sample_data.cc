#include "model_maker/sample_text.h"

// Written for this file: output of tools, and messages between clients and servers.

namespace kvkeep::gguf {

std::string_view sample_data() {
  return R"text({"model": "default", "messages": [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "List the files in the current directory."}], "stream": true, "temperature": 0.7, "max_tokens": 1024, "tools": [{"type": "function", "function": {"name": "bash", "description": "Runs a command in the shell and returns its output.", "parameters": {"type": "object", "properties": {"command": {"type": "string", "description": "The command to run"}, "timeout": {"type": "number", "description": "Seconds to wait"}}, "required": ["command"]}}}, {"type": "function", "function": {"name": "read_file", "description": "Reads a file from the file system. The path must be absolute.", "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"}}, "required": ["file_path"], "additionalProperties": false}}}, {"type": "function", "function": {"name": "edit_file", "description": "Replaces text in a file.", "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}, "old_string": {"type": "string"}, "new_string": {"type": "string"}, "replace_all": {"type": "boolean", "default": false}}, "required": ["file_path", "old_string", "new_string"]}}}]}
<tool_call>
{"name": "bash", "arguments": {"command": "ls -la src && git status --short"}}
</tool_call>
<tool_call>
{"name": "read_file", "arguments": {"file_path": "/home/user/project/src/main.cc", "offset": 0, "limit": 200}}
</tool_call>
{"id": "chatcmpl-123", "object": "chat.completion", "created": 1712345678, "model": "default", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{\"query\": \"error\", \"path\": \"src\"}"}}]}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 120, "completion_tokens": 15, "total_tokens": 135, "prompt_tokens_details": {"cached_tokens": 100}}}
{
  "name": "example-app",
  "version": "1.4.2",
  "description": "A small example",
  "private": true,
  "main": "dist/index.js",
  "scripts": {
    "build": "tsc --project tsconfig.json",
    "start": "node dist/index.js",
    "test": "vitest run",
    "lint": "eslint src --ext .ts"
  },
  "dependencies": {
    "express": "^4.18.2",
    "react": "^18.2.0"
  },
  "devDependencies": {
    "@types/node": "^20.1.0",
    "typescript": "^5.4.5"
  },
  "author": null,
  "license": "MIT"
}
[
  {"id": 1, "title": "First item", "price": 19.99, "tags": ["new", "sale"], "in_stock": true},
  {"id": 2, "title": "Second item", "price": 5.00, "tags": [], "in_stock": false},
  {"id": 3, "title": "Third item", "price": 120.50, "tags": ["large"], "in_stock": true}
]
{
    "status": "ok",
    "data": {
        "user": {
            "id": "a1b2c3",
            "first_name": "Anna",
            "last_name": "Miller",
            "email": "anna.miller@example.com",
            "active": true,
            "address": {
                "street": "Main Street 12",
                "city": "Springfield",
                "country": "US"
            }
        },
        "items": [],
        "count": 0,
        "next": null
    },
    "error": null
}

$ git status
On branch main
Your branch is up to date with 'origin/main'.

Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
	modified:   src/server.cc
	modified:   tests/server_test.cc

Untracked files:
  (use "git add <file>..." to include in what will be committed)
	notes.txt

$ ls -la
total 48
drwxr-xr-x  6 user user 4096 Mar  3 10:12 .
drwxr-xr-x 20 user user 4096 Mar  1 09:00 ..
drwxr-xr-x  8 user user 4096 Mar  3 10:12 .git
-rw-r--r--  1 user user  220 Mar  1 09:00 .gitignore
-rw-r--r--  1 user user 1834 Mar  2 17:45 CMakeLists.txt
-rw-r--r--  1 user user 3120 Mar  1 09:00 README.md
drwxr-xr-x  2 user user 4096 Mar  3 10:10 src
drwxr-xr-x  2 user user 4096 Mar  2 18:30 tests
-rwxr-xr-x  1 user user  512 Mar  1 09:00 run.sh

$ cmake --build build -j4
[1/12] Building CXX object src/CMakeFiles/core.dir/parser.cc.o
[2/12] Building CXX object src/CMakeFiles/core.dir/server.cc.o
FAILED: src/CMakeFiles/core.dir/server.cc.o
src/server.cc:42:17: error: no member named 'port' in 'Options'
   42 |     int port = options.port;
      |                ~~~~~~~ ^
src/server.cc:57:5: warning: unused variable 'result' [-Wunused-variable]
1 error and 1 warning generated.
ninja: build stopped: subcommand failed.

$ ctest --test-dir build
Test project /home/user/project/build
    Start 1: base_test
1/3 Test #1: base_test ........................   Passed    0.02 sec
    Start 2: store_test
2/3 Test #2: store_test .......................   Passed    0.41 sec
    Start 3: server_test
3/3 Test #3: server_test ......................***Failed    1.30 sec

67% tests passed, 1 tests failed out of 3

$ pytest -q
....F...                                                                 [100%]
=================================== FAILURES ===================================
_______________________________ test_load_config _______________________________

    def test_load_config():
>       assert load_config("missing.json") == {}
E       FileNotFoundError: [Errno 2] No such file or directory: 'missing.json'

tests/test_config.py:14: FileNotFoundError
=========================== short test summary info ============================
FAILED tests/test_config.py::test_load_config - FileNotFoundError: [Errno 2]
1 failed, 7 passed in 0.35s

Traceback (most recent call last):
  File "/home/user/project/main.py", line 27, in <module>
    main()
  File "/home/user/project/main.py", line 19, in main
    value = config["timeout"]
KeyError: 'timeout'

$ grep -rn "TODO" src | head -5
src/parser.cc:88:  // TODO: handle escapes
src/server.cc:120:  // TODO: limit the size of the request

$ for f in *.log; do echo "$f"; tail -n 3 "$f" | sed 's/^/  /'; done
$ if [ ! -d build ]; then mkdir -p build; fi; cd build && cmake .. -DCMAKE_BUILD_TYPE=Release > /dev/null 2>&1
$ export PATH="$HOME/.local/bin:$PATH"; sudo systemctl restart nginx
$ curl -s -X POST http://localhost:8080/v1/chat/completions -H "Content-Type: application/json" -d @request.json | jq '.choices[0].message.content'
$ docker run --rm -it -v "$PWD:/work" -p 8080:80 python:3.12 bash
$ npm install && npm run build

2024-03-03 10:15:42 INFO  server started on 127.0.0.1:8080
2024-03-03 10:15:47 INFO  GET /health 200 0.4 ms
2024-03-03 10:16:02 WARN  slow request: POST /v1/chat/completions took 2310 ms
2024-03-03 10:16:09 ERROR connection reset by peer

diff --git a/src/server.cc b/src/server.cc
index 3f2a1bc..9d8e7f6 100644
--- a/src/server.cc
+++ b/src/server.cc
@@ -39,7 +39,9 @@ Status Server::start(const Options& options) {
   if (running_) return Status::invalid("already running");
-  int port = options.port;
+  const int port = options.port;
+  if (port < 0 || port > 65535) return Status::invalid("port out of range");
   socket_ = open_socket(options.host, port);
   return Status::ok();
 }

# Getting started

This project is a small **web server** written in C++. It has no dependencies apart from the standard library.

## Installation

1. Clone the repository
2. Build it with `cmake -B build && cmake --build build`
3. Start the server: `./build/server --port 8080`

## Options

| Option | Default | Description |
|---|---|---|
| `--port` | 8080 | the port to listen on |
| `--threads` | 4 | number of worker threads |
| `--verbose` | off | print every request |

## Usage

- Open `http://localhost:8080` in your browser.
- See [the documentation](docs/index.md) for more examples.
- [ ] Write more tests
- [x] Support HTTPS

```python
import requests

response = requests.get("http://localhost:8080/health", timeout=5)
print(response.status_code, response.json())
```

```bash
make test
```

> **Note:** this is not ready for production.

name: build
on:
  push:
    branches: [main]
  pull_request:
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Build
        run: cmake -B build && cmake --build build
      - name: Test
        run: ctest --test-dir build --output-on-failure

[package]
name = "example"
version = "0.1.0"
edition = "2021"

[dependencies]
serde = { version = "1.0", features = ["derive"] }
)text";
}

}  // namespace kvkeep::gguf
